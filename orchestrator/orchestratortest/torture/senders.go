package torture

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"mailroom/orchestrator/orchestratortest/history"
)

// draft is a send that has not been made yet.
type draft struct {
	history.Event
	key string // idempotency key
	fat int    // bytes of filling
	ttl int    // seconds
}

// draw returns the next send of a lane, with random properties.
func (o *office) draw(random *rand.Rand, lane string, number int) draft {
	d := draft{Event: history.Event{
		Lane: lane, Number: number, Token: lane + "-" + strconv.Itoa(number),
		Sender: sendersNames[random.IntN(len(sendersNames))], Recipient: targets[random.IntN(len(targets))],
	}}
	switch n := random.IntN(100); { // few messages go to the command, which is slow
	case n < 2:
		d.Recipient = worked
	case n < 6:
		d.Recipient = posted
	case n < 9:
		d.Recipient = boxed
	case n < 12:
		d.Recipient = stored
	}
	if random.IntN(5) == 0 {
		d.Priority = 1
	}
	switch n := random.IntN(500); {
	case n == 0:
		d.fat = 200_000 // several pages of a file: a kill may leave it incomplete
	case n < 10:
		d.fat = 10_000
	}
	if random.IntN(50) == 0 && d.Recipient == "inboxed" {
		d.ttl = 1
	}
	return d
}

// payload returns the payload of the send.
func (d *draft) payload() string {
	return fmt.Sprintf(`{"token":%q,"filling":%q}`, d.Token, strings.Repeat("x", d.fat))
}

// line returns the send as a line of `send --stdin`.
func (d *draft) line() []byte {
	object := map[string]any{
		"sender": d.Sender, "recipient": d.Recipient, "message_type": "note", "payload": json.RawMessage(d.payload()),
	}
	if d.Priority != 0 {
		object["priority"] = d.Priority
	}
	if d.ttl != 0 {
		object["ttl_seconds"] = d.ttl
	}
	if d.key != "" {
		object["idempotency_key"] = d.key
	}
	text, _ := json.Marshal(object) // strings and numbers can always be encoded
	return append(text, '\n')
}

// asked and acknowledged record a send before it is made and after its answer.
func (p *process) asked(d *draft) {
	e := d.Event
	e.Kind, e.Process, e.At = history.Asked, p.name, time.Now().UnixNano()
	p.o.log.Add(e)
}

// refused reports whether an answer means that the database was unavailable or busy, and records such an answer.
func (p *process) refused(d *draft, code string) bool {
	if p.o.Database == "" || code != "unavailable" && code != "busy" {
		return false
	}
	p.o.log.Add(history.Event{Kind: history.Unsure, Process: p.name, Token: d.Token})
	return true
}

func (p *process) acknowledged(d *draft, id string) {
	p.o.log.Add(history.Event{Kind: history.Acknowledged, Process: p.name, Token: d.Token, MessageID: id})
}

// answer is the answer to a send.
type answer struct {
	Success   bool   `json:"success"`
	MessageID string `json:"message_id"`
	Error     string `json:"error"` // its code
}

// window is the maximum number of a sender's lines that are not answered yet.
const window = 30

// sendLines sends through `send --stdin`, again and again.
func (o *office) sendLines(name string, random *rand.Rand) {
	for o.ctx.Err() == nil {
		p, err := o.start(name, o.Program, "send", "--stdin")
		if err != nil {
			o.fault(name, err)
			return
		}
		lane, number, rest := p.name, 0, 20+random.IntN(400)
		p.talk(random, func() (draft, bool) {
			number++
			return o.draw(random, lane, number), number <= rest && o.ctx.Err() == nil
		})
	}
}

// sendKeyed sends with idempotency keys. The next process repeats the sends that a killed process did not
// acknowledge.
func (o *office) sendKeyed(name string, random *rand.Rand) {
	var open []draft // not acknowledged, oldest first
	number := 0
	for o.ctx.Err() == nil || len(open) > 0 {
		if o.done.Err() != nil {
			return
		}
		p, err := o.start(name, o.Program, "send", "--stdin")
		if err != nil {
			o.fault(name, err)
			return
		}
		again, rest := open, 20+random.IntN(200)
		told := p.talk(random, func() (draft, bool) {
			if len(again) > 0 {
				d := again[0]
				again = again[1:]
				return d, true
			}
			if rest--; rest < 0 || o.ctx.Err() != nil {
				return draft{}, false
			}
			number++
			d := o.draw(random, name, number)
			d.Sender, d.Recipient, d.ttl, d.key = "keyed", "inboxed", 0, "key-"+strconv.Itoa(number)
			open = append(open, d)
			return d, true
		})
		open = open[told:]
	}
}

// talk writes the sends that next returns to a `send --stdin` and reads the answers, until next returns false or the
// process ends. It returns how many sends were acknowledged before the first one that must be repeated.
func (p *process) talk(random *rand.Rand, next func() (draft, bool)) (told int) {
	underWay := make(chan draft, window)
	ended := make(chan struct{})
	answered := make(chan int, 1)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(ended)
		n, whole := 0, true // n counts until the first send that must be repeated
		defer func() { answered <- n }()
		answers := bufio.NewScanner(p.out)
		answers.Buffer(nil, 4<<20)
		for answers.Scan() {
			d := <-underWay
			var answer answer
			if err := json.Unmarshal(answers.Bytes(), &answer); err == nil && p.refused(&d, answer.Error) {
				whole = false
				continue
			}
			if !answer.Success {
				if !p.wasKilled() {
					p.fault("answered %q to %s", answers.Text(), d.Token)
				}
				return
			}
			p.acknowledged(&d, answer.MessageID)
			if whole {
				n++
			}
		}
	})
	p.write(random, next, underWay, ended)
	p.in.Close()
	reading.Wait()
	p.wait()
	return <-answered
}

// write writes lines in bursts, at most window of them ahead of the answers.
func (p *process) write(random *rand.Rand, next func() (draft, bool), underWay chan<- draft, ended <-chan struct{}) {
	burst := 0
	for {
		d, ok := next()
		if !ok {
			return
		}
		p.asked(&d)
		select {
		case underWay <- d:
		case <-ended:
			return
		}
		if _, err := p.in.Write(d.line()); err != nil {
			return // it was killed
		}
		if burst--; burst < 0 {
			burst = random.IntN(40)
			pause(p.o.ctx, between(random, 10*time.Millisecond, 200*time.Millisecond))
		}
	}
}

// sendSingly sends one message per process.
func (o *office) sendSingly(name string, random *rand.Rand) {
	for number := 1; pause(o.ctx, between(random, 5*time.Millisecond, 100*time.Millisecond)); number++ {
		d := o.draw(random, name, number)
		d.fat = min(d.fat, 10_000) // the size of an argument is limited
		args := []string{"send", "--sender", d.Sender, "--recipient", d.Recipient, "--message-type", "note",
			"--payload", d.payload(),
			"--priority", strconv.Itoa(d.Priority)}
		p, err := o.start(name, o.Program, args...)
		if err != nil {
			o.fault(name, err)
			return
		}
		// The process has already been started, but it cannot have sent before its start. The event therefore gets
		// the time just before the start.
		e := d.Event
		e.Kind, e.Process, e.At = history.Asked, p.name, p.began
		o.log.Add(e)
		var answer answer
		if json.Unmarshal(p.finish(), &answer) != nil {
			continue // it was killed
		}
		if answer.Success {
			p.acknowledged(&d, answer.MessageID)
		} else {
			p.refused(&d, answer.Error)
		}
	}
}

// sendFromGo runs helpers that send, and deliver, through the Go API.
func (o *office) sendFromGo(name string, random *rand.Rand) { o.help(name, random, "api") }

// sendRaw runs helpers that send with plain SQL.
func (o *office) sendRaw(name string, random *rand.Rand) { o.help(name, random, "raw") }

// help runs helpers of one role. Helpers write their own history to standard output.
func (o *office) help(name string, random *rand.Rand, role string) {
	for o.ctx.Err() == nil {
		p, err := o.start(name, o.Helper, role, o.db, strconv.FormatUint(random.Uint64(), 10))
		if err != nil {
			o.fault(name, err)
			return
		}
		stop := context.AfterFunc(o.ctx, func() { p.in.Close() }) // asks it to end
		lines := bufio.NewScanner(p.out)
		for lines.Scan() {
			var e history.Event
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				p.fault("said %q", lines.Text())
				break
			}
			e.Process = p.name
			if e.Lane != "" {
				e.Lane = p.name + "/" + e.Lane
			}
			o.log.Add(e)
		}
		stop()
		p.wait()
	}
}
