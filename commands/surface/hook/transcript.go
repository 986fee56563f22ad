package hook

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"time"

	"mailroom/orchestrator/agenthost"
	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/pattern"
	"mailroom/orchestrator/store"
)

// maxTranscript is how much of the end of a transcript is read. What is asked for was shown a moment ago.
const maxTranscript = 4 << 20

// transcript is a host's own record of a session: a file with a JSON object on each line.
type transcript struct {
	path string
	host *Host
}

// marked finds the mark of a message in a transcript, where JSON escapes the quotation marks of the frame: at its
// beginning, since a host may have left the beginning out and kept the end.
var marked = pattern.New(`\\" mark=\\"(\d{1,19}\.[0-9a-f]{24})\\"`)

// Sights implements hosts.Transcript. A message is there where a line has its mark. The model has seen it once it
// speaks in a later line.
func (s transcript) Sights() hosts.Sights {
	look := looking{host: s.host, shown: map[string]bool{}, known: map[string]bool{}}
	for _, path := range s.paths() {
		file, cut := look.open(path)
		if file == nil {
			continue
		}
		if look.sights.Of == nil {
			look.sights.Of = map[string]hosts.Sight{}
		}
		for lines := bufio.NewReader(file); ; {
			line, err := lines.ReadBytes('\n')
			if cut {
				cut = !look.since(line)
			}
			look.at(line)
			if err != nil {
				break
			}
		}
		file.Close()
		if cut { // the last line alone is longer than what is read
			return hosts.Sights{}
		}
	}
	if s.host.Late {
		look.sights.Written = time.Time{} // so that a prompt after it proves nothing
	}
	return look.sights
}

// paths are the files that the transcript consists of, in their order.
func (s transcript) paths() []string {
	if s.host.Parts != nil {
		if paths := s.host.Parts(s.path); len(paths) > 0 {
			return paths
		}
	}
	return []string{s.path}
}

// looking looks for messages in a transcript.
type looking struct {
	host   *Host
	sights hosts.Sights
	shown  map[string]bool // marks after which the model has not spoken
	known  map[string]bool // entries that have messages
}

// since notes when the first whole line was written of a file whose beginning is left out, if this is one that tells.
func (l *looking) since(line []byte) bool {
	var e agenthost.Line
	if json.Unmarshal(line, &e) != nil {
		return false
	}
	at, err := time.Parse(time.RFC3339, e.Written)
	if err == nil {
		l.sights.Since = at
	}
	return err == nil
}

// at looks at the next line.
func (l *looking) at(line []byte) {
	if l.host.Said != nil && (bytes.Contains(line, []byte(`"role":"user"`)) || bytes.Contains(line, []byte(`"user.message"`))) {
		l.prompt(line)
	}
	var found []string
	if bytes.Contains(line, []byte(`mark=\"`)) {
		for _, match := range marked().FindAllSubmatch(line, -1) {
			if mark := string(match[1]); l.sights.Of[mark] == hosts.Unknown {
				found = append(found, mark)
			}
		}
	}
	if len(found)+len(l.shown) == 0 {
		return
	}
	var e agenthost.Line
	if json.Unmarshal(line, &e) == nil {
		if l.host.Drops != nil && l.host.Drops(&e) {
			return
		}
		if l.host.Speaks(&e) && !l.known[e.ID] {
			for mark := range l.shown {
				l.sights.Of[mark] = hosts.Answered
			}
			clear(l.shown)
		}
	}
	if e.ID != "" && len(found) > 0 {
		l.known[e.ID] = true
	}
	for _, mark := range found {
		l.sights.Of[mark], l.shown[mark] = hosts.Present, true
	}
}

// prompt notes when the user has said what a line has, if it is that.
func (l *looking) prompt(line []byte) {
	var e agenthost.Line
	if json.Unmarshal(line, &e) == nil && l.host.Said(&e) {
		if at, err := time.Parse(time.RFC3339, e.Written); err == nil {
			l.sights.Prompted = at
		}
	}
}

// open opens the end of a transcript, and notes when it was last written; nil if there is none that is a file of this
// user's. cut tells that there is more of it.
func (l *looking) open(path string) (file *os.File, cut bool) {
	if path == "" {
		return nil, false
	}
	file, err := store.OpenFound(path)
	if err != nil {
		return nil, false
	}
	info, err := file.Stat()
	if err == nil && info.Mode().IsRegular() && store.IsOwn(info) {
		from := max(0, info.Size()-maxTranscript)
		if _, err = file.Seek(from, io.SeekStart); err == nil {
			l.sights.Written = info.ModTime()
			return file, from > 0
		}
	}
	file.Close()
	return nil, false
}
