package overview

import (
	"fmt"
	"slices"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/questions"
	"mailroom/orchestrator/store"
)

// signalNamed returns the question or alert with an ID, represented as a message, followed by its pushes. It returns
// nothing if there is none.
func signalNamed(c *store.Conn, id string) (ms []orchestrator.Message, err error) {
	ms, err = store.List(c, func(row store.Row) orchestrator.Message {
		return orchestrator.Message{
			ID: id, Sender: row.Text(0), Recipient: orchestrator.User, Type: row.Text(1),
			Status: orchestrator.Status(row.Text(2)), Priority: int(row.Int(3)),
			CreatedAt: row.Text(4), ExpiresAt: row.Text(5), TraceID: row.Text(6),
		}
	}, `
		SELECT asker, 'question', status, priority, created_at, expires_at, trace_id FROM signal_questions
			WHERE question_id = ?1
		UNION ALL SELECT sender, 'alert', 'sent', priority, created_at, '', trace_id FROM signal_alerts
			WHERE alert_id = ?1`, id)
	if err != nil || len(ms) == 0 {
		return nil, err
	}
	pushes, err := questions.PushesOf(c, id)
	return append(ms, pushes...), err
}

// signalReceipts returns the recorded events of a question or an alert.
func signalReceipts(c *store.Conn, id string) ([]messages.Receipt, error) {
	list, err := store.List(c, func(row store.Row) messages.Receipt {
		return messages.Receipt{What: row.Text(0), At: row.Text(1), Evidence: row.Text(2)}
	}, `
		SELECT 'created', created_at, 'signal_questions.created_at' FROM signal_questions WHERE question_id = ?1
		UNION ALL SELECT status, ended_at, 'signal_questions.ended_at' FROM signal_questions WHERE question_id = ?1
		UNION ALL SELECT 'read', read_at, 'signal_questions.read_at' FROM signal_questions WHERE question_id = ?1
		UNION ALL SELECT 'returned', returned_at, 'signal_questions.returned_at' FROM signal_questions
			WHERE question_id = ?1
		UNION ALL SELECT 'created', created_at, 'signal_alerts.created_at' FROM signal_alerts WHERE alert_id = ?1`, id)
	return slices.DeleteFunc(list, func(r messages.Receipt) bool { return r.At == "" }), err
}

// madeOf returns the ID of the question or alert that Mailroom created from a message to the user, or "" if it has
// been deleted.
func madeOf(c *store.Conn, message string) (string, error) {
	id, _, err := c.Text(`SELECT question_id FROM signal_questions WHERE message_id = ?1 AND message_id <> ''
		UNION ALL SELECT alert_id FROM signal_alerts WHERE message_id = ?1 AND message_id <> ''`, message)
	return id, err
}

// explainSignal explains a question or an alert, and each of its pushes.
func explainSignal(c *store.Conn, l *ledger.Ledger, conf *ledger.Config, ms []orchestrator.Message,
	daemons int) (reasons []Reason, err error) {
	head := &ms[0]
	why := Reason{MessageID: head.ID, Sender: head.Sender, Recipient: orchestrator.User, Status: head.Status}
	if why.Receipts, err = signalReceipts(c, head.ID); err != nil {
		return nil, err
	}
	if why.LastError, _, err = c.Text(`SELECT 'an answer was rejected at ' || at || ': ' || error FROM message_trace
		WHERE message_id = ? AND event = 'refused' ORDER BY id DESC LIMIT 1`, head.ID); err != nil {
		return nil, err
	}
	there, err := questions.HasDevice(c)
	if err != nil {
		return nil, err
	}
	took := len(slices.DeleteFunc(slices.Clone(ms[1:]),
		func(m orchestrator.Message) bool { return m.Status != orchestrator.Delivered }))
	pushed := fmt.Sprintf("push services accepted %d of %s", took, plural(int64(len(ms)-1), "push", "pushes"))
	switch {
	case head.Type == "alert" && !there:
		why.Where, why.Rule = "in signal_alerts", "no approved device can show it yet; "+pushed
		why.Fix = "To add a phone, run `mailroom signal pair`"
	case head.Type == "alert":
		why.Where, why.Rule = "in signal_alerts, shown in the app", "an alert needs no answer; "+pushed
	case questions.Status(head.Status) == questions.Pending && head.ExpiresAt <= orchestrator.Stamp(l.Now()):
		why.Where, why.Rule = "in signal_questions", "the time to answer it ended at "+head.ExpiresAt+"; "+pushed
	case questions.Status(head.Status) == questions.Pending:
		why.Where = "in signal_questions, open in the app"
		why.Rule = fmt.Sprintf("nobody has answered it, and it expires at %s; %s", head.ExpiresAt, pushed)
		why.Fix = "Answer it on a phone. To check the connection between this machine and the phone, run `mailroom signal doctor`"
	default:
		why.Where, why.Rule = "in signal_questions", "its status is "+string(head.Status)+"; "+pushed
	}
	reasons = append(reasons, why)
	for i := range ms[1:] {
		reason, err := explain(c, l, conf, &ms[1+i], daemons)
		if err != nil {
			return nil, err
		}
		reasons = append(reasons, reason)
	}
	return reasons, nil
}
