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

// maxTranscript is the number of bytes read from the end of a transcript. The messages in question were shown a
// moment ago.
const maxTranscript = 4 << 20

// transcript is a host's own record of a session: a file with a JSON object on each line.
type transcript struct {
	path string
	host *Host
}

// marked matches the mark of a message in a transcript, where JSON escapes the quotation marks of the frame. It also
// matches the mark in the closing tag, since a host may have left out the beginning and kept the end.
var marked = pattern.New(`\\" mark=\\"(\d{1,19}\.[0-9a-f]{24})\\"`)

// Sights implements hosts.Transcript. A message is present if a line has its mark. The model has seen the message
// once the model speaks in a later line.
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
		if cut { // the last line alone exceeds maxTranscript
			return hosts.Sights{}
		}
	}
	if s.host.Late {
		look.sights.Written = time.Time{} // so that a prompt after this time proves nothing
	}
	return look.sights
}

// paths returns the files of the transcript, in order.
func (s transcript) paths() []string {
	if s.host.Parts != nil {
		if paths := s.host.Parts(s.path); len(paths) > 0 {
			return paths
		}
	}
	return []string{s.path}
}

// looking is the state of a search for messages in a transcript.
type looking struct {
	host   *Host
	sights hosts.Sights
	shown  map[string]bool // marks after which the model has not spoken yet
	known  map[string]bool // IDs of entries with messages
}

// since records the time at which a line was written, if the line has one, for a file whose beginning is left out. It
// reports whether the line has one.
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

// at processes the next line.
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

// prompt records the time of a line if the line is a prompt of the user.
func (l *looking) prompt(line []byte) {
	var e agenthost.Line
	if json.Unmarshal(line, &e) == nil && l.host.Said(&e) {
		if at, err := time.Parse(time.RFC3339, e.Written); err == nil {
			l.sights.Prompted = at
		}
	}
}

// open opens a transcript at its last maxTranscript bytes and records the time of its last change. It returns nil if
// there is no such regular file owned by this user. cut reports that the beginning is left out.
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
