package history

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"time"
)

// Diary is a file in which the commands or the web server of an exec or webhook transport record their runs for one
// agent. A run is one command or one request. It writes one line at its beginning, and one line before it answers.
type Diary struct {
	Recipient, Path string
	Kind            string // exec or webhook
}

// Entry is a line of a diary. A run that was killed has no second line.
type Entry struct {
	At        int64  `json:"at"`  // ns since 1970
	Run       string `json:"run"` // never used twice
	Ended     bool   `json:"ended,omitempty"`
	MessageID string `json:"message_id,omitempty"` // as passed to the run
	Token     string `json:"token,omitempty"`      // in the payload
	Status    int    `json:"status,omitempty"`     // exit or HTTP status; 0 of a webhook means no answer
}

// Write appends the entry to a diary, durably.
func (e Entry) Write(file *os.File) error {
	line, err := json.Marshal(e)
	if err == nil {
		_, err = file.Write(append(line, '\n')) // a single write to a file opened for appending
	}
	if err == nil {
		err = file.Sync()
	}
	return err
}

// run is one command or request.
type run struct {
	Entry        // the entry of its beginning
	ended bool   // it was not killed
	as    answer // valid if ended
}

// diary is the parsed content of a Diary.
type diary struct {
	Diary
	runs []*run
	// beside lists pairs of runs. The first one began while the second one was still running; the second one ended by
	// itself.
	beside [][2]*run
}

// answer is a run's answer about its message.
type answer int

const (
	failed answer = iota
	wellDone
	refused
	notNow
)

// answerOf converts a status to an answer. Source: docs/transports.md.
func answerOf(kind string, status int) answer {
	switch {
	case kind == "exec" && status == 0, kind == "webhook" && status/100 == 2:
		return wellDone
	case kind == "exec" && status >= 65 && status <= 69, kind == "webhook" &&
		slices.Contains([]int{400, 413, 415, 422}, status):
		return refused
	case kind == "exec" && status == 75:
		return notNow
	}
	return failed
}

// readDiary reads a diary. It ignores incomplete lines, because their runs were killed.
func (f *facts) readDiary(d Diary) error {
	content, err := os.ReadFile(d.Path)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	read := &diary{Diary: d}
	f.diaries[d.Recipient] = read
	byName := map[string]*run{}
	places := map[*run][2]int{} // the lines in which a run began and ended
	for number, line := range slices.Collect(bytes.Lines(content)) {
		var e Entry
		if json.Unmarshal(line, &e) != nil {
			f.torn++
			continue
		}
		r := byName[e.Run]
		switch {
		case !e.Ended:
			r = &run{Entry: e}
			byName[e.Run] = r
			read.runs = append(read.runs, r)
			places[r] = [2]int{number, number}
		case r != nil:
			r.ended, r.as = true, answerOf(d.Kind, e.Status)
			places[r] = [2]int{places[r][0], number}
		}
	}
	var last *run // of the runs that have begun so far, the one that ends last
	for _, r := range read.runs {
		if last != nil && places[last][1] > places[r][0] {
			read.beside = append(read.beside, [2]*run{r, last})
		}
		if last == nil || places[r][1] > places[last][1] {
			last = r
		}
	}
	slices.SortStableFunc(read.runs, func(a, b *run) int { return cmp.Compare(a.At, b.At) })
	where := "the diary of " + d.Recipient
	for i, r := range read.runs {
		m := f.message(r.MessageID)
		if m.runs = append(m.runs, r); len(m.runs) == 1 {
			f.arrivals[where] = append(f.arrivals[where],
				arrival{where, d.Kind, int64(i + 1), r.MessageID, d.Recipient, r.Token})
		}
	}
	return nil
}

// runs compares the diaries with the trace.
func (c *checker) runs() {
	for _, d := range c.diaries {
		c.result.Runs[d.Kind] += len(d.runs)
		c.counted("runs", len(d.runs))
		for _, r := range d.runs {
			m := c.messages[r.MessageID]
			if !m.known || m.token != r.Token {
				c.violated("runs", "%s %s came under the id %s with the token %q, which were not sent together", d.Kind,
					r.Run, r.MessageID, r.Token)
			}
		}
		for _, both := range d.beside {
			if d.Kind == "exec" {
				c.violated("runs", "exec %s for %s began while %s for %s went on", both[0].Run, both[0].MessageID,
					both[1].Run, both[1].MessageID)
			}
		}
	}
	for _, id := range c.ids {
		if m := c.messages[id]; c.diaries[m.recipient] != nil {
			c.again(m)
			c.asTold(m)
		}
	}
}

// endsAttempt reports whether an event ends an attempt without a delivery, and whether the result of that attempt was
// lost. A failed event ends no attempt: it follows the failure of the last attempt, or it follows too many crashes
// without another attempt.
func endsAttempt(t *traced) (ends, lost bool) {
	switch t.event {
	case "attempt_failed":
		return !strings.HasPrefix(t.err, manyDied), strings.HasPrefix(t.err, tookLonger)
	case "released":
		lost = strings.HasPrefix(t.err, ranOut) || strings.HasPrefix(t.err, givenBack)
		return lost || strings.HasPrefix(t.err, putOff), lost
	}
	return false, false
}

// again checks that an attempt had ended without a delivery before each run except the first.
func (c *checker) again(m *message) {
	for i, r := range m.runs {
		ended := 0
		for _, t := range m.trace {
			if ends, _ := endsAttempt(t); ends && t.at <= time.Unix(0, r.At).UTC().Format(layout) {
				ended++
			}
		}
		if ended < i {
			c.violated("runs",
				"%s was run %d times (the last time as %s), and only %d attempts had ended without a delivery", m.id,
				i+1, r.Run, ended)
		}
	}
}

// asTold checks that the trace has each answer as often as the runs gave it, except for answers that were lost.
func (c *checker) asTold(m *message) {
	said, told := map[answer]int{}, map[answer]int{}
	silent, lost := 0, 0
	for _, r := range m.runs {
		if r.ended {
			said[r.as]++
		} else {
			silent++
		}
	}
	for _, t := range m.trace {
		_, away := endsAttempt(t)
		switch {
		case away:
			lost++
		case t.event == "delivered":
			told[wellDone]++
		case t.event == "attempt_failed" && strings.Contains(t.err, refuses):
			told[refused]++
			c.result.Refused++
		case t.event == "attempt_failed" && !strings.HasPrefix(t.err, manyDied):
			told[failed]++
		case t.event == "released" && strings.HasPrefix(t.err, putOff):
			told[notNow]++
			c.result.PutOff++
		}
	}
	for _, v := range []struct {
		answer
		traced, ran string
	}{{wellDone, "delivered", "succeeded"}, {refused, "refused", "refused it"}, {notNow, "put off", "asked for that"}} {
		if told[v.answer] > said[v.answer] {
			c.violated("runs", "%s was %s %d times, and %d runs %s", m.id, v.traced, told[v.answer], said[v.answer],
				v.ran)
		}
		silent += max(0, said[v.answer]-told[v.answer])
	}
	if silent += max(0, said[failed]-told[failed]); silent > lost {
		c.violated("runs",
			"%s: the trace tells of %d runs in another way than they ended or not at all, and of %d attempts that were lost",
			m.id, silent, lost)
	}
}
