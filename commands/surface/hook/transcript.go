package hook

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator/hosts"
)

// maxTranscript is how much of the end of a transcript is read. What is asked for was shown a moment ago.
const maxTranscript = 4 << 20

// transcript is a host's own record of a session: a file with a JSON object on each line.
type transcript struct {
	path string
	host *Host
}

// entry is what is read of a line of a transcript.
type entry struct {
	ID        string `json:"id"` // Gemini CLI writes an entry anew, under its id, when more of it is known
	Type      string `json:"type"`
	Timestamp string `json:"timestamp"`
	Message   struct {
		Model   string          `json:"model"`
		Content json.RawMessage `json:"content"`
	} `json:"message"`
	Payload struct {
		Type string `json:"type"`
		Role string `json:"role"`
	} `json:"payload"`
}

// Sights implements hosts.Transcript. A message is there where a line has the beginning of its frame, which no text can imitate.
// The model has seen it once it speaks in a later line.
func (s transcript) Sights(ids []string) (sights map[string]hosts.Sight, written, prompted time.Time) {
	file, written := s.open()
	if file == nil {
		return nil, time.Time{}, time.Time{}
	}
	defer file.Close()
	if s.host.late {
		written = time.Time{} // so that a prompt after it proves nothing
	}
	sights = map[string]hosts.Sight{}
	shown := map[string]bool{}
	for _, id := range ids {
		sights[id] = hosts.Absent
	}
	known := map[string]bool{} // entries that have messages
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		var found []string
		for _, id := range ids {
			if sights[id] == hosts.Absent && bytes.Contains(line, s.host.mark(id)) {
				found = append(found, id)
			}
		}
		if len(found)+len(shown) > 0 {
			var e entry
			if json.Unmarshal(line, &e) == nil && s.host.speaks(&e) && !known[e.ID] {
				for id := range shown {
					sights[id] = hosts.Answered
				}
				clear(shown)
			}
			if e.ID != "" && len(found) > 0 {
				known[e.ID] = true
			}
		}
		for _, id := range found {
			sights[id], shown[id] = hosts.Present, true
		}
		if at, is := s.host.prompt(line); is {
			prompted = at
		}
		if err != nil {
			return sights, written, prompted
		}
	}
}

// prompt returns when the user has said what a line of the transcript has, if it is that.
func (h *Host) prompt(line []byte) (at time.Time, is bool) {
	var e entry
	if h.asks == nil || !bytes.Contains(line, []byte(`"role":"user"`)) || json.Unmarshal(line, &e) != nil || !h.asks(&e) {
		return time.Time{}, false
	}
	at, err := time.Parse(time.RFC3339, e.Timestamp)
	return at, err == nil
}

// open opens the end of the transcript, and tells when it was last written; nil if there is none that is a file of this user's.
func (s transcript) open() (*os.File, time.Time) {
	if s.path == "" {
		return nil, time.Time{}
	}
	file, err := os.OpenFile(s.path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, time.Time{}
	}
	info, err := file.Stat()
	var owned unix.Stat_t
	if err == nil {
		err = unix.Fstat(int(file.Fd()), &owned)
	}
	if err == nil && info.Mode().IsRegular() && int(owned.Uid) == os.Geteuid() {
		if _, err = file.Seek(max(0, info.Size()-maxTranscript), io.SeekStart); err == nil {
			return file, info.ModTime()
		}
	}
	file.Close()
	return nil, time.Time{}
}

// mark is how a transcript has the beginning of a message's frame: the host may have escaped it, and JSON escapes quotation marks.
func (h *Host) mark(id string) []byte {
	text := begin(id)
	if h.escape != nil {
		text = h.escape.Replace(text)
	}
	return []byte(strings.ReplaceAll(text, `"`, `\"`))
}
