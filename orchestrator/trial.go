package orchestrator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"mailroom/tracing"
)

// testPayload is what stands in it.
var testPayload = json.RawMessage(`{"message":"A test of the way to you, sent by mailroom doctor. There is nothing to do about it.","test":true}`)

// testRemark says in the trace what it is.
const testRemark = "a test message of mailroom doctor"

// trialTimeout bounds the attempt with a test message; an agent's own timeout may be shorter.
const trialTimeout = 30 * time.Second

// maxTrials bounds the agents that are tried at the same time.
const maxTrials = 16

// Trial is what came of a test message to one agent.
type Trial struct {
	Agent     string
	Deliver   string
	MessageID string // "" when none was sent
	Delivered bool
	Says      string // why it was not delivered, or not sent
	PutOff    bool   // the agent answered that it wants to be tried another time
	Disabled  bool   // it answered that its address is gone for good, so that its transport is disabled now
}

// TryTransports sends a message of the type TestMessage to every agent through its own transport and says what came of each.
// There is one attempt: a message that fails is cancelled, and nobody is told. An inbox has it as read. Trials are made side by
// side, each within 30 s or the agent's timeout. Error: those of the database; then nothing was tried.
func (r *Router) TryTransports(ctx context.Context) ([]Trial, error) {
	agents, err := r.Agents(ctx)
	if err != nil {
		return nil, err
	}
	return r.try(ctx, agents)
}

// TryDevices does the same for the devices that can be pushed to, each of which shows that it was tried. The Agent of its
// trial is the device's recipient.
func (r *Router) TryDevices(ctx context.Context) ([]Trial, error) {
	conf, err := r.configuration(ctx)
	if err != nil {
		return nil, err
	}
	var devices []Agent
	for _, a := range conf.agents {
		if r.partOf(a.Name) != nil {
			devices = append(devices, *a)
		}
	}
	return r.try(ctx, devices)
}

func (r *Router) try(ctx context.Context, agents []Agent) ([]Trial, error) {
	var mu sync.Mutex
	var trials []Trial
	var failure error
	var running sync.WaitGroup
	places := make(chan struct{}, maxTrials)
	for i := range agents {
		running.Add(1)
		GoSafe("trial of "+agents[i].Name, r.log, func() {
			defer running.Done()
			places <- struct{}{}
			defer func() { <-places }()
			trial, err := r.tryTransport(ctx, &agents[i])
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
func (r *Router) tryTransport(ctx context.Context, agent *Agent) (Trial, error) {
	trial := Trial{Agent: agent.Name, Deliver: agent.Deliver}
	if agent.Disabled != "" {
		trial.Says = "its transport is disabled since " + agent.Disabled
		return trial, nil
	}
	slot, err := r.takeSlot(ctx, agent.Name)
	if errors.Is(err, ErrNoSlot) {
		trial.Says = "as many of its commands are running as it allows"
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
	err = r.write(ctx, func(t *tx) (err error) {
		c, err = t.beginTrial(agent.Name, &trial)
		return err
	})
	if err != nil || c == nil {
		return trial, err
	}
	c.slot = slot
	attempt, cancel := attemptContext(ctx, c.timeout)
	defer cancel()
	outcomes := r.tryTarget(attempt, c, c.agent.Deliver)
	trial.Delivered, trial.Says, trial.PutOff = outcomes[0].delivered, outcomes[0].reason, outcomes[0].postponed
	_, settled, err := r.settleAndClaim(context.WithoutCancel(ctx), c, outcomes, "", DeliverOptions{})
	trial.Disabled = settled.disabled != ""
	return trial, err
}

// beginTrial stores a test message and claims it. Where the transport is a table, it is delivered and read with that, and
// there is no claim.
func (t *tx) beginTrial(name string, trial *Trial) (*claim, error) {
	conf, err := t.config()
	if err != nil {
		return nil, err
	}
	agent := conf.agents[name]
	if agent == nil {
		trial.Says = "it was removed meanwhile"
		return nil, nil
	}
	if agent.Withheld() {
		trial.Says = "this database is not trusted"
		return nil, nil
	}
	busy, err := t.number(`SELECT count(*) FROM agent_message WHERE `+leased+` AND recipient = ? AND sender = ?`, name, SystemSender)
	if err != nil {
		return nil, err
	}
	if busy > 0 {
		trial.Says = "a delivery to it is under way"
		return nil, nil
	}
	m, err := t.insertTest(agent, conf)
	if err != nil {
		return nil, err
	}
	trial.MessageID = m.ID
	if set := t.r.setTransport(agent); set != nil {
		fault, err := t.changeRows(func() error { return t.handOne(m, set) })
		if trial.Delivered = fault == nil; fault != nil {
			trial.Says = fault.Error()
			_, err = t.attemptFailed(m, &outcome{reason: trial.Says})
		}
		return nil, err
	}
	c := &claim{agent: agent, once: true, messages: []Message{*m}, timeout: min(agent.timeout(&conf.settings), trialTimeout)}
	if c.secret, err = t.secretFor(agent); err != nil {
		return nil, err
	}
	return c, t.lease(c)
}

// insertTest stores a test message and returns its row.
func (t *tx) insertTest(agent *Agent, conf *config) (*Message, error) {
	id, err := t.newID("msg-")
	if err != nil {
		return nil, err
	}
	d := Draft{Sender: SystemSender, Recipient: agent.Name, Type: TestMessage, Payload: testPayload, Summary: "a test of the way to " + agent.Name}
	if t.r.partOf(agent.Name) != nil {
		if d.Type, d.Payload, err = testPush(id); err != nil {
			return nil, err
		}
	}
	row := insertion{draft: &d, id: id, recipient: agent.Name, status: Pending, failure: testRemark}
	row.expire(t, &conf.settings)
	if err := t.insert(&row); err != nil {
		return nil, err
	}
	if err := t.traceCreated(); err != nil {
		return nil, err
	}
	ms, err := t.messages(`SELECT `+messageColumns+` FROM agent_message WHERE seq = ?`, row.seq)
	if err != nil {
		return nil, err
	}
	return &ms[0], nil
}

// isTest reports whether a message tries a transport.
func (m *Message) isTest() bool {
	var p Push
	return m.Sender == SystemSender && (m.Type == TestMessage || m.Type == pushType && json.Unmarshal(m.Payload, &p) == nil && p.Kind == PushTest)
}

// testFailed cancels a test message that did not arrive: it is no dead letter, since nobody misses what is in it.
func (t *tx) testFailed(m *Message, reason string) error {
	_, err := t.changeStatus(bySeq(m.seq), change{to: Cancelled, event: tracing.Cancelled, failure: testRemark + ": " + reason})
	return err
}

// testPush is what a device is sent to try it.
func testPush(id string) (kind string, payload json.RawMessage, err error) {
	payload, err = json.Marshal(Push{Kind: PushTest, ID: id})
	return pushType, payload, err
}
