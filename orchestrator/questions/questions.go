// Package questions stores the questions and alerts of agents for the user, the answers, and the devices that show
// them. Bodies may be sealed: package person encrypts them, and this package cannot read them.
package questions

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/push"
	"mailroom/orchestrator/store"
	"mailroom/tracing"

	"github.com/oklog/ulid/v2"
)

// Status is the state of a question.
type Status string

// The states of a question. A question is pending at first; each of the other states is final. Source: signal.md,
// "Life of a question".
const (
	Pending   Status = "pending"
	Answered  Status = "answered"
	Expired   Status = "expired"
	Cancelled Status = "cancelled"
)

// Question is a question from an agent to the user, with the answer if there is one.
type Question struct {
	ID        string
	Asker     string
	Status    Status
	Encrypted bool
	Body      string // encrypted: an age file in base64; otherwise JSON
	Priority  int
	SessionID string
	ThreadID  string
	InReplyTo string // question that this one follows
	ProjectID string
	MessageID string // of the message to User that asks; "" if a command asked
	CreatedAt string
	ExpiresAt string
	EndedAt   string
	// Answer is, if encrypted, an age file in base64 for the asker; otherwise, it is JSON: {"option":1},
	// {"option":1,"text":".."} or {"text":".."}.
	Answer     string
	AnsweredBy string // device
	ReadAt     string // when the asker first read the answer
	ReturnedAt string // when the answer was returned as a message
}

// Draft is a question that is about to be asked.
type Draft struct {
	ID        string // from NewSignalID
	Asker     string
	Encrypted bool
	Body      string // at most 64 KiB
	Priority  int
	SessionID string
	ThreadID  string
	InReplyTo string
	ProjectID string
	MessageID string
	TTL       time.Duration // after which it expires unanswered, 1 s to 30 days
	Devices   []string      // IDs of the devices that can read it
}

const (
	// maxSignal bounds the body of a question or an alert, in bytes.
	maxSignal = 64 << 10

	// maxAnswerBytes bounds an answer, sealed or not.
	maxAnswerBytes = 32 << 10

	// maxOpenQuestions is how many questions of one agent can be open, so that an agent in a loop does not flood a
	// person.
	maxOpenQuestions = 100
)

const questionColumns = `question_id, asker, status, encrypted, body, priority, session_id, thread_id, in_reply_to, project_id,
	message_id, created_at, expires_at, ended_at, answer, answered_by, read_at, returned_at`

func scanQuestion(row store.Row) Question {
	return Question{
		ID: row.Text(0), Asker: row.Text(1), Status: Status(row.Text(2)), Encrypted: row.Int(3) != 0,
		Body: row.Text(4), Priority: int(row.Int(5)), SessionID: row.Text(6), ThreadID: row.Text(7),
		InReplyTo: row.Text(8), ProjectID: row.Text(9), MessageID: row.Text(10), CreatedAt: row.Text(11),
		ExpiresAt: row.Text(12), EndedAt: row.Text(13), Answer: row.Text(14), AnsweredBy: row.Text(15),
		ReadAt:     row.Text(16),
		ReturnedAt: row.Text(17),
	}
}

// NewSignalID returns a new ID for a question (prefix "q-"), an alert ("a-") or a device ("d-"). The ID is created
// before the row, since the sealed content includes it. NewSignalID is safe for concurrent use.
func NewSignalID(l *ledger.Ledger, prefix string) (string, error) {
	id, err := ulid.New(ulid.Timestamp(l.Now()), rand.Reader)
	return prefix + id.String(), err
}

// Ask stores a question and pushes it to the devices that can read it, in one transaction. The question is on disk
// when Ask returns. pushed is the number of these devices. A question with a MessageID is stored once; a repeated
// call returns the first question. Errors: invalid_params; unknown_sender, also for a message of an agent that was
// removed; unavailable if the asker has too many open questions.
func Ask(ctx context.Context, l *ledger.Ledger, d Draft) (q Question, pushed int, err error) {
	if d.Asker, err = orchestrator.CheckName("asker", d.Asker); err != nil {
		return q, 0, err
	}
	if len(d.Body) > maxSignal {
		return q, 0, orchestrator.Errorf(orchestrator.InvalidParams,
			"the question has %d bytes; the limit is %d", len(d.Body), maxSignal)
	}
	if d.TTL < time.Second || d.TTL > orchestrator.MaxTTL {
		return q, 0, orchestrator.Errorf(orchestrator.InvalidParams, "ttl: must be 1 second to %[2]s, but is %[1]s",
			orchestrator.FormatDuration(d.TTL), orchestrator.FormatDuration(orchestrator.MaxTTL))
	}
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		q, pushed, err = askUser(t, &d)
		return err
	})
	return q, pushed, err
}

func askUser(t *ledger.Tx, d *Draft) (q Question, pushed int, err error) {
	if d.MessageID != "" {
		q, found, err := questionBy(t.Conn, ofMessage, d.MessageID)
		if err != nil || found {
			return q, 0, err
		}
	}
	conf, err := agents.Acting(t, d.Asker)
	if err == nil && d.MessageID != "" {
		err = checkAsker(t, conf, d)
	}
	if err != nil {
		return q, 0, err
	}
	open, err := t.Number(`SELECT count(*) FROM signal_questions WHERE asker = ? AND status = 'pending'`, d.Asker)
	if err != nil {
		return q, 0, err
	}
	if open >= maxOpenQuestions {
		return q, 0, orchestrator.Errorf(orchestrator.Unavailable,
			"%s has reached the limit of %d open questions; the question was not asked", d.Asker, maxOpenQuestions).
			WithHint("Wait for answers, or cancel some questions. To list them, run `mailroom signal list`. To cancel one, run `mailroom signal cancel ID`")
	}
	q = Question{
		ID: d.ID, Asker: d.Asker, Status: Pending, Encrypted: d.Encrypted, Body: d.Body, Priority: d.Priority,
		SessionID: d.SessionID, ThreadID: d.ThreadID, InReplyTo: d.InReplyTo, ProjectID: d.ProjectID,
		MessageID: d.MessageID,
		CreatedAt: t.Now, ExpiresAt: orchestrator.Stamp(t.Clock.Add(d.TTL)),
	}
	_, err = t.Exec(`INSERT INTO signal_questions (`+questionColumns+`, trace_id, span_id)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', '', '', '', '', ?, ?)`,
		q.ID, q.Asker, string(q.Status), q.Encrypted, q.Body, q.Priority, q.SessionID, q.ThreadID, q.InReplyTo,
		q.ProjectID,
		q.MessageID, q.CreatedAt, q.ExpiresAt, traceOf(t, q.ID), t.SpanID)
	if err != nil {
		return q, 0, err
	}
	if err := noteSignal(t, q.ID, tracing.Created, "", string(Pending), ""); err != nil {
		return q, 0, err
	}
	p := push.Message{Kind: push.Question, ID: q.ID, Encrypted: q.Encrypted, Body: q.Body}
	if pushed, err = sendPush(t, d.Devices, p, q.Priority, d.TTL); err != nil {
		return q, 0, err
	}
	t.Heartbeat(d.Asker)
	return q, pushed, nil
}

// checkAsker rejects a question from a message whose sender was removed and whose name another agent now has, because
// that agent would get the answer. Error: unknown_sender.
func checkAsker(t *ledger.Tx, conf *ledger.Config, d *Draft) error {
	ms, err := messages.FindIn(t.Conn, d.MessageID)
	if err != nil || len(ms) == 0 || ms[0].Sender != d.Asker || conf.Sent(&ms[0], d.Asker) {
		return err
	}
	return orchestrator.Errorf(orchestrator.UnknownSender,
		"the agent %s that sent %s was removed; another agent has that name now", d.Asker, d.MessageID)
}

// traceOf returns the ID of the trace in which a question or an alert is created, and adds the question or alert to
// the span.
func traceOf(t *ledger.Tx, id string) string {
	span := tracing.FromContext(t.Ctx)
	if span == nil {
		return ""
	}
	span.Set(tracing.AttrMessageID, id)
	span.Set(tracing.AttrDestination, orchestrator.User)
	return span.TraceID
}

// noteSignal records an event of a question or an alert in the trace, under its ID.
func noteSignal(t *ledger.Tx, id string, name tracing.EventName, before, after, why string) error {
	e := t.Event(name, why)
	if name == tracing.Answered || name == tracing.Delivered {
		e.Error, e.Detail = "", why // the text is not an error
	}
	e.MessageID, e.NewStatus = id, after
	if before != "" {
		e.OldStatus = before
	}
	return tracing.Record(t, e)
}

// ofMessage is the condition that selects the question or alert created from a message to the user, by the message's
// ID. SQLite uses the partial index only if the statement repeats the condition of the index.
const ofMessage = `message_id = ? AND message_id <> ''`

// questionBy finds a question by a condition that selects at most one.
func questionBy(c *store.Conn, where, arg string) (q Question, found bool, err error) {
	return store.First(c, scanQuestion, `SELECT `+questionColumns+` FROM signal_questions WHERE `+where, arg)
}

// questionsBy returns the questions that match a condition, which may be followed by an order.
func questionsBy(c *store.Conn, where string, args ...any) ([]Question, error) {
	return store.List(c, scanQuestion, `SELECT `+questionColumns+` FROM signal_questions WHERE `+where, args...)
}

// mustQuestion returns the current state of a question. If its time is over, it first marks the question as expired.
func mustQuestion(t *ledger.Tx, id string) (Question, error) {
	q, err := readQuestion(t.Conn, id)
	if err == nil && q.Status == Pending && q.ExpiresAt <= t.ClockText {
		err = endQuestion(t, &q, Expired, "", "")
	}
	return q, err
}

func readQuestion(c *store.Conn, id string) (Question, error) {
	q, found, err := questionBy(c, `question_id = ?`, id)
	if err == nil && !found {
		err = noQuestion(id)
	}
	return q, err
}

// noQuestion returns the error for an ID without a question, or with one that the caller may not see.
func noQuestion(id string) error {
	return orchestrator.Errorf(orchestrator.NotFound, "unknown question %q", orchestrator.Clip(id)).
		WithHint("To list the questions, run `mailroom signal list`. Mailroom deletes finished questions after the time set in retention.ended")
}

// asked reports whether an agent itself asked a question. A removed agent with the same name does not count. "" is
// the administrator, who may do everything that the asker may do.
func asked(conf *ledger.Config, q *Question, by string) bool {
	return by == "" || by == q.Asker && q.CreatedAt >= conf.Since(by)
}

// Get returns a question by its ID. If its time is over, its status is Expired. Error: not_found.
func Get(ctx context.Context, l *ledger.Ledger, id string) (q Question, err error) {
	q, err = ledger.ReadValue(ctx, l, func(c *store.Conn) (Question, error) { return readQuestion(c, id) })
	if err != nil || q.Status != Pending || q.ExpiresAt > orchestrator.Stamp(l.Now()) {
		return q, err
	}
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		q, err = mustQuestion(t, id)
		return err
	})
	return q, err
}

// Own returns a question by its ID for the agent by, which sees only its own questions; "" is the administrator, who
// sees all. If the time of the question is over, its status is Expired. Error: not_found.
func Own(ctx context.Context, l *ledger.Ledger, id, by string) (q Question, err error) {
	if q, err = Get(ctx, l, id); err != nil {
		return q, err
	}
	conf, err := l.Configuration(ctx)
	if err == nil && !asked(conf, &q, by) {
		err = noQuestion(id)
	}
	if err != nil {
		return Question{}, err
	}
	return q, nil
}

// OfMessage returns the question that was created from a message to the user. found is false if there is none.
func OfMessage(ctx context.Context, l *ledger.Ledger, id string) (q Question, found bool, err error) {
	err = l.Read(ctx, func(c *store.Conn) error {
		q, found, err = questionBy(c, ofMessage, id)
		return err
	})
	return q, found, err
}

// Filter selects questions. The zero value selects all.
type Filter struct {
	Asker  string
	Own    bool // only questions of Asker itself, not of a removed agent with its name
	Status Status
	Limit  int // 1 to 1000; 0 is 50
}

// List returns the questions that a filter selects, newest first.
func List(ctx context.Context, l *ledger.Ledger, f Filter) (list []Question, err error) {
	now := orchestrator.Stamp(l.Now())
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		list = []Question{}
		query, args := f.query(now, conf.Since(f.Asker))
		return c.Query(query, func(row store.Row) error {
			q := scanQuestion(row)
			if q.Status == Pending && q.ExpiresAt <= now {
				q.Status = Expired
			}
			list = append(list, q)
			return nil
		}, args...)
	})
	return list, err
}

// OpenIn returns the questions that can still be answered, at most the hundred that end first, and their total
// number.
func OpenIn(c *store.Conn, now time.Time) (first []Question, total int64, err error) {
	at := orchestrator.Stamp(now)
	if total, err = c.Number(`SELECT count(*) FROM signal_questions WHERE status = 'pending' AND expires_at > ?1`,
		at); err != nil || total == 0 {
		return nil, 0, err
	}
	first, err = questionsBy(c, `status = 'pending' AND expires_at > ?1 ORDER BY expires_at LIMIT +?2`, at, 100)
	return first, total, err
}

// query returns the statement of a filter; each has a suitable index. since is when the asker was added.
func (f *Filter) query(now, since string) (query string, args []any) {
	where := ` WHERE TRUE`
	if f.Asker != "" {
		where, args = where+` AND asker = ?`, append(args, f.Asker)
	}
	if f.Own {
		where, args = where+` AND created_at >= ?`, append(args, since)
	}
	switch f.Status {
	case "":
	case Pending:
		where, args = where+` AND status = 'pending' AND expires_at > ?`, append(args, now)
	case Expired: // whether or not the expiry was recorded
		where, args = where+` AND (status = 'expired' OR status = 'pending' AND expires_at <= ?)`, append(args, now)
	default:
		where, args = where+` AND status = ?`, append(args, string(f.Status))
	}
	return `SELECT ` + questionColumns + ` FROM signal_questions` + where + ` ORDER BY question_id DESC LIMIT +?`,
		append(args, min(max(cmp.Or(f.Limit, 50), 1), 1000))
}

// endQuestion ends a pending question, notifies the devices and wakes waiting processes.
func endQuestion(t *ledger.Tx, q *Question, status Status, device, why string) error {
	q.Status, q.EndedAt = status, t.Now
	n, err := t.Exec(`UPDATE signal_questions SET status = ?, ended_at = ?, answer = ?, answered_by = ?
		WHERE question_id = ? AND status = 'pending'`,
		string(status), q.EndedAt, q.Answer, device, q.ID)
	if err != nil || n == 0 {
		return err // the caller checked in the same transaction that it is pending
	}
	event := map[Status]tracing.EventName{Answered: tracing.Answered, Expired: tracing.Expired,
		Cancelled: tracing.Cancelled}[status]
	if err := noteSignal(t, q.ID, event, string(Pending), string(status), why); err != nil {
		return err
	}
	t.Wake(q.ID)
	if q.MessageID != "" && (status == Expired || status == Cancelled && why != "") {
		if err := reportUnanswered(t, q, cmp.Or(why, "the question expired at "+q.ExpiresAt)); err != nil {
			return err
		}
	}
	return endPushes(t, q, device)
}

// reportUnanswered informs the sender of a message that asked the user that there will be no answer.
func reportUnanswered(t *ledger.Tx, q *Question, why string) error {
	if !t.Config().Settings.Bounce {
		return nil
	}
	d, err := errorReport(q, orchestrator.MessageExpired, orchestrator.User+" did not answer: "+why)
	if err != nil {
		return err
	}
	if _, found, err := t.Text(`SELECT 1 FROM agent_message WHERE message_id = ?`, q.MessageID); err != nil {
		return err
	} else if found {
		d.ReplyTo = q.MessageID
	}
	return t.Tell(&d)
}

// errorReport returns the message that reports an error to the sender of a message that asked the user.
func errorReport(q *Question, code orchestrator.Code, says string) (orchestrator.Draft, error) {
	payload, err := json.Marshal(map[string]any{
		"error": code, "message": says, "message_id": q.MessageID, "recipient": orchestrator.User, "question_id": q.ID,
	})
	return orchestrator.Draft{Recipient: q.Asker, Type: "error_report", Payload: payload, ThreadID: q.ThreadID}, err
}
