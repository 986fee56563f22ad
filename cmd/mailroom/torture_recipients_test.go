package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"time"

	"mailroom/orchestrator/orchestratortest/history"
)

// takenFile is a file that the agent boxed received and moved away.
type takenFile struct {
	name, id, token, sender, priority string
	at                                time.Time
	content                           []byte
}

func (s *scene) taken(name string) string { return filepath.Join(s.folder, "taken", "boxed", name) }

// files returns the files that boxed moved away, in the order of their arrival.
func (s *scene) files() (files []takenFile) {
	s.t.Helper()
	entries, err := os.ReadDir(s.taken(""))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			s.t.Fatal(err)
		}
		content, err := os.ReadFile(s.taken(e.Name()))
		if err != nil {
			s.t.Fatal(err)
		}
		var l struct {
			ID, From, Priority string
			Payload            struct{ Token string }
		}
		if err := json.Unmarshal(content, &l); err != nil {
			s.t.Fatal(err)
		}
		files = append(files, takenFile{e.Name(), l.ID, l.Payload.Token, l.From, l.Priority, info.ModTime(), content})
	}
	slices.SortFunc(files, func(a, b takenFile) int { return a.at.Compare(b.at) })
	return files
}

func (s *scene) write(name string, content []byte) {
	s.t.Helper()
	if err := os.WriteFile(s.taken(name), content, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) remove(name string) {
	s.t.Helper()
	if err := os.Remove(s.taken(name)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) chtimes(name string, at time.Time) {
	s.t.Helper()
	if err := os.Chtimes(s.taken(name), at, at); err != nil {
		s.t.Fatal(err)
	}
}

// filesOfAPair returns two files of the same sender and priority whose messages never failed, in the order of their
// arrival. Both are empty if there are no such files.
func (s *scene) filesOfAPair() (first, second takenFile) {
	s.t.Helper()
	files := s.files()
	for i, a := range files {
		for _, b := range files[i+1:] {
			if a.sender == b.sender && a.priority == b.priority && !s.climbed(a.id, b.id) {
				return a, b
			}
		}
	}
	return takenFile{}, takenFile{}
}

// told is the diary that an agent's commands or its web server wrote, in which a test plants a bug.
type told struct {
	s       *scene
	path    string
	entries []history.Entry
}

func (s *scene) told(agent string) *told {
	s.t.Helper()
	d := &told{s: s, path: filepath.Join(s.folder, agent+".jsonl")}
	content, err := os.ReadFile(d.path)
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range bytes.Lines(content) {
		var e history.Entry
		if json.Unmarshal(line, &e) == nil {
			d.entries = append(d.entries, e)
		}
	}
	return d
}

// save writes the entries over the diary.
func (d *told) save() {
	d.s.t.Helper()
	if err := os.Remove(d.path); err != nil {
		d.s.t.Fatal(err)
	}
	file, err := os.OpenFile(d.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		d.s.t.Fatal(err)
	}
	defer file.Close()
	for _, e := range d.entries {
		if err := e.Write(file); err != nil {
			d.s.t.Fatal(err)
		}
	}
}

// end returns the index of the entry that ends the run that begins at i, or i if the run did not end.
func (d *told) end(i int) int {
	return 1 + i + slices.IndexFunc(d.entries[i+1:],
		func(e history.Entry) bool { return e.Ended && e.Run == d.entries[i].Run })
}

// smooth returns the indexes of entries that begin a run whose message was delivered at the first attempt, so that no
// other run exists for the message.
func (d *told) smooth() (list []int) {
	for i, e := range d.entries {
		if !e.Ended && d.end(i) > i && !d.s.climbed(e.MessageID, e.MessageID) &&
			d.s.number(`SELECT count(*) FROM message_trace WHERE event = 'delivered' AND message_id = ?`,
				e.MessageID) == 1 {
			list = append(list, i)
		}
	}
	return list
}

// repeat adds a second run of a message and returns the message's ID.
func (s *scene) repeat(agent string) string {
	d := s.told(agent)
	i := d.smooth()[0]
	for _, e := range []history.Entry{d.entries[i], d.entries[d.end(i)]} {
		e.Run, e.At = "planted", e.At+int64(time.Minute)
		d.entries = append(d.entries, e)
	}
	d.save()
	return d.entries[i].MessageID
}

// neverRun removes a run and returns its message's ID.
func (s *scene) neverRun(agent string) string {
	d := s.told(agent)
	began := d.entries[d.smooth()[0]]
	d.entries = slices.DeleteFunc(d.entries, func(e history.Entry) bool { return e.Run == began.Run })
	d.save()
	return began.MessageID
}

// ended changes the status with which a run ended and returns its message's ID.
func (s *scene) ended(agent string, status int) string {
	d := s.told(agent)
	i := d.smooth()[0]
	d.entries[d.end(i)].Status = status
	d.save()
	return d.entries[i].MessageID
}

// underAnotherID changes the message ID with which a run began and returns the run.
func (s *scene) underAnotherID(agent string) string {
	d := s.told(agent)
	i := d.smooth()[0]
	d.entries[i].MessageID = "msg-another"
	d.save()
	return d.entries[i].Run
}

// atOnce makes a command begin before the previous one ends, and returns both as the checker names them.
func (s *scene) atOnce() (began, while string) {
	d := s.told("worked")
	list := d.smooth()
	for n, i := range list[1:] {
		if before := d.end(list[n]); before == i-1 {
			d.entries[before], d.entries[i] = d.entries[i], d.entries[before]
			d.save()
			name := func(e *history.Entry) string { return e.Run + " for " + e.MessageID }
			return name(&d.entries[before]), name(&d.entries[list[n]])
		}
	}
	return "", ""
}

// pairOfRuns returns the indexes of two runs, in order, for messages of the same sender and priority. ok is false if
// there are none.
func (d *told) pairOfRuns() (first, second int, ok bool) {
	list := d.smooth()
	pair := func(id string) string { // the sender and the priority
		return d.s.victim(`SELECT sender || priority FROM witness WHERE change = 'insert' AND message_id = '` + id +
			`'`)
	}
	for n, i := range list {
		for _, j := range list[n+1:] {
			if pair(d.entries[i].MessageID) == pair(d.entries[j].MessageID) {
				return i, j, true
			}
		}
	}
	return 0, 0, false
}

// swapRuns swaps two runs of the same sender and priority, and returns the ID of the message that came first before.
func (s *scene) swapRuns(agent string) string {
	d := s.told(agent)
	i, j, _ := d.pairOfRuns()
	a, b := &d.entries[i], &d.entries[j]
	a.MessageID, b.MessageID, a.Token, b.Token = b.MessageID, a.MessageID, b.Token, a.Token
	d.save()
	return b.MessageID
}

// refusal selects messages to posted that failed an attempt for another reason than a refusal.
const refusal = `SELECT t.message_id FROM message_trace t JOIN witness w ON w.change = 'insert'
	AND w.message_id = t.message_id
	WHERE t.event = 'attempt_failed' AND w.recipient = 'posted' AND t.error NOT LIKE '%rejected the message%'
	  AND t.error NOT LIKE 'the attempt took%' AND t.error NOT LIKE 'the delivering%'`

// hasRuns reports whether the folders and the diaries contain what the planted bugs need.
func (s *scene) hasRuns() bool {
	s.t.Helper()
	if a, _ := s.filesOfAPair(); a.id == "" {
		return false
	}
	worked, posted := s.told("worked"), s.told("posted")
	_, _, ordered := posted.pairOfRuns()
	besides := func() bool {
		list := worked.smooth()
		for n := range list[min(1, len(list)):] {
			if worked.end(list[n]) == list[n+1]-1 {
				return true
			}
		}
		return false
	}
	return ordered && besides() && s.number(`SELECT count(*) FROM (`+refusal+`)`) > 0 &&
		s.number(`SELECT count(*) FROM message_trace WHERE error LIKE 'put off until %'`) > 0
}
