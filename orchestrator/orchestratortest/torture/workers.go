package torture

import (
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"syscall"
	"time"

	"mailroom/orchestrator/orchestratortest/history"
)

// serve keeps a daemon running. At the end of the activity, it asks the daemon to end, which the daemon must do with
// status 0.
func (o *office) serve(name string, random *rand.Rand) {
	for o.ctx.Err() == nil {
		p, err := o.start(name, o.Program, "serve", "--log-level", "error")
		if err != nil {
			o.fault(name, err)
			return
		}
		// Sometimes the daemon ends without being killed.
		life, cancel := context.WithTimeout(o.ctx, between(random, 5*time.Second, 40*time.Second))
		stop := context.AfterFunc(life, func() { p.signal(syscall.SIGTERM) })
		said, _ := io.ReadAll(p.out) // the first line, and the reason of an unexpected end
		p.said = string(said)
		stop()
		cancel()
		p.wait(-1) // -1: the signal came before the daemon handled signals
		pause(o.ctx, between(random, time.Millisecond, 300*time.Millisecond))
	}
}

// deliver runs one delivery after another.
func (o *office) deliver(name string, random *rand.Rand) {
	for pause(o.ctx, between(random, time.Millisecond, 400*time.Millisecond)) {
		o.once(name, &struct{}{}, nil, "deliver_all")
	}
}

// clean archives and deletes ended messages immediately.
func (o *office) clean(name string, random *rand.Rand) {
	for pause(o.ctx, between(random, 100*time.Millisecond, 2*time.Second)) {
		o.once(name, &struct{}{}, nil, "clear_old", "--older-than-days", "0")
	}
}

// look runs commands that must succeed at any time.
func (o *office) look(name string, random *rand.Rand) {
	for pause(o.ctx, between(random, 50*time.Millisecond, time.Second)) {
		commands := [][]string{{"poll", "--recipient", targets[random.IntN(len(targets))]}, {"status"},
			{"dead_letters", "list"}}
		o.once(name, &struct{}{}, nil, commands[random.IntN(len(commands))]...)
	}
}

// read waits for messages, as an agent does. Messages for mixed and inboxed are delivered to their inboxes. Messages
// for shaky are read here only if its unavailable file did not take them.
func (o *office) read(name string, random *rand.Rand) {
	for pause(o.ctx, between(random, time.Millisecond, 150*time.Millisecond)) {
		recipient := readers[random.IntN(len(readers))]
		if random.IntN(8) == 0 {
			recipient = "shaky"
		}
		var answer struct {
			Messages []struct {
				MessageID string `json:"message_id"`
			} `json:"messages"`
		}
		p, ok := o.once(name, &answer, nil, "wait", "--recipient", recipient, "--timeout", "1s", "--batch-size", "50")
		if !ok || len(answer.Messages) == 0 {
			continue
		}
		e := history.Event{Kind: history.Handed, Process: p.name}
		for _, m := range answer.Messages {
			e.IDs = append(e.IDs, m.MessageID)
		}
		o.tally.handed.Add(int64(len(e.IDs)))
		o.log.Add(e)
	}
}

// conflict is the exit status of a command that came too late. missing is the exit status of a command whose message
// no longer exists.
const conflict, missing = 65, 66

// meddle cancels waiting messages, replays dead letters, and acknowledges messages.
func (o *office) meddle(name string, random *rand.Rand) {
	for pause(o.ctx, between(random, 100*time.Millisecond, time.Second)) {
		switch random.IntN(3) {
		case 0:
			o.once(name, &struct{}{}, []int{conflict}, "dead_letters", "replay", "--all", "--limit", "5")
		default:
			var backlog struct {
				Messages []json.RawMessage `json:"messages"`
			}
			if _, ok := o.once(name, &backlog, nil, "poll", "--recipient", "shaky", "--batch-size", "50"); !ok ||
				len(backlog.Messages) == 0 {
				continue
			}
			var m struct {
				MessageID string `json:"message_id"`
			}
			if json.Unmarshal(backlog.Messages[random.IntN(len(backlog.Messages))], &m) == nil && m.MessageID != "" {
				o.once(name, &struct{}{}, []int{conflict, missing}, "cancel", m.MessageID)
			}
		}
	}
}
