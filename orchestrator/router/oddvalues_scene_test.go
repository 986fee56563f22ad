package router_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/bridge/letters"
	"mailroom/orchestrator/daemons"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/process"
	"mailroom/orchestrator/questions"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/removal"
	"mailroom/orchestrator/retention"
	"mailroom/orchestrator/schedules"
	"mailroom/orchestrator/sessions"
	"mailroom/orchestrator/teams"
	"mailroom/orchestrator/threads"
	"mailroom/orchestrator/traffic"
)

// goodThings holds values that must be unchanged at the end of a run.
type goodThings struct {
	token    string // of good_sender
	device   questions.Device
	thread   threads.Thread
	question string // question of good_sender that nobody has answered
	lent     string // message that good_taker has under a lease
}

// newOddRun makes a database with at least one row in every table, so that every table has a row to overwrite.
func newOddRun(t *testing.T, script []byte) *oddRun {
	f := enginetest.New(t, "good_sender", "good_reader", "good_taker", "odd1", "odd3", "gone")
	o := &oddRun{Fixture: f, routers: []*delivery.Engine{f.Engine, f.Open()}, db: enginetest.Plain(t, f.Path),
		script: script,
		sent:   map[string][]string{}}
	o.db.SetMaxOpenConns(1)
	f.AddWired("good_wire")
	f.AddWired("odd2")
	f.Wire.Batch = 3
	f.User.Back = func(ctx context.Context, l *ledger.Ledger) error {
		_, err := questions.Unreturned(ctx, l, "")
		return err
	}
	o.makeGood(t.Context())
	o.makeOdd(t.Context())
	o.readTables()
	for _, table := range o.tables {
		if n := o.texts(`SELECT count(*) FROM ` + table.name + ` WHERE ` + table.fair); n[0] == "0" {
			t.Fatalf("there is nothing in %s to write over", table.name)
		}
	}
	return o
}

// no fails the run if err is not nil.
func (o *oddRun) no(err error) {
	o.T.Helper()
	if err != nil {
		o.T.Fatal(err)
	}
}

// approved pairs and approves a device that gets pushes.
func (o *oddRun) approved(ctx context.Context, name string) questions.Device {
	d, _ := o.Pair(name)
	d, err := questions.ActivateDevice(ctx, o.Ledger, d.ID, d.Recipient)
	o.no(err)
	o.no(questions.Subscribe(ctx, o.Ledger, d.ID, enginetest.Subscription("https://updates.push.services.mozilla.com/wpush/v2/"+name)))
	return d
}

func (o *oddRun) asked(ctx context.Context, asker string, devices ...string) string {
	return o.Question(devices, func(d *questions.Draft) { d.Asker, d.TTL = asker, 24*time.Hour }).ID
}

func (o *oddRun) makeGood(ctx context.Context) {
	_, err := agents.SetGroup(ctx, o.Ledger, "good_group", []string{"good_reader", "good_wire"})
	o.no(err)
	o.good.token, _, err = agents.IssueToken(ctx, o.Ledger, "good_sender", true, 0)
	o.no(err)
	o.good.device = o.approved(ctx, "good")
	o.good.thread = o.Thread("good_sender", "good_reader")
	o.good.question = o.asked(ctx, "good_sender", o.good.device.ID)
	o.good.lent = o.Send("good_sender", "good_taker", func(d *orchestrator.Draft) { d.Type = goodType })
	want.IDs(o.T, o.TakeFor("good_taker", 24*time.Hour), o.good.lent)
}

func (o *oddRun) makeOdd(ctx context.Context) {
	_, err := agents.SetGroup(ctx, o.Ledger, "odd_group", []string{"odd1", "odd2"})
	o.no(err)
	_, _, err = agents.IssueToken(ctx, o.Ledger, "odd1", true, 0)
	o.no(err)
	o.Add(agents.Update{Name: "odd1", SilentAfter: new(time.Minute)})
	o.Add(agents.Update{Name: "odd3", StartCommand: new("true")})
	o.Set("ralph.pm", "odd3")
	o.Set("retry.ladder", "20s,1m")

	o.Clear(retention.ClearOptions{})
	o.Send("odd3", "odd1")
	o.Deliver()
	o.Clock.Advance(time.Minute)
	o.Clear(retention.ClearOptions{OlderThan: time.Second}) // move to the archive
	o.Send("odd3", "odd1", func(d *orchestrator.Draft) { d.AckWithin, d.IdempotencyKey = time.Hour, "key" })
	o.Send("odd1", "odd3", func(d *orchestrator.Draft) { d.TTL = time.Hour })
	o.Send("odd1", "user")
	o.Deliver()
	o.Set("budget.bytes", "2000")
	o.Send("odd1", "odd3")
	shown, err := hosts.Happened(ctx, o.Ledger, hosts.Event{Agent: "odd3", Program: "claude", Session: "one", Kind: hosts.Prompted,
		Size: func(*orchestrator.Message) int { return 5000 }, Line: func(*hosts.Group) string { return "named" }})
	o.no(err)
	o.no(hosts.Written(ctx, o.Ledger, &shown)) // shown in a digest
	_, err = hosts.Happened(ctx, o.Ledger,
		hosts.Event{Agent: "odd3", Program: "claude", Session: "one", Kind: hosts.Ended})
	o.no(err)
	_, err = hosts.NameOf(ctx, o.Ledger, hosts.Holder{Program: "odd4", Process: process.Of(os.Getpid())})
	o.no(err)
	_, _, err = reading.Wait(ctx, o.Ledger, reading.Options{Recipient: "odd1", Limit: 1,
		Lease: messages.ReadingLease{For: time.Hour, Holder: "wait", Reader: process.Self()}})
	o.no(err)
	begun, err := sessions.New(o.Ledger).Begin(ctx, "odd3", "")
	if o.no(err); begun == nil {
		o.T.Fatal("there is no session to begin")
	}

	th := o.Thread("odd1", "odd2", "odd3")
	o.MustPost(th.ID, "odd1", "odd2")
	other := o.Thread("odd3", "odd1")
	_, err = threads.Close(ctx, o.Ledger, threads.Change{Session: enginetest.Room, Thread: other.ID, By: "odd3"},
		threads.Closing{Summary: "done"})
	o.no(err)
	for _, kind := range []orchestrator.RequestKind{orchestrator.PlanApproval, orchestrator.Shutdown} {
		o.MustAsk(kind, "odd1", "odd3")
	}
	d := o.approved(ctx, "phone")
	o.Pair("second")
	_, _, err = questions.StartPairing(ctx, o.Ledger)
	o.no(err)
	_, err = questions.VAPIDPublicKey(ctx, o.Ledger)
	o.no(err)
	o.asked(ctx, "odd1", d.ID)
	answered := o.asked(ctx, "odd3", d.ID)
	_, err = questions.Answer(ctx, o.Ledger, answered, d.ID, "c2VhbGVk")
	o.no(err)
	id, err := questions.NewSignalID(o.Ledger, "a-")
	o.no(err)
	_, _, err = questions.AlertUser(ctx, o.Ledger,
		questions.AlertDraft{ID: id, Sender: "odd1", Body: "{}", Devices: []string{d.ID}})
	o.no(err)

	_, err = letters.NoteProblem(ctx, o.Ledger, letters.Problem{Path: "/a", Fingerprint: "1", Problem: "no JSON"})
	o.no(err)
	o.no(daemons.Beat(ctx, o.Ledger, ""))
	o.no(traffic.Count(ctx, o.Ledger))
	o.DeadWait("odd1", "odd3", o.Clock.Now().Add(time.Hour))
	o.DeadWait("odd3", "odd2", o.Clock.Now().Add(time.Hour))
	o.SQL(`INSERT INTO agent_secrets (agent, secret, created_at) VALUES ('odd2', 'whsec_eA==', '')`)
	o.SQL(`INSERT INTO command_trace (trace_id, span_id, name, kind, started_at)
		VALUES ('1', '2', 'send', 'PRODUCER', '2026-01-01T00:00:00.000Z')`)
	o.SQL(`INSERT INTO exports (name) VALUES ('otlp')`) // the package's own tests check hand-written values there
	_, err = removal.Remove(ctx, o.Ledger, removal.Request{Name: "gone"})
	o.no(err)
}

// postGood makes a post that must be in the thread once.
func (o *oddRun) postGood(ctx context.Context, r *delivery.Engine) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p, err := threads.Post(ctx, r.Ledger,
		threads.PostDraft{Session: enginetest.Room, Thread: o.good.thread.ID, Sender: "good_sender", Type: goodType,
			Payload: func([]string) (json.RawMessage, error) { return json.RawMessage(`{"content":"hello"}`), nil }})
	if err != nil {
		o.T.Errorf("a good post: %v", err)
		return
	}
	o.sent["thread"] = append(o.sent["thread"], p.MessageID)
}

// checkGood checks that the good things are unchanged.
func (o *oddRun) checkGood(ctx context.Context) {
	must := func(what string, err error) {
		if err != nil {
			o.T.Errorf("%s: %v", what, err)
		}
	}
	token, err := agents.Authenticate(ctx, o.Ledger, o.good.token)
	must("the good token", err)
	want.Equal(o.T, "whose token it is", token.Agent, "good_sender")
	read, err := threads.Read(ctx, o.Ledger,
		threads.ReadOptions{Thread: o.good.thread.ID, Agent: "good_reader", Limit: 1000})
	must("reading the good thread", err)
	for i := range read.Posts {
		o.posts = append(o.posts, read.Posts[i].ID)
	}
	left, _, err := reading.Wait(ctx, o.Ledger, reading.Options{Recipient: "good_taker", Limit: 10})
	must("waiting for what another reader has", err)
	want.Equal(o.T, "messages of another reader", len(left), 0)
	_, err = messages.Acknowledge(ctx, o.Ledger, o.good.lent, "good_taker")
	must("acknowledging what was lent", err)
	asked, _, err := questions.SignalsFor(ctx, o.Ledger, o.good.device)
	must("what the good device is asked", err)
	if !slices.ContainsFunc(asked, func(q questions.Question) bool { return q.ID == o.good.question }) {
		o.T.Errorf("the good device is asked %v, and not %s", asked, o.good.question)
	}
	_, err = questions.Answer(ctx, o.Ledger, o.good.question, o.good.device.ID, "c2VhbGVk")
	must("answering the good question", err)
	must("reading the good answer", questions.AnswerRead(ctx, o.Ledger, o.good.question))
}

// askBeside makes all queries about tables other than those of messages. An odd row must not make the queries of must
// fail. The queries of fine may fail with an error that something does not exist.
func (o *oddRun) askBeside(ctx context.Context, must, fine func(what string, err error)) {
	_, err := overview.RemovedAgents(ctx, o.Ledger)
	must("removed agents", err)
	_, err = daemons.List(ctx, o.Ledger)
	must("daemons", err)
	_, err = letters.Problems(ctx, o.Ledger)
	must("bridge problems", err)
	_, err = questions.Devices(ctx, o.Ledger)
	must("devices", err)
	_, err = questions.Alerts(ctx, o.Ledger, 100)
	must("alerts", err)
	_, err = questions.Unreturned(ctx, o.Ledger, "")
	must("unreturned answers", err)
	_, _, err = schedules.Runnable(ctx, o.Ledger)
	must("schedules", err)
	_, err = overview.AttemptsAfter(ctx, o.Ledger, 0)
	must("attempts", err)
	_, err = delivery.TryTransports(ctx, o.Ledger)
	must("trials", err)
	_, err = delivery.TryDevices(ctx, o.Ledger)
	must("trials of devices", err)
	th, err := threads.Create(ctx, o.Ledger,
		threads.Draft{Session: enginetest.Room, Name: "another", Creator: "good_sender"})
	must("a new thread", err)
	_, _, err = threads.AddParticipant(ctx, o.Ledger,
		threads.Change{Session: enginetest.Room, Thread: th.ID, By: "good_sender"}, "good_wire")
	must("a new participant", err)
	o.Pair("good too")
	_, err = hosts.NameOf(ctx, o.Ledger, hosts.Holder{Program: "claude", Process: process.Of(os.Getpid())})
	must("the name of a process", err)
	_, err = agents.Join(ctx, o.Ledger, agents.Joining{Session: enginetest.Session, Agent: "good_reader"})
	must("joining", err)
	waiting, end := context.WithCancel(ctx)
	var passing sync.WaitGroup
	passing.Go(func() {
		for waiting.Err() == nil {
			o.Clock.Advance(time.Millisecond)
		}
	})
	_, _, err = reading.Wait(ctx, o.Ledger,
		reading.Options{Recipient: "good_reader", Limit: 1, For: []string{"good_wire"}, Timeout: time.Millisecond})
	fine("waiting for somebody", err)
	end()
	passing.Wait()

	asked, err := questions.List(ctx, o.Ledger, questions.Filter{Limit: 30})
	must("questions", err)
	for _, q := range asked {
		_, err = questions.Get(ctx, o.Ledger, q.ID)
		fine("a question", err)
		_, err = questions.Answer(ctx, o.Ledger, q.ID, o.good.device.ID, "c2VhbGVk")
		fine("answering", err)
		fine("refusing", questions.RefuseAnswer(ctx, o.Ledger, q.ID, "c2VhbGVk", "forged"))
		fine("reading an answer", questions.AnswerRead(ctx, o.Ledger, q.ID))
		_, err = questions.Cancel(ctx, o.Ledger, q.ID, "")
		fine("taking a question back", err)
	}
	for _, id := range o.texts(`SELECT alert_id FROM signal_alerts LIMIT 10`) {
		_, err = questions.GetAlert(ctx, o.Ledger, id)
		fine("an alert", err)
	}
	for _, id := range o.texts(`SELECT thread_id FROM threads LIMIT 10`) {
		_, err = threads.Read(ctx, o.Ledger, threads.ReadOptions{Thread: id, Limit: 100})
		fine("reading a thread", err)
		_, err = threads.Close(ctx, o.Ledger, threads.Change{Session: enginetest.Room, Thread: id},
			threads.Closing{Summary: "over"})
		fine("closing a thread", err)
	}
	for _, id := range o.texts(`SELECT request_id FROM team_requests LIMIT 10`) {
		_, err = o.Reply(o.Engine, orchestrator.Shutdown, id, true, "odd3", "odd1")
		fine("answering a teammate", err)
	}
	for _, name := range []string{"good_reader", "odd1", "odd2", "odd3", "gone", "user"} {
		_, _, err = threads.Own(ctx, o.Ledger, name, "", 0, 100)
		fine("own threads", err)
		_, _, err = messages.History(ctx, o.Ledger, messages.HistoryFilter{Party: name, Posts: true, Limit: 100})
		fine("history", err)
		_, err = messages.SearchOwn(ctx, o.Ledger,
			messages.Search{Agent: name, Limit: 100, Says: func(*orchestrator.Message) bool { return true }})
		fine("a search", err)
		_, err = letters.Read(ctx, o.Ledger, letters.Request{Agent: name, Target: "dir:/tmp", Limit: 10, Mark: true})
		fine("reading what was placed", err)
		_, err = messages.ReleaseAll(ctx, o.Ledger, name, "")
		fine("releasing", err)
		_, err = overview.StandingOf(ctx, o.Ledger, name)
		fine("a standing", err)
		_, err = o.Say(name, "odd3")
		fine("sending to the team", err)
		_, err = o.Fixture.Ask(orchestrator.PlanApproval, name, "odd3")
		fine("asking a teammate", err)
		_, err = teams.EndTurn(ctx, o.Ledger, "",
			orchestrator.Draft{Sender: name, SessionID: enginetest.Session, Type: "idle_notification",
				Payload: []byte("{}")})
		fine("ending a turn", err)
		_, err = agents.RevokeTokens(ctx, o.Ledger, "odd1")
		fine("revoking tokens", err)
	}
	for _, s := range []string{enginetest.Room, enginetest.Session} {
		_, err = agents.Presences(ctx, o.Ledger, s)
		must("presences", err)
		_, err = teams.Get(ctx, o.Ledger, s)
		fine("a team", err)
	}
	_, err = removal.Remove(ctx, o.Ledger, removal.Request{Name: "odd1", Force: true})
	fine("removing an agent", err)
	for _, id := range o.texts(`SELECT device_id FROM signal_devices WHERE name NOT LIKE 'good%' LIMIT 10`) {
		_, err = questions.RevokeDevice(ctx, o.Ledger, id)
		fine("revoking a device", err)
	}
	_, err = agents.DeleteGroup(ctx, o.Ledger, "odd_group")
	fine("deleting a group", err)
	fine("removing a schedule", schedules.Remove(ctx, o.Ledger, fmt.Sprint("deliver", 1)))
}
