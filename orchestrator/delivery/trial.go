package delivery

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/push"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// testPayload is the payload of a test message to an agent.
var testPayload = json.RawMessage(`{"message":"This is a delivery test by mailroom doctor. You do not need to do anything.","test":true}`)

// testRemark marks a test message in the trace.
const testRemark = "a test message from mailroom doctor"

// trialTimeout limits the attempt with a test message. An agent's own timeout may be shorter.
const trialTimeout = 30 * time.Second

// maxTrials is the maximum number of agents that are tested at the same time.
const maxTrials = 16

// Trial is the result of a test message to one agent.
type Trial struct {
	Agent     string
	Deliver   string
	MessageID string // "" if no message was sent
	Delivered bool
	Says      string // why it was not delivered or not sent
	PutOff    bool   // the agent requested a later attempt
	Disabled  bool   // the agent's address is gone for good, so its transport is now disabled
}

// TryTransports sends a message of the type TestMessage to every agent through its own transport and returns the
// results. It makes one attempt. A message that fails is cancelled, and nobody is notified. In an inbox the message
// is marked as read. The tests run concurrently, each within 30 s or the agent's timeout. Error: those of the
// database; then nothing was tested.
func TryTransports(ctx context.Context, l *ledger.Ledger) ([]Trial, error) {
	agents, err := agents.List(ctx, l)
	if err != nil {
		return nil, err
	}
	return try(ctx, l, agents)
}

// TryDevices sends a test push to every device that can receive pushes, and each device shows the test. The Agent of
// a Trial is then the device's recipient name.
func TryDevices(ctx context.Context, l *ledger.Ledger) ([]Trial, error) {
	conf, err := l.Configuration(ctx)
	if err != nil {
		return nil, err
	}
	var devices []ledger.Agent
	for _, a := range conf.Agents {
		if l.PartOf(a.Name) != nil {
			devices = append(devices, *a)
		}
	}
	return try(ctx, l, devices)
}

func try(ctx context.Context, l *ledger.Ledger, agents []ledger.Agent) ([]Trial, error) {
	var mu sync.Mutex
	var trials []Trial
	var failure error
	var running sync.WaitGroup
	places := make(chan struct{}, maxTrials)
	for i := range agents {
		running.Add(1)
		orchestrator.GoSafe("trial of "+agents[i].Name, l.Log, func() {
			defer running.Done()
			places <- struct{}{}
			defer func() { <-places }()
			trial, err := tryTransport(ctx, l, &agents[i])
			if err != nil && trial.Says == "" {
				trial.Says = err.Error()
			}
			mu.Lock()
			defer mu.Unlock()
			trials, failure = append(trials, trial), cmp.Or(failure, err)
		})
	}
	running.Wait()
	slices.SortFunc(trials, func(a, b Trial) int { return cmp.Compare(a.Agent, b.Agent) })
	return trials, failure
}

// tryTransport sends one test message.
func tryTransport(ctx context.Context, l *ledger.Ledger, agent *ledger.Agent) (Trial, error) {
	trial := Trial{Agent: agent.Name, Deliver: agent.Deliver}
	if agent.Disabled != "" {
		since, why := agent.DisabledSince()
		trial.Says = "its transport has been disabled since " + since + ": " + why
		return trial, nil
	}
	slot, err := takeSlot(ctx, l, agent.Name)
	if errors.Is(err, orchestrator.ErrNoSlot) {
		trial.Says = "its limit of concurrent commands is reached"
		return trial, nil
	}
	if err != nil {
		trial.Says = err.Error()
		return trial, nil
	}
	if slot != nil {
		defer slot.Release()
	}
	var c *claim
	err = l.Write(ctx, store.Of(agent.Name), func(t *ledger.Tx) (err error) {
		c, err = beginTrial(t, agent.Name, &trial)
		return err
	})
	if err != nil || c == nil {
		return trial, err
	}
	c.slot = slot
	attempt, cancel := attemptContext(ctx, l.Store.Alive(), c.timeout)
	defer cancel()
	outcomes := tryTarget(attempt, l, c, c.agent.Deliver)
	trial.Delivered, trial.Says, trial.PutOff = outcomes[0].delivered, outcomes[0].reason, outcomes[0].postponed
	_, settled, err := settleAndClaim(context.WithoutCancel(ctx), l, c, outcomes, "", Options{})
	trial.Disabled = settled.disabled != ""
	return trial, err
}

// beginTrial stores a test message and claims it. If the transport is a table, the message is thereby delivered and
// read, and there is no claim.
func beginTrial(t *ledger.Tx, name string, trial *Trial) (*claim, error) {
	conf := t.Config()
	agent := conf.Agents[name]
	if agent == nil {
		trial.Says = "the agent was removed in the meantime"
		return nil, nil
	}
	switch {
	case agent.Withheld():
		trial.Says = "this database is not trusted"
		return nil, nil
	case agent.Elsewhere():
		trial.Says = "the agent's transport is on the host " + agent.Host + "; to test it, run `mailroom doctor --try` on that host"
		return nil, nil
	}
	busy, err := t.Number(`SELECT count(*) FROM agent_message WHERE `+ledger.Leased+` AND recipient = ? AND sender = ?`,
		name, orchestrator.SystemSender)
	if err != nil {
		return nil, err
	}
	if busy > 0 {
		trial.Says = "a delivery to the agent is in progress"
		return nil, nil
	}
	m, err := insertTest(t, agent, conf)
	if err != nil {
		return nil, err
	}
	trial.MessageID = m.ID
	if set := t.Ledger.SetTransport(agent); set != nil {
		fault, err := t.ChangeRows(func() error { return HandOne(t, m, set, true) })
		if trial.Delivered = fault == nil; fault != nil {
			trial.Says = fault.Error()
			_, err = attemptFailed(t, m, &outcome{reason: trial.Says})
		}
		return nil, err
	}
	c := &claim{agent: agent, trial: true, messages: []orchestrator.Message{*m},
		timeout: min(agent.Timeout(&conf.Settings), trialTimeout)}
	if c.secret, err = agents.SecretFor(t, agent); err != nil {
		return nil, err
	}
	return c, lease(t, c)
}

// insertTest stores a test message and returns it.
func insertTest(t *ledger.Tx, agent *ledger.Agent, conf *ledger.Config) (*orchestrator.Message, error) {
	id, err := t.NewID("msg-")
	if err != nil {
		return nil, err
	}
	d := orchestrator.Draft{Sender: orchestrator.SystemSender, Recipient: agent.Name, Type: orchestrator.TestMessage,
		Payload: testPayload, Summary: "delivery test for " + agent.Name}
	if t.Ledger.PartOf(agent.Name) != nil {
		if d.Type, d.Payload, err = testPush(id); err != nil {
			return nil, err
		}
	}
	row := ledger.Insertion{Draft: &d, Id: id, Recipient: agent.Name, Status: orchestrator.Pending, Failure: testRemark}
	row.Expire(t, &conf.Settings)
	if err := t.Insert(&row); err != nil {
		return nil, err
	}
	if err := t.TraceCreated(); err != nil {
		return nil, err
	}
	ms, err := ledger.Messages(t.Conn, `SELECT `+ledger.MessageColumns+` FROM agent_message WHERE seq = ?`, row.Seq)
	if err != nil {
		return nil, err
	}
	return &ms[0], nil
}

// isTest reports whether a message is a test message.
func isTest(m *orchestrator.Message) bool {
	var p push.Message
	return m.Sender == orchestrator.SystemSender &&
		(m.Type == orchestrator.TestMessage || m.Type == push.Type && json.Unmarshal(m.Payload, &p) == nil &&
			p.Kind == push.Test)
}

// testFailed cancels a test message that did not arrive. The message does not become a dead letter, because nobody
// misses its content.
func testFailed(t *ledger.Tx, m *orchestrator.Message, reason string) error {
	_, err := t.ChangeStatus(ledger.BySeq(m.Seq),
		ledger.Change{To: orchestrator.Cancelled, Event: tracing.Cancelled, Failure: testRemark + ": " + reason})
	return err
}

// testPush returns the type and the payload of a test message to a device.
func testPush(id string) (kind string, payload json.RawMessage, err error) {
	payload, err = json.Marshal(push.Message{Kind: push.Test, ID: id})
	return push.Type, payload, err
}
