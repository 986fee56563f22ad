package router_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/reading"
)

// legal lists the allowed changes of status. Source: contract, "The table".
var legal = map[string][]string{
	"":          {"pending", "failed"},
	"pending":   {"pending", "delivered", "retry", "failed", "expired", "cancelled"},
	"retry":     {"retry", "delivered", "failed", "expired", "cancelled"},
	"delivered": {"delivered", "expired"},
	"failed":    {"failed", "pending"},
	"expired":   {"expired", "pending"},
	"cancelled": {"cancelled"},
}

// TestStateMachine runs random sends, failures, crashes, cancellations, replays, readings and clock changes, and
// checks the promises of the contract after every step.
func TestStateMachine(t *testing.T) {
	t.Parallel()
	fewerChecks(t)
	rapid.Check(t, func(rt *rapid.T) {
		t.Log("another history") // shows that the test is running
		m := &machine{Fixture: enginetest.New(t, "a", "c", "inboxed"), rt: rt, replayed: map[string]int{},
			read: map[string]int{}}
		m.AddWired("wired")
		m.Wire.Batch = rapid.IntRange(1, 3).Draw(rt, "batch")
		m.Wire.Set(m.attempt)
		rt.Repeat(map[string]func(*rapid.T){
			"send": m.doSend, "deliver": m.doDeliver, "clock": m.doClock, "crash": m.doCrash, "cancel": m.doCancel,
			"replay": m.doReplay, "read": m.doRead, "byHand": m.doByHand, "enable": m.doEnable, "": m.check,
		})
		if err := m.Close(); err != nil {
			rt.Fatal(err)
		}
	})
}

// fewerChecks keeps the ordinary test run short; -rapid.checks asks for more.
func fewerChecks(t *testing.T) {
	t.Helper()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "rapid.checks" })
	if asked {
		return
	}
	if err := flag.Set("rapid.checks", "25"); err != nil {
		t.Fatal(err)
	}
}

// machine is the router under test, and the test's record of its history.
type machine struct {
	*enginetest.Fixture
	rt       *rapid.T
	ids      []string
	replayed map[string]int // how often each was replayed
	read     map[string]int // how often each was read
	hands    int
	back     bool // the clock was set back at some time
}

// answers lists the results that the transport may return for a message.
var answers = map[string]error{
	"taken": nil, "refused": errors.New("refused"), "later": enginetest.ErrLater, "gone": enginetest.ErrGone,
	"busy": &orchestrator.RetryAfter{Wait: 45 * time.Second, Err: errors.New("busy")},
}

// attempt is the transport: each message arrives or fails, as drawn. If it puts off a message, it does not accept
// later messages of the same sender and priority.
func (m *machine) attempt(_ context.Context, a orchestrator.Attempt) []error {
	errs := make([]error, len(a.Messages))
	put := map[string]bool{}
	for i, message := range a.Messages {
		pair := fmt.Sprint(message.Sender, message.Priority)
		if put[pair] {
			errs[i] = enginetest.ErrLater
			continue
		}
		answer := rapid.SampledFrom([]string{"taken", "taken", "taken", "refused", "refused", "later", "later", "busy",
			"gone"}).Draw(m.rt, "answer")
		errs[i], put[pair] = answers[answer], answer == "later"
	}
	return errs
}

// doEnable sets the agent's transport again, whether or not the agent is disabled.
func (m *machine) doEnable(*rapid.T) { m.AddWired("wired") }

func (m *machine) doSend(rt *rapid.T) {
	sent, err := messages.Send(m.T.Context(), m.Ledger, orchestrator.Draft{
		Sender:    rapid.SampledFrom([]string{"a", "c"}).Draw(rt, "sender"),
		Recipient: rapid.SampledFrom([]string{"wired", "inboxed", "all"}).Draw(rt, "recipient"),
		Priority:  rapid.IntRange(0, 1).Draw(rt, "priority"),
		TTL:       time.Duration(rapid.SampledFrom([]int{0, 0, 100}).Draw(rt, "ttl")) * time.Second,
	})
	if err != nil {
		rt.Fatal(err)
	}
	m.ids = append(m.ids, sent.MessageIDs...)
}

func (m *machine) doDeliver(rt *rapid.T) {
	if _, err := m.DeliverAll(m.T.Context(), delivery.Options{}); err != nil {
		rt.Fatal(err)
	}
}

func (m *machine) doClock(rt *rapid.T) {
	step := rapid.SampledFrom([]time.Duration{
		time.Second, 30*time.Second - time.Millisecond, time.Millisecond, time.Minute, 2 * time.Minute, 6 * time.Minute,
		-time.Hour,
	}).Draw(rt, "step")
	m.back = m.back || step < 0
	m.Clock.Advance(step)
}

// doCrash leaves a row as a process does that claims it and dies.
func (m *machine) doCrash(*rapid.T) {
	m.SQL(`UPDATE agent_message SET lease_token = 'dead-' || seq, lease_owner = 'gone', lease_until = ?1
		WHERE seq = (SELECT min(seq) FROM agent_message WHERE recipient = 'wired' AND status IN ('pending','retry')
			AND lease_token = '' AND next_attempt_at <= ?2)
		  AND NOT EXISTS (SELECT 1 FROM agent_message l WHERE l.lease_token <> '')`,
		m.Clock.Now().Add(time.Minute).Format("2006-01-02T15:04:05.000Z"),
		m.Clock.Now().Format("2006-01-02T15:04:05.000Z"))
}

func (m *machine) pick(rt *rapid.T) string {
	if len(m.ids) == 0 {
		rt.Skip("nothing was sent yet")
	}
	return rapid.SampledFrom(m.ids).Draw(rt, "id")
}

// tolerate accepts an error with one of the codes, and no other.
func (m *machine) tolerate(rt *rapid.T, err error, codes ...orchestrator.Code) bool {
	if err == nil {
		return true
	}
	for _, code := range codes {
		if orchestrator.CodeOf(err) == code {
			return false
		}
	}
	rt.Fatal(err)
	return false
}

func (m *machine) doCancel(rt *rapid.T) {
	_, err := messages.Cancel(m.T.Context(), m.Ledger, m.pick(rt), "")
	m.tolerate(rt, err, orchestrator.Conflict)
}

func (m *machine) doReplay(rt *rapid.T) {
	id := m.pick(rt)
	if _, err := messages.Replay(m.T.Context(), m.Ledger, id, ""); m.tolerate(rt, err, orchestrator.Conflict) {
		m.replayed[id]++
	}
}

func (m *machine) doRead(rt *rapid.T) {
	ms, _, err := reading.Wait(m.T.Context(), m.Ledger,
		reading.Options{Recipient: "inboxed", Limit: rapid.IntRange(1, 4).Draw(rt, "limit")})
	if err != nil {
		rt.Fatal(err)
	}
	for _, got := range ms {
		if m.read[got.ID]++; m.read[got.ID] > 1+m.replayed[got.ID] {
			rt.Fatalf("%s was read %d times", got.ID, m.read[got.ID])
		}
	}
}

// doByHand sends a message as a program does that knows only the document.
func (m *machine) doByHand(*rapid.T) {
	m.hands++
	id := fmt.Sprintf("hand-%d", m.hands)
	m.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload) VALUES (?, 'a', 'inboxed', '{}')`, id)
	m.ids = append(m.ids, id)
}

// check checks the whole history against the promises.
func (m *machine) check(rt *rapid.T) {
	for _, row := range m.Rows(`SELECT message_id,
		coalesce(lag(new_status) OVER (PARTITION BY message_id ORDER BY id), ''), coalesce(old_status, ''), new_status
		FROM message_trace WHERE event <> 'adopted'`) {
		var id, before, old, now string
		if n, _ := fmt.Sscanf(row, "%s %s %s", &id, &old, &now); n < 3 {
			continue // the first event of a message
		} else if _, err := fmt.Sscanf(row, "%s %s %s %s", &id, &before, &old, &now); err != nil {
			continue
		}
		if before != old {
			rt.Fatalf("%s: the trace goes from %s to one that begins with %s", id, before, old)
		}
		if !contains(legal[old], now) {
			rt.Fatalf("%s went from %s to %s", id, old, now)
		}
	}
	for what, query := range map[string]string{
		"the trace disagrees with the table": `SELECT message_id, status FROM agent_message m WHERE traced_status <> ''
			AND status IS DISTINCT FROM
			(SELECT new_status FROM message_trace t WHERE t.message_id = m.message_id ORDER BY id DESC LIMIT 1)`,
		"two live leases of one sender and recipient": `SELECT sender, recipient FROM agent_message
			WHERE lease_token <> ''
			GROUP BY sender, recipient HAVING count(DISTINCT lease_token) > 1`,
		"an inbox has it twice": `SELECT message_id FROM agent_inbox GROUP BY message_id, recipient
			HAVING count(*) > 1`,
		"delivered and not in the inbox": `SELECT message_id FROM agent_message m WHERE status = 'delivered'
			AND recipient <> 'wired'
			AND traced_status <> '' AND NOT EXISTS (SELECT 1 FROM agent_inbox i WHERE i.message_id = m.message_id)`,
		"expired and still readable": `SELECT message_id FROM agent_inbox
			WHERE message_id IN (SELECT message_id FROM agent_message WHERE status = 'expired')`,
		"more retries than allowed": `SELECT message_id FROM agent_message WHERE retry_count > max_retries`,
		"a bounce of a bounce":      `SELECT message_id FROM agent_message WHERE recipient = 'system'`,
		"times go backwards": `SELECT a.id FROM message_trace a JOIN message_trace b ON b.id = a.id + 1
			WHERE b.at < a.at`,
	} {
		if rows := m.Rows(query); len(rows) > 0 {
			rt.Fatalf("%s: %v", what, rows)
		}
	}
	m.checkArrivals(rt)
	m.checkLadder(rt)
}

// checkArrivals checks that nothing arrives twice, and that messages that never failed arrive in the order of
// sending, per sender and priority, also if they were put off.
func (m *machine) checkArrivals(rt *rapid.T) {
	times := map[string]int{}
	last := map[string]string{}
	untroubled := map[string]bool{}
	for _, id := range m.Rows(`SELECT message_id FROM agent_message m WHERE crashes = 0 AND retry_count = 0
		AND status = 'delivered'
		AND NOT EXISTS (SELECT 1 FROM message_trace t WHERE t.message_id = m.message_id
		  AND (t.event IN ('attempt_failed','replayed') OR t.event = 'released' AND t.error NOT LIKE 'put off%'))`) {
		untroubled[id] = true
	}
	for _, got := range m.Wire.Arrived {
		if times[got.ID]++; times[got.ID] > 1+m.replayed[got.ID] {
			rt.Fatalf("%s arrived %d times", got.ID, times[got.ID])
		}
		pair := fmt.Sprint(got.Sender, got.Priority)
		if untroubled[got.ID] {
			if got.ID < last[pair] {
				rt.Fatalf("%s arrived behind %s", got.ID, last[pair])
			}
			last[pair] = got.ID
		}
	}
}

// checkLadder checks that the time between a failed attempt and the next one of the same message is the delay of the
// retry schedule, to the millisecond.
func (m *machine) checkLadder(rt *rapid.T) {
	if m.back {
		return // after a set-back clock, the delays cannot be measured
	}
	rungs := map[int]float64{1: 30, 2: 60, 3: 120}
	for _, row := range m.Rows(`SELECT message_id, attempt, event,
		coalesce((julianday(at) - julianday(lag(at) OVER w)) * 86400, 0), coalesce(lag(event) OVER w, ''),
			coalesce(lag(attempt) OVER w, 0)
		FROM message_trace
			WHERE event IN ('attempt_failed', 'delivered', 'replayed', 'claimed') WINDOW w AS (PARTITION BY message_id
				ORDER BY id)`) {
		var id, event, before string
		var attempt, earlier int
		var gap float64
		if n, _ := fmt.Sscan(row, &id, &attempt, &event, &gap, &before, &earlier); n < 6 ||
			before != "attempt_failed" || event == "replayed" {
			continue
		}
		if gap < rungs[earlier]-0.001 {
			rt.Fatalf("%s: attempt %d came %.3f s after attempt %d failed", id, attempt, gap, earlier)
		}
	}
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}
