package orchestrator_test

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
)

// goodThings must be as they were when a run is over.
type goodThings struct {
	token    string // of good_sender
	device   orchestrator.Device
	thread   orchestrator.Thread
	question string // that good_sender has asked, and nobody has answered
	lent     string // message that good_taker has under a lease
}

// newOddRun makes a database with at least one row in every table, so that there is something to write over.
func newOddRun(t *testing.T, script []byte) *oddRun {
	f := newFixture(t, "good_sender", "good_reader", "good_taker", "odd1", "odd3", "gone")
	o := &oddRun{fixture: f, routers: []*orchestrator.Engine{f.Engine, f.open()}, db: openPlain(t, f.path), script: script,
		sent: map[string][]string{}}
	o.db.SetMaxOpenConns(1)
	f.addWired("good_wire")
	f.addWired("odd2")
	f.wire.batch = 3
	f.user.back = func(ctx context.Context, r *orchestrator.Router) error {
		_, err := r.Unreturned(ctx, "")
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

// no fails the run for an error of what comes before it.
func (o *oddRun) no(err error) {
	o.t.Helper()
	if err != nil {
		o.t.Fatal(err)
	}
}

// approved pairs and approves a device that is pushed to.
func (o *oddRun) approved(ctx context.Context, name string) orchestrator.Device {
	d, _ := o.paired(name)
	d, err := o.ActivateDevice(ctx, d.ID, d.Recipient)
	o.no(err)
	o.no(o.Subscribe(ctx, d.ID, subscription("https://updates.push.services.mozilla.com/wpush/v2/"+name)))
	return d
}

func (o *oddRun) asked(ctx context.Context, asker string, devices ...string) string {
	return o.question(devices, func(d *orchestrator.QuestionDraft) { d.Asker, d.TTL = asker, 24*time.Hour }).ID
}

func (o *oddRun) makeGood(ctx context.Context) {
	_, err := o.SetGroup(ctx, "good_group", []string{"good_reader", "good_wire"})
	o.no(err)
	o.good.token, _, err = o.IssueToken(ctx, "good_sender", true, 0)
	o.no(err)
	o.good.device = o.approved(ctx, "good")
	o.good.thread = o.thread("good_sender", "good_reader")
	o.good.question = o.asked(ctx, "good_sender", o.good.device.ID)
	o.good.lent = o.send("good_sender", "good_taker", func(d *orchestrator.Draft) { d.Type = goodType })
	wantTaken(o.t, o.takeFor("good_taker", 24*time.Hour), o.good.lent)
}

func (o *oddRun) makeOdd(ctx context.Context) {
	_, err := o.SetGroup(ctx, "odd_group", []string{"odd1", "odd2"})
	o.no(err)
	_, _, err = o.IssueToken(ctx, "odd1", true, 0)
	o.no(err)
	o.add(orchestrator.AgentUpdate{Name: "odd1", SilentAfter: new(time.Minute)})
	o.add(orchestrator.AgentUpdate{Name: "odd3", StartCommand: new("true")})
	o.setting("ralph.pm", "odd3")
	o.setting("retry.ladder", "20s,1m")

	o.clear(orchestrator.ClearOptions{})
	o.send("odd3", "odd1")
	o.deliver()
	o.clock.advance(time.Minute)
	o.clear(orchestrator.ClearOptions{OlderThan: time.Second}) // into the archive
	o.send("odd3", "odd1", func(d *orchestrator.Draft) { d.AckWithin, d.IdempotencyKey = time.Hour, "key" })
	o.send("odd1", "odd3", func(d *orchestrator.Draft) { d.TTL = time.Hour })
	o.send("odd1", "user")
	o.deliver()
	_, _, err = o.Wait(ctx, orchestrator.WaitOptions{Recipient: "odd1", Limit: 1,
		Lease: orchestrator.ReadingLease{For: time.Hour, Holder: "wait", PID: os.Getpid()}})
	o.no(err)
	begun, err := o.Sessions().Begin(ctx, "odd3", "")
	if o.no(err); begun == nil {
		o.t.Fatal("there is no session to begin")
	}

	th := o.thread("odd1", "odd2", "odd3")
	o.mustPost(th.ID, "odd1", "odd2")
	other := o.thread("odd3", "odd1")
	_, err = o.CloseThread(ctx, orchestrator.ThreadChange{Session: room, Thread: other.ID, By: "odd3"}, orchestrator.Closing{Summary: "done"})
	o.no(err)
	for _, kind := range []orchestrator.RequestKind{orchestrator.PlanApproval, orchestrator.Shutdown} {
		o.mustAsk(kind, "odd1", "odd3")
	}
	d := o.approved(ctx, "phone")
	o.paired("second")
	_, _, err = o.StartPairing(ctx)
	o.no(err)
	_, err = o.VAPIDPublicKey(ctx)
	o.no(err)
	o.asked(ctx, "odd1", d.ID)
	answered := o.asked(ctx, "odd3", d.ID)
	_, err = o.AnswerQuestion(ctx, answered, d.ID, "c2VhbGVk")
	o.no(err)
	id, err := o.NewSignalID("a-")
	o.no(err)
	_, _, err = o.AlertUser(ctx, orchestrator.AlertDraft{ID: id, Sender: "odd1", Body: "{}", Devices: []string{d.ID}})
	o.no(err)

	_, err = o.NoteBridgeProblem(ctx, orchestrator.BridgeProblem{Path: "/a", Fingerprint: "1", Problem: "no JSON"})
	o.no(err)
	o.no(o.Beat(ctx, ""))
	o.edge("odd1", "odd3", o.clock.now().Add(time.Hour))
	o.edge("odd3", "odd2", o.clock.now().Add(time.Hour))
	o.sql(`INSERT INTO agent_secrets (agent, secret, created_at) VALUES ('odd2', 'whsec_eA==', '')`)
	o.sql(`INSERT INTO command_trace (trace_id, span_id, name, kind, started_at) VALUES ('1', '2', 'send', 'PRODUCER', '2026-01-01T00:00:00.000Z')`)
	_, err = o.RemoveAgent(ctx, orchestrator.AgentRemoval{Name: "gone"})
	o.no(err)
}

// postGood posts what must stand in the thread once.
func (o *oddRun) postGood(ctx context.Context, r *orchestrator.Engine) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p, err := r.Post(ctx, orchestrator.PostDraft{Session: room, Thread: o.good.thread.ID, Sender: "good_sender", Type: goodType,
		Payload: func([]string) (json.RawMessage, error) { return json.RawMessage(`{"content":"hello"}`), nil }})
	if err != nil {
		o.t.Errorf("a good post: %v", err)
		return
	}
	o.sent["thread"] = append(o.sent["thread"], p.MessageID)
}

// checkGood holds the good things to what they were.
func (o *oddRun) checkGood(ctx context.Context) {
	must := func(what string, err error) {
		if err != nil {
			o.t.Errorf("%s: %v", what, err)
		}
	}
	token, err := o.Authenticate(ctx, o.good.token)
	must("the good token", err)
	want(o.t, "whose token it is", token.Agent, "good_sender")
	read, err := o.ReadThread(ctx, orchestrator.ThreadReading{Thread: o.good.thread.ID, Agent: "good_reader", Limit: 1000})
	must("reading the good thread", err)
	for i := range read.Posts {
		o.posts = append(o.posts, read.Posts[i].ID)
	}
	left, _, err := o.Wait(ctx, orchestrator.WaitOptions{Recipient: "good_taker", Limit: 10})
	must("waiting for what another reader has", err)
	want(o.t, "messages of another reader", len(left), 0)
	_, err = o.Acknowledge(ctx, o.good.lent, "good_taker")
	must("acknowledging what was lent", err)
	questions, _, err := o.SignalsFor(ctx, o.good.device)
	must("what the good device is asked", err)
	if !slices.ContainsFunc(questions, func(q orchestrator.Question) bool { return q.ID == o.good.question }) {
		o.t.Errorf("the good device is asked %v, and not %s", questions, o.good.question)
	}
	_, err = o.AnswerQuestion(ctx, o.good.question, o.good.device.ID, "c2VhbGVk")
	must("answering the good question", err)
	must("reading the good answer", o.AnswerRead(ctx, o.good.question))
}

// askBeside asks all that can be asked of what is beside the messages. Of what must be answered an odd row must keep nobody; of the
// others an error may say that there is no such thing.
func (o *oddRun) askBeside(ctx context.Context, must, fine func(what string, err error)) {
	_, err := o.RemovedAgents(ctx)
	must("removed agents", err)
	_, err = o.Daemons(ctx)
	must("daemons", err)
	_, err = o.BridgeProblems(ctx)
	must("bridge problems", err)
	_, err = o.Devices(ctx)
	must("devices", err)
	_, err = o.Alerts(ctx, time.Time{}, 100)
	must("alerts", err)
	_, err = o.Unreturned(ctx, "")
	must("unreturned answers", err)
	_, _, err = o.RunnableSchedules(ctx)
	must("schedules", err)
	_, err = o.AttemptsAfter(ctx, 0)
	must("attempts", err)
	_, err = o.TryTransports(ctx)
	must("trials", err)
	_, err = o.TryDevices(ctx)
	must("trials of devices", err)
	th, err := o.CreateThread(ctx, orchestrator.ThreadDraft{Session: room, Name: "another", Creator: "good_sender"})
	must("a new thread", err)
	_, _, err = o.AddParticipant(ctx, orchestrator.ThreadChange{Session: room, Thread: th.ID, By: "good_sender"}, "good_wire")
	must("a new participant", err)
	o.paired("good too")
	_, err = o.Join(ctx, orchestrator.Joining{Session: session, Agent: "good_reader"})
	must("joining", err)
	waiting, end := context.WithCancel(ctx)
	var passing sync.WaitGroup
	passing.Go(func() {
		for waiting.Err() == nil {
			o.clock.advance(time.Millisecond)
		}
	})
	_, _, err = o.Wait(ctx, orchestrator.WaitOptions{Recipient: "good_reader", Limit: 1, For: []string{"good_wire"}, Timeout: time.Millisecond})
	fine("waiting for somebody", err)
	end()
	passing.Wait()

	questions, err := o.Questions(ctx, orchestrator.QuestionFilter{Limit: 30})
	must("questions", err)
	for _, q := range questions {
		_, err = o.Question(ctx, q.ID)
		fine("a question", err)
		_, err = o.AnswerQuestion(ctx, q.ID, o.good.device.ID, "c2VhbGVk")
		fine("answering", err)
		fine("refusing", o.RefuseAnswer(ctx, q.ID, "c2VhbGVk", "forged"))
		fine("reading an answer", o.AnswerRead(ctx, q.ID))
		_, err = o.CancelQuestion(ctx, q.ID, "")
		fine("taking a question back", err)
	}
	for _, id := range o.texts(`SELECT alert_id FROM signal_alerts LIMIT 10`) {
		_, err = o.Alert(ctx, id)
		fine("an alert", err)
	}
	for _, id := range o.texts(`SELECT thread_id FROM threads LIMIT 10`) {
		_, err = o.ReadThread(ctx, orchestrator.ThreadReading{Thread: id, Limit: 100})
		fine("reading a thread", err)
		_, err = o.CloseThread(ctx, orchestrator.ThreadChange{Session: room, Thread: id}, orchestrator.Closing{Summary: "over"})
		fine("closing a thread", err)
	}
	for _, id := range o.texts(`SELECT request_id FROM team_requests LIMIT 10`) {
		_, err = o.reply(o.Engine, orchestrator.Shutdown, id, true, "odd3", "odd1")
		fine("answering a teammate", err)
	}
	for _, name := range []string{"good_reader", "odd1", "odd2", "odd3", "gone", "user"} {
		_, _, err = o.OwnThreads(ctx, name, "", 100)
		fine("own threads", err)
		_, _, err = o.History(ctx, orchestrator.HistoryFilter{Party: name, Posts: true, Limit: 100})
		fine("history", err)
		_, err = o.SearchOwn(ctx, orchestrator.Search{Agent: name, Limit: 100, Says: func(*orchestrator.Message) bool { return true }})
		fine("a search", err)
		_, _, _, err = o.ReadPlaced(ctx, name, "dir:/tmp", 10, true)
		fine("reading what was placed", err)
		_, err = o.ReleaseAll(ctx, name, "")
		fine("releasing", err)
		_, err = o.AgentStanding(ctx, name)
		fine("a standing", err)
		_, err = o.say(name, "odd3")
		fine("sending to the team", err)
		_, err = o.fixture.ask(orchestrator.PlanApproval, name, "odd3")
		fine("asking a teammate", err)
		_, err = o.EndTurn(ctx, "", orchestrator.Draft{Sender: name, SessionID: session, Type: "idle_notification", Payload: []byte("{}")})
		fine("ending a turn", err)
		_, err = o.RevokeTokens(ctx, "odd1")
		fine("revoking tokens", err)
	}
	for _, s := range []string{room, session} {
		_, err = o.Presences(ctx, s)
		must("presences", err)
		_, err = o.Team(ctx, s)
		fine("a team", err)
	}
	_, err = o.RemoveAgent(ctx, orchestrator.AgentRemoval{Name: "odd1", Force: true})
	fine("removing an agent", err)
	for _, id := range o.texts(`SELECT device_id FROM signal_devices WHERE name NOT LIKE 'good%' LIMIT 10`) {
		_, err = o.RevokeDevice(ctx, id)
		fine("revoking a device", err)
	}
	_, err = o.DeleteGroup(ctx, "odd_group")
	fine("deleting a group", err)
	fine("removing a schedule", o.RemoveSchedule(ctx, fmt.Sprint("deliver", 1)))
}
