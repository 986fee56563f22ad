package operations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
	"mailroom/tracing"
)

// DemoResult describes what happened, and where to find it.
type DemoResult struct {
	Database string          `json:"database"`
	File     string          `json:"file"` // inbox file of the recipient that failed at first
	Steps    []DemoStep      `json:"steps"`
	Stories  json.RawMessage `json:"stories"` // of the message that was retried
	Audit    json.RawMessage `json:"audit"`   // retries_by_recipient
}

// DemoStep is one step of the demo.
type DemoStep struct {
	Title string   `json:"title"`
	Lines []string `json:"lines"`
}

var demoCommand = commands.Define(vocabulary, "demo", demo).With(commands.Traits{HereOnly: true, MakesOne: true})

// demo runs real commands on its own database in a temporary folder, which it does not delete, so that users can
// inspect it.
func demo(ctx context.Context, env commands.Env, _ struct{}) (DemoResult, error) {
	folder, err := os.MkdirTemp("", "mailroom-demo-")
	if err != nil {
		return DemoResult{},
			&orchestrator.Error{Code: orchestrator.Unavailable, Message: "cannot create a temporary folder", Err: err}
	}
	engine, err := env.Engine.OpenOther(ctx, filepath.Join(folder, "mailroom.db"))
	if err != nil {
		return DemoResult{}, err
	}
	// This user creates the database here, so messages that the console replays in it are delivered.
	engine.Trust = env.Engine.Trust
	if err := engine.Create(ctx); err != nil {
		return DemoResult{}, err
	}
	watcher := env.Call.Narrator // the commands that the demo runs have no narrator: the demo describes them
	env.Engine, env.Call.Narrator = engine, nil
	quiet, stop := context.WithCancelCause(tracing.WithParent(context.Background(),
		tracing.FromContext(ctx).Traceparent()))
	defer stop(nil)
	defer context.AfterFunc(ctx, func() { stop(context.Cause(ctx)) })()
	d := &demonstration{ctx: ctx, quiet: quiet, env: env, watcher: watcher, late: filepath.Join(folder, "late"),
		gone: filepath.Join(folder, "gone")}
	d.types, d.attempts = map[string]string{}, map[string]int{}
	d.result.Database, d.result.File = engine.Path(), filepath.Join(d.late, "project_manager.jsonl")
	for _, step := range []func() error{d.agents, d.sends, d.ladder, d.deadLetter, d.reading, d.question, d.thread,
		d.story} {
		if err := step(); err != nil {
			engine.Close()
			return d.result, err
		}
	}
	return d.result, engine.Close()
}

// demonstration is a running demo. It runs ordinary commands of the catalogue on its own database.
type demonstration struct {
	ctx    context.Context // context of the demo, canceled by the caller
	quiet  context.Context // context of the commands that the demo runs
	env    commands.Env
	late   string // folder that is missing at first
	gone   string // folder that stays missing
	result DemoResult

	watcher *terminal.Text // receives the narration; nil if nobody watches

	climber, doomed, task string            // message ids
	types                 map[string]string // of messages, by id
	attempts              map[string]int    // failed attempts, by message id
}

// run runs a command, and decodes its answer into answer unless that is nil.
func (d *demonstration) run(command string, params map[string]any, answer any) error {
	_, err := d.ask(command, params, answer)
	return err
}

// show runs a command like run, and shows its answer to the watcher.
func (d *demonstration) show(command string, params map[string]any, answer any) error {
	got, err := d.ask(command, params, answer)
	if err == nil {
		d.tell(got.Result.(commands.Texter).Text)
	}
	return err
}

func (d *demonstration) ask(command string, params map[string]any, answer any) (got commands.Answer, err error) {
	definition, err := d.env.Catalogue.Lookup(command)
	if err != nil {
		return got, err
	}
	raw, err := orchestrator.JSON(params)
	if err != nil {
		return got, err
	}
	if got, err = definition.Run(d.quiet, d.env, raw); err == nil {
		err = got.Settle(d.quiet, d.env, true) // the demo received the answer, and shows parts of it
	}
	if err != nil || answer == nil {
		return got, err
	}
	text, err := orchestrator.JSON(got)
	if err != nil {
		return got, err
	}
	return got, json.Unmarshal(text, answer)
}

// step begins a new step.
func (d *demonstration) step(title string) {
	d.result.Steps = append(d.result.Steps, DemoStep{Title: title, Lines: []string{}})
	d.tell(func(w *terminal.Text) { w.Printf("\n%s\n", w.Paint(terminal.Bold, title)) })
}

// say adds a line to the current step.
func (d *demonstration) say(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	at := &d.result.Steps[len(d.result.Steps)-1]
	at.Lines = append(at.Lines, line)
	d.tell(func(w *terminal.Text) { w.Printf("  %s\n", w.Sign(terminal.Inline(line))) })
}

// tell calls what with the watcher, if there is one.
func (d *demonstration) tell(what func(*terminal.Text)) {
	if d.watcher != nil {
		what(d.watcher)
	}
}

func (d *demonstration) agents() error {
	d.step("1. Add five agents; two of them cannot be reached yet")
	for _, folder := range []string{d.late, d.gone} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			return err
		}
	}
	for _, agent := range [][2]string{
		{"orchestrator", "inbox"}, {"architect", "inbox"}, {"code_developer", "inbox"},
		{"project_manager", "jsonl:" + d.result.File}, {"builder", "jsonl:" + filepath.Join(d.gone, "builder.jsonl")},
	} {
		if err := d.run("agent_add", map[string]any{"name": agent[0], "deliver": agent[1]}, nil); err != nil {
			return err
		}
		d.say("%-16s gets its messages through %s", agent[0], agent[1])
	}
	if err := d.run("setting_set", map[string]any{"key": "retry.ladder", "value": strings.Join(demoLadder, ",")},
		nil); err != nil {
		return err
	}
	if err := errors.Join(os.Remove(d.late), os.Remove(d.gone)); err != nil {
		return err
	}
	d.say("removed the folders of the last two agents, so deliveries to them fail")
	d.say("shortened the retry schedule from 30s, 60s, 120s to %s", strings.Join(demoLadder, ", "))
	return nil
}

func (d *demonstration) sends() error {
	d.step("2. Send messages; each message is on disk before its `send` command ends")
	for _, m := range []struct {
		id     *string
		params map[string]any
	}{
		{&d.task, message("orchestrator", "code_developer", "task_assignment",
			`{"task_id":"TASK-31-1","spec_id":"SPEC-031","priority":"high"}`)},
		{nil, message("architect", "code_developer", "spec_ready", `{"spec_id":"SPEC-031"}`)},
		{&d.climber, message("orchestrator", "project_manager", "status_update", `{"open_tasks":3}`)},
		{&d.doomed, once(message("architect", "project_manager", "question", `{"text":"May SPEC-032 wait?"}`))},
		{nil, once(message("orchestrator", "builder", "build_request", `{"branch":"fix/token-signing"}`))},
	} {
		var sent struct {
			MessageID string `json:"message_id"`
		}
		if err := d.run("send", m.params, &sent); err != nil {
			return err
		}
		if m.id != nil {
			*m.id = sent.MessageID
		}
		d.types[sent.MessageID] = m.params["message_type"].(string)
		d.say("%s  %s → %s  %s", sent.MessageID, m.params["sender"], m.params["recipient"], m.params["message_type"])
	}
	return nil
}

// message returns the parameters of a send.
func message(sender, recipient, kind, payload string) map[string]any {
	return map[string]any{"sender": sender, "recipient": recipient, "message_type": kind,
		"payload": json.RawMessage(payload)}
}

// once limits a message to one retry, after which it becomes a dead letter.
func once(params map[string]any) map[string]any {
	params["max_retries"] = 1
	return params
}

// delivered holds what the demo reads from an answer of deliver_all.
type delivered struct {
	Delivered int                      `json:"messages_delivered"`
	Summary   []delivery.Count         `json:"delivery_summary"`
	Errors    []delivery.FailedAttempt `json:"errors"`
}

// mail holds what the demo reads from an answer of poll or wait.
type mail struct {
	Messages []orchestrator.Message `json:"messages"`
}

// ladder delivers until no message waits any more. After three failures it removes their cause.
func (d *demonstration) ladder() error {
	d.step("3. Deliver the messages; failed deliveries are retried")
	for made := false; ; {
		var run delivered
		if err := d.run("deliver_all", map[string]any{}, &run); err != nil {
			return err
		}
		for _, s := range run.Summary {
			if s.Delivered > 0 {
				d.say("delivered %d to %s", s.Delivered, s.Recipient)
			}
		}
		for i := range run.Errors {
			d.sayFailed(&run.Errors[i])
		}
		if !made && d.attempts[d.climber] == 3 {
			if err := os.Mkdir(d.late, 0o700); err != nil {
				return err
			}
			made = true
			d.say("(created the folder of project_manager, so the next delivery succeeds)")
		}
		due := ""
		for _, recipient := range []string{"project_manager", "builder"} {
			var next mail
			if err := d.run("poll", map[string]any{"recipient": recipient, "batch_size": 1}, &next); err != nil {
				return err
			}
			if len(next.Messages) > 0 && (due == "" || next.Messages[0].NextAttemptAt < due) {
				due = next.Messages[0].NextAttemptAt
			}
		}
		if due == "" {
			return nil
		}
		if err := d.waitUntil(due); err != nil {
			return err
		}
	}
}

// demoLadder is the retry schedule of the demo, shortened to avoid long waits.
var demoLadder = []string{"250ms", "500ms", "1s"}

// sayFailed describes a failed attempt, and the first time also its reason.
func (d *demonstration) sayFailed(e *delivery.FailedAttempt) {
	if len(d.attempts) == 0 {
		d.say("(%s)", e.Message)
	}
	d.attempts[e.MessageID]++
	next := "the message is now a dead letter"
	if e.RetryAt != "" {
		next = fmt.Sprintf("the next attempt is %s later", demoLadder[min(d.attempts[e.MessageID], len(demoLadder))-1])
	}
	d.say("%s to %s: attempt %d failed; %s", d.types[e.MessageID], e.Recipient, d.attempts[e.MessageID], next)
}

// waitUntil waits until a stored time.
func (d *demonstration) waitUntil(at string) error {
	due, err := time.Parse(tracing.Layout, at)
	if err != nil {
		return nil // due now
	}
	return d.pause(due.Sub(d.env.Ledger.Now()))
}

// pause waits for a time, unless the demo is canceled meanwhile.
func (d *demonstration) pause(length time.Duration) error {
	select {
	case <-time.After(length):
		return nil
	case <-d.ctx.Done():
		return context.Cause(d.ctx)
	}
}

func (d *demonstration) deadLetter() error {
	d.step("4. Replay a dead letter after its sender gets a report")
	var reports mail
	if err := d.run("wait", map[string]any{"recipient": "architect", "timeout": 0}, &reports); err != nil {
		return err
	}
	for _, m := range reports.Messages {
		d.say("architect got %s from %s: %s", m.Type, m.Sender, m.Payload)
	}
	if err := d.run("dead_letters_replay", map[string]any{"message_id": d.doomed}, nil); err != nil {
		return err
	}
	var run delivered
	err := d.run("deliver_all", map[string]any{}, &run)
	d.say("replayed %s: delivered %d", d.doomed, run.Delivered)
	return err
}

func (d *demonstration) reading() error {
	d.step("5. Read messages; each one is marked as read after it is printed")
	if err := d.reads("code_developer"); err != nil {
		return err
	}
	if err := d.run("acknowledge", map[string]any{"message_id": d.task}, nil); err != nil {
		return err
	}
	d.say("code_developer acknowledged %s", d.task)
	return d.waiting()
}

// waiting makes an agent wait for a message that is sent a moment later.
func (d *demonstration) waiting() error {
	d.say("code_developer waits for a message; its inbox is empty")
	sent := make(chan error, 1)
	time.AfterFunc(300*time.Millisecond, func() {
		err := errors.New("the sender panicked")
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("%w: %v", err, p)
			}
			sent <- err
		}()
		_, err = messages.Send(d.quiet, d.env.Ledger,
			orchestrator.Draft{Sender: "orchestrator", Recipient: "code_developer",
				Type: "dependency_unblocked", Payload: []byte(`{"task_id":"TASK-31-2","unblocked_by":"TASK-31-1"}`)})
	})
	var got mail
	err := d.run("wait", map[string]any{"recipient": "code_developer", "timeout": 10}, &got)
	if err := errors.Join(<-sent, err); err != nil {
		return err
	}
	for _, m := range got.Messages {
		late := d.env.Ledger.Now().Sub(orchestrator.ParseStamp(m.CreatedAt)).Round(time.Millisecond)
		d.say("0.3 s later orchestrator sends %s; code_developer gets it %s later: %s", m.Type, late, m.Payload)
	}
	return nil
}

func (d *demonstration) story() error {
	d.step("8. The trace of the message that was retried")
	var story struct {
		Stories json.RawMessage `json:"stories"`
	}
	if err := d.show("trace", map[string]any{"message_id": d.climber}, &story); err != nil {
		return err
	}
	d.result.Stories = story.Stories
	d.step("9. An audit in plain SQL: retries_by_recipient")
	var table struct {
		Rows json.RawMessage `json:"rows"`
	}
	if err := d.show("sql", map[string]any{"named": "retries_by_recipient", "limit": 100}, &table); err != nil {
		return err
	}
	d.result.Audit = table.Rows
	return nil
}

// Text ends the narration, which was printed while the demo ran.
func (r DemoResult) Text(w *terminal.Text) {
	w.Printf("\nThe database of this demo still exists, and one message in it needs your attention. To see the database in a browser, run:\n")
	db := terminal.Inline(r.Database)
	w.Whole(terminal.Painted("  mailroom --db " + db + " console\n"))
	w.Printf("If you pair the browser, you can answer agents' questions on that page without a phone. To see the database in the terminal, run:\n")
	w.Whole(terminal.Painted("  mailroom --db " + db + " status\n  sqlite3 " + db +
		" 'SELECT * FROM message_trace'\n  cat " + terminal.Inline(r.File) + "\n"))
}
