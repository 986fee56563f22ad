package admin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"mailroom/commands"
	"mailroom/orchestrator"
)

// DemoResult says what happened and where to look at it.
type DemoResult struct {
	Database string               `json:"database"`
	File     string               `json:"file"` // inbox file of the recipient that failed at first
	Steps    []DemoStep           `json:"steps"`
	Stories  []orchestrator.Story `json:"stories"` // of the message that climbed the ladder
	Audit    []orchestrator.Row   `json:"audit"`   // retries_by_recipient
}

// DemoStep is one thing that the demo did.
type DemoStep struct {
	Title string   `json:"title"`
	Lines []string `json:"lines"`
}

var demoCommand = commands.Define(vocabulary, "demo", demo)

// demo runs the real thing on a database of its own in a temporary folder, which it leaves there to be looked at.
func demo(ctx context.Context, env commands.Env, _ NoParams) (DemoResult, error) {
	folder, err := os.MkdirTemp("", "mailroom-demo-")
	if err != nil {
		return DemoResult{}, &orchestrator.Error{Code: orchestrator.Unavailable, Message: "no temporary folder can be made", Err: err}
	}
	router, err := env.Router.Beside(ctx, filepath.Join(folder, "mailroom.db"))
	if err != nil {
		return DemoResult{}, err
	}
	d := &demonstration{ctx: ctx, Router: router, late: filepath.Join(folder, "late")}
	d.result.Database, d.result.File = router.Path(), filepath.Join(d.late, "project_manager.jsonl")
	for _, step := range []func() error{d.agents, d.sends, d.ladder, d.deadLetter, d.reading, d.story} {
		if err := step(); err != nil {
			router.Close()
			return d.result, err
		}
	}
	return d.result, router.Close()
}

// demonstration is a running demo.
type demonstration struct {
	*orchestrator.Router
	ctx    context.Context
	late   string // folder that is missing at first
	result DemoResult

	climber, doomed, task string // message ids
}

// step begins a new step.
func (d *demonstration) step(title string) {
	d.result.Steps = append(d.result.Steps, DemoStep{Title: title, Lines: []string{}})
	commands.Narrate(d.ctx, func(w *commands.Text) { w.Printf("\n%s\n", w.Paint(commands.Bold, title)) })
}

// say adds a line to the step.
func (d *demonstration) say(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	at := &d.result.Steps[len(d.result.Steps)-1]
	at.Lines = append(at.Lines, line)
	commands.Narrate(d.ctx, func(w *commands.Text) { w.Printf("  %s\n", line) })
}

func (d *demonstration) agents() error {
	d.step("1. Four agents, one of whom cannot be reached yet")
	file := "jsonl:" + d.result.File
	for _, u := range []orchestrator.AgentUpdate{
		{Name: "orchestrator"}, {Name: "architect"}, {Name: "code_developer"}, {Name: "project_manager", Deliver: &file},
	} {
		a, _, err := d.AddAgent(d.ctx, u)
		if err != nil {
			return err
		}
		d.say("%-16s gets its messages in %s", a.Name, a.Deliver)
	}
	if _, err := d.SetSetting(d.ctx, "retry.ladder", "250ms,500ms,1s"); err != nil {
		return err
	}
	d.say("the folder %s does not exist, so deliveries to project_manager fail", d.late)
	d.say("the retry ladder is shortened from 30s, 60s, 120s to 250ms, 500ms, 1s")
	return nil
}

func (d *demonstration) sends() error {
	d.step("2. Messages are sent; each is on disk before its sender hears so")
	one := 1
	for _, m := range []struct {
		id    *string
		draft orchestrator.Draft
	}{
		{&d.task, orchestrator.Draft{Sender: "orchestrator", Recipient: "code_developer", Type: "task_assignment",
			Payload: []byte(`{"task_id":"TASK-31-1","spec_id":"SPEC-031","priority":"high"}`)}},
		{nil, orchestrator.Draft{Sender: "architect", Recipient: "code_developer", Type: "spec_ready", Payload: []byte(`{"spec_id":"SPEC-031"}`)}},
		{&d.climber, orchestrator.Draft{Sender: "orchestrator", Recipient: "project_manager", Type: "status_update", Payload: []byte(`{"open_tasks":3}`)}},
		{&d.doomed, orchestrator.Draft{Sender: "architect", Recipient: "project_manager", Type: "question", Payload: []byte(`{"text":"May SPEC-032 wait?"}`), MaxRetries: &one}},
	} {
		sent, err := d.Send(d.ctx, m.draft)
		if err != nil {
			return err
		}
		if m.id != nil {
			*m.id = sent.MessageID
		}
		d.say("%s  %s → %s  %s", sent.MessageID, m.draft.Sender, m.draft.Recipient, m.draft.Type)
	}
	return nil
}

// ladder delivers until nothing waits any more, and removes the cause of the failures in between.
func (d *demonstration) ladder() error {
	d.step("3. Delivery; a recipient that fails climbs the ladder")
	for attempt := 1; ; attempt++ {
		run, err := d.DeliverAll(d.ctx, orchestrator.DeliverOptions{})
		if err != nil {
			return err
		}
		for _, s := range run.Summary {
			if s.Delivered > 0 {
				d.say("delivered %d to %s", s.Delivered, s.Recipient)
			}
		}
		for _, e := range run.Errors {
			if e.RetryAt == "" {
				d.say("%s: %s; given up, a dead letter", e.MessageID, e.Message)
			} else {
				d.say("%s: %s; again at %s", e.MessageID, e.Message, e.RetryAt)
			}
		}
		if attempt == 3 {
			if err := os.Mkdir(d.late, 0o700); err != nil {
				return err
			}
			d.say("(the folder is made now: the cause is gone)")
		}
		backlog, err := d.Poll(d.ctx, "project_manager", 1)
		if err != nil {
			return err
		}
		if backlog.Pending == 0 {
			return nil
		}
		if err := d.waitUntil(backlog.Messages[0].NextAttemptAt); err != nil {
			return err
		}
	}
}

// waitUntil waits until a stored time has come.
func (d *demonstration) waitUntil(at string) error {
	due, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return nil // due now
	}
	timer := time.NewTimer(due.Sub(d.Now()))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-d.ctx.Done():
		return context.Cause(d.ctx)
	}
}

func (d *demonstration) deadLetter() error {
	d.step("4. A dead letter told its sender, and can be replayed")
	reports, err := d.Wait(d.ctx, orchestrator.WaitOptions{Recipient: "architect", Limit: 10})
	if err != nil {
		return err
	}
	for _, m := range reports {
		d.say("architect got %s from %s: %s", m.Type, m.Sender, m.Payload)
	}
	if _, err := d.Replay(d.ctx, d.doomed, ""); err != nil {
		return err
	}
	run, err := d.DeliverAll(d.ctx, orchestrator.DeliverOptions{})
	d.say("replayed %s: delivered %d", d.doomed, run.Delivered)
	return err
}

func (d *demonstration) reading() error {
	d.step("5. Reading marks as read, in the transaction that answers")
	ms, err := d.Wait(d.ctx, orchestrator.WaitOptions{Recipient: "code_developer", Limit: 10})
	if err != nil {
		return err
	}
	for _, m := range ms {
		d.say("code_developer read %s from %s: %s", m.Type, m.Sender, m.Payload)
	}
	m, err := d.Acknowledge(d.ctx, d.task, "code_developer")
	d.say("and acknowledged %s at %s", d.task, m.AcknowledgedAt)
	return err
}

func (d *demonstration) story() (err error) {
	d.step("6. The trace of the message that climbed the ladder")
	if d.result.Stories, err = d.Stories(d.ctx, d.climber); err != nil {
		return err
	}
	commands.Narrate(d.ctx, func(w *commands.Text) { TraceResult{Stories: d.result.Stories}.Text(w) })
	d.step("7. An audit in plain SQL: retries_by_recipient")
	audit, err := findAudit("retries_by_recipient")
	if err != nil {
		return err
	}
	table, err := audit.run(d.ctx, d.Router, 100, nil)
	if err != nil {
		return err
	}
	d.result.Audit = table.Rows
	commands.Narrate(d.ctx, table.Text)
	return nil
}

// Text ends the narration, which was printed while it happened.
func (r DemoResult) Text(w *commands.Text) {
	w.Printf("\nAll of this is real and still there:\n  mailroom --db %s status\n  sqlite3 %s 'SELECT * FROM message_trace'\n  cat %s\n",
		r.Database, r.Database, r.File)
}
