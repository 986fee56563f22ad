package orchestrator

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// QuestionStatus is the state of a question.
type QuestionStatus string

// The states of a question. It is pending first, and every other is its last. Source: signal.md, "Life of a question".
const (
	QuestionPending   QuestionStatus = "pending"
	QuestionAnswered  QuestionStatus = "answered"
	QuestionExpired   QuestionStatus = "expired"
	QuestionCancelled QuestionStatus = "cancelled"
)

// Question is one that an agent asked the user.
type Question struct {
	ID         string
	Asker      string
	Status     QuestionStatus
	Encrypted  bool
	Body       string // encrypted: an age file in base64; otherwise JSON
	Priority   int
	SessionID  string
	ThreadID   string
	InReplyTo  string // question that this one follows
	ProjectID  string
	MessageID  string // of the message to User that asks; "" when a command did
	CreatedAt  string
	ExpiresAt  string
	EndedAt    string
	Answer     string // encrypted: an age file in base64, for the asker; otherwise JSON, {"option":1} or {"text":".."}
	AnsweredBy string // device
	ReadAt     string // when the asker first read the answer
	ReturnedAt string // when the answer went back as a message
}

// QuestionDraft is a question about to be asked.
type QuestionDraft struct {
	ID        string // from NewSignalID
	Asker     string
	Register  bool // the asker proved its identity: add it if nobody knows it yet
	Encrypted bool
	Body      string // at most 64 KiB
	Priority  int
	SessionID string
	ThreadID  string
	InReplyTo string
	ProjectID string
	MessageID string
	TTL       time.Duration // after which it expires unanswered, 1 s to 30 days
	Devices   []string      // ids of those that can read it
}

const (
	// maxSignal bounds the body of a question or an alert, in bytes.
	maxSignal = 64 << 10

	// maxAnswerBytes bounds an answer, sealed or not.
	maxAnswerBytes = 32 << 10

	// maxOpenQuestions is how many questions of one agent can be open: what comes in a loop must not reach a person.
	maxOpenQuestions = 100
)

const questionColumns = `question_id, asker, status, encrypted, body, priority, session_id, thread_id, in_reply_to, project_id,
	message_id, created_at, expires_at, ended_at, answer, answered_by, read_at, returned_at`

func scanQuestion(row store.Row) Question {
	return Question{
		ID: row.Text(0), Asker: row.Text(1), Status: QuestionStatus(row.Text(2)), Encrypted: row.Int(3) != 0,
		Body: row.Text(4), Priority: int(row.Int(5)), SessionID: row.Text(6), ThreadID: row.Text(7),
		InReplyTo: row.Text(8), ProjectID: row.Text(9), MessageID: row.Text(10), CreatedAt: row.Text(11),
		ExpiresAt: row.Text(12), EndedAt: row.Text(13), Answer: row.Text(14), AnsweredBy: row.Text(15), ReadAt: row.Text(16),
		ReturnedAt: row.Text(17),
	}
}

// NewSignalID makes the id of a question ("q-") or an alert ("a-"): its sealed body holds it, so it is needed before the row.
// It is safe for concurrent use.
func (r *Router) NewSignalID(prefix string) (string, error) { return newSignalID(prefix, r.Now()) }

// AskUser stores a question and pushes it to the devices that can read it, in one transaction; it is on disk when AskUser
// returns. pushed counts the devices. With a MessageID it is stored once: a repeat returns the first. Errors:
// invalid_params; unknown_sender, also for a message of an agent that was removed; unavailable when too many questions of the
// asker are open.
func (r *Router) AskUser(ctx context.Context, d QuestionDraft) (q Question, pushed int, err error) {
	if d.Asker, err = CheckName("asker", d.Asker); err != nil {
		return q, 0, err
	}
	if len(d.Body) > maxSignal {
		return q, 0, Errorf(InvalidParams, "the question has %d bytes; at most %d are allowed", len(d.Body), maxSignal)
	}
	if d.TTL < time.Second || d.TTL > MaxTTL {
		return q, 0, Errorf(InvalidParams, "ttl: %s is out of bounds: 1 second to %s", FormatDuration(d.TTL), FormatDuration(MaxTTL))
	}
	err = r.write(ctx, func(t *tx) error {
		q, pushed, err = t.askUser(&d)
		return err
	})
	return q, pushed, err
}

func (t *tx) askUser(d *QuestionDraft) (q Question, pushed int, err error) {
	if d.MessageID != "" {
		q, found, err := t.questionBy(ofMessage, d.MessageID)
		if err != nil || found {
			return q, 0, err
		}
	}
	conf, err := t.acting(d.Asker, d.Register)
	if err == nil && d.MessageID != "" {
		err = t.checkAsker(conf, d)
	}
	if err != nil {
		return q, 0, err
	}
	open, err := t.number(`SELECT count(*) FROM signal_questions WHERE asker = ? AND status = 'pending'`, d.Asker)
	if err != nil {
		return q, 0, err
	}
	if open >= maxOpenQuestions {
		return q, 0, Errorf(Unavailable, "%d questions of %s are open, the limit; nothing was asked", open, d.Asker).
			WithHint("Wait for answers, or take some back: `mailroom signal list`, `mailroom signal cancel ID`")
	}
	q = Question{
		ID: d.ID, Asker: d.Asker, Status: QuestionPending, Encrypted: d.Encrypted, Body: d.Body, Priority: d.Priority,
		SessionID: d.SessionID, ThreadID: d.ThreadID, InReplyTo: d.InReplyTo, ProjectID: d.ProjectID, MessageID: d.MessageID,
		CreatedAt: t.now, ExpiresAt: stamp(t.clock.Add(d.TTL)),
	}
	traceID := ""
	if span := tracing.FromContext(t.ctx); span != nil {
		traceID = span.TraceID
		span.Set(tracing.AttrMessageID, q.ID)
		span.Set(tracing.AttrDestination, User)
	}
	_, err = t.Exec(`INSERT INTO signal_questions (`+questionColumns+`, trace_id, span_id)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', '', '', '', '', ?, ?)`,
		q.ID, q.Asker, string(q.Status), asFlag(q.Encrypted), q.Body, q.Priority, q.SessionID, q.ThreadID, q.InReplyTo, q.ProjectID,
		q.MessageID, q.CreatedAt, q.ExpiresAt, traceID, t.spanID)
	if err != nil {
		return q, 0, err
	}
	if err := t.noteSignal(q.ID, tracing.Created, "", string(QuestionPending), ""); err != nil {
		return q, 0, err
	}
	p := Push{Kind: PushQuestion, ID: q.ID, Encrypted: q.Encrypted, Body: q.Body}
	if pushed, err = t.push(d.Devices, p, q.Priority, d.TTL); err != nil {
		return q, 0, err
	}
	return q, pushed, t.heartbeat(d.Asker)
}

// checkAsker refuses what a message asks of which the sender was removed, though its name is in use again: the answer would go to
// another agent. Error: unknown_sender.
func (t *tx) checkAsker(conf *config, d *QuestionDraft) error {
	ms, err := t.findMessages(d.MessageID)
	if err != nil || len(ms) == 0 || ms[0].Sender != d.Asker || conf.sent(&ms[0], d.Asker) {
		return err
	}
	return Errorf(UnknownSender, "the agent %s that sent %s was removed; the one that has the name now is another", d.Asker, d.MessageID)
}

// noteSignal writes what happened to a question or an alert into the trace, under its id.
func (t *tx) noteSignal(id string, name tracing.EventName, before, after, why string) error {
	e := t.event(name, why)
	if name == tracing.Answered || name == tracing.Delivered {
		e.Error, e.Detail = "", why // it is no failure
	}
	e.MessageID, e.NewStatus = id, after
	if before != "" {
		e.OldStatus = before
	}
	return tracing.Record(t, e)
}

// ofMessage is the condition for what a message asked or told. SQLite uses a partial index only where its condition stands.
const ofMessage = `message_id = ? AND message_id <> ''`

// questionBy finds a question.
func (c *Conn) questionBy(where string, args ...any) (q Question, found bool, err error) {
	err = c.query(`SELECT `+questionColumns+` FROM signal_questions WHERE `+where, func(row store.Row) error {
		q, found = scanQuestion(row), true
		return nil
	}, args...)
	return q, found, err
}

// question returns a question as it is now: one whose time has passed has expired, be it written or not.
func (t *tx) question(id string) (Question, error) {
	q, err := t.Conn.question(id)
	if err == nil && q.Status == QuestionPending && q.ExpiresAt <= t.clockText {
		err = t.endQuestion(&q, QuestionExpired, "", "")
	}
	return q, err
}

func (c *Conn) question(id string) (Question, error) {
	q, found, err := c.questionBy(`question_id = ?`, id)
	if err == nil && !found {
		err = noQuestion(id)
	}
	return q, err
}

// noQuestion is the error for an id that names no question, or none that whoever asks may know of.
func noQuestion(id string) error {
	return Errorf(NotFound, "there is no question %q", Clip(id)).WithHint("`mailroom signal list` shows them; they are kept for the time of the setting retention.ended")
}

// asked reports whether an agent has asked a question, and not a removed one that had its name. "" is the administrator, who may
// do with it what its asker may.
func (conf *config) asked(q *Question, by string) bool {
	return by == "" || by == q.Asker && q.CreatedAt >= conf.since(by)
}

// Question returns a question. One whose time has passed has expired. Error: not_found.
func (r *Router) Question(ctx context.Context, id string) (q Question, err error) {
	err = r.read(ctx, func(c *Conn) error {
		q, err = c.question(id)
		return err
	})
	if err != nil || q.Status != QuestionPending || q.ExpiresAt > stamp(r.Now()) {
		return q, err
	}
	err = r.write(ctx, func(t *tx) error {
		q, err = t.question(id)
		return err
	})
	return q, err
}

// OwnQuestion is Question for an agent that asks; "" is the administrator. Error: not_found, also for the question of another.
func (r *Router) OwnQuestion(ctx context.Context, id, by string) (q Question, err error) {
	if q, err = r.Question(ctx, id); err != nil {
		return q, err
	}
	conf, err := r.configuration(ctx)
	if err == nil && !conf.asked(&q, by) {
		err = noQuestion(id)
	}
	if err != nil {
		return Question{}, err
	}
	return q, nil
}

// QuestionOfMessage returns the question that a message to User asked. found is false when it has asked none.
func (r *Router) QuestionOfMessage(ctx context.Context, id string) (q Question, found bool, err error) {
	err = r.read(ctx, func(c *Conn) error {
		q, found, err = c.questionBy(ofMessage, id)
		return err
	})
	return q, found, err
}

// QuestionFilter selects questions; its zero value takes all.
type QuestionFilter struct {
	Asker  string
	Own    bool // only what Asker has asked itself, and not a removed agent that had its name
	Status QuestionStatus
	Limit  int // 1 to 1000; 0 is 50
}

// Questions lists questions, newest first.
func (r *Router) Questions(ctx context.Context, f QuestionFilter) (list []Question, err error) {
	now := stamp(r.Now())
	err = r.read(ctx, func(c *Conn) error {
		list = []Question{}
		conf, err := r.config.load(c)
		if err != nil {
			return err
		}
		query, args := f.query(now, conf.since(f.Asker))
		return c.query(query, func(row store.Row) error {
			q := scanQuestion(row)
			if q.Status == QuestionPending && q.ExpiresAt <= now {
				q.Status = QuestionExpired
			}
			list = append(list, q)
			return nil
		}, args...)
	})
	return list, err
}

// query is the statement of a filter. Each has its index. since is when the asker was added.
func (f *QuestionFilter) query(now, since string) (query string, args []any) {
	where := ` WHERE TRUE`
	if f.Asker != "" {
		where, args = where+` AND asker = ?`, append(args, f.Asker)
	}
	if f.Own {
		where, args = where+` AND created_at >= ?`, append(args, since)
	}
	switch f.Status {
	case "":
	case QuestionPending:
		where, args = where+` AND status = 'pending' AND expires_at > ?`, append(args, now)
	case QuestionExpired: // be it written or not
		where, args = where+` AND (status = 'expired' OR status = 'pending' AND expires_at <= ?)`, append(args, now)
	default:
		where, args = where+` AND status = ?`, append(args, string(f.Status))
	}
	return `SELECT ` + questionColumns + ` FROM signal_questions` + where + ` ORDER BY question_id DESC LIMIT +?`,
		append(args, min(max(cmp.Or(f.Limit, 50), 1), 1000))
}

// AnswerQuestion stores the answer of a device; of several the first wins. The answer of an encrypted question is taken as
// it is, and the asker checks it. Errors: not_found; permission_denied for a device that is not active; invalid_params for
// an answer that does not fit; conflict, with the status among its details, when the question is not pending.
func (r *Router) AnswerQuestion(ctx context.Context, id, device, answer string) (q Question, err error) {
	if len(answer) > maxAnswerBytes || answer == "" {
		return q, Errorf(InvalidParams, "the answer has %d bytes; it must have 1 to %d", len(answer), maxAnswerBytes)
	}
	err = r.write(ctx, func(t *tx) error {
		state, _, err := t.text(`SELECT state FROM signal_devices WHERE device_id = ?`, device)
		if err != nil {
			return err
		}
		if state != DeviceActive {
			return Errorf(PermissionDenied, "the device %s is not active", device)
		}
		if q, err = t.question(id); err != nil {
			return err
		}
		if q.Status != QuestionPending {
			return notPending(&q)
		}
		if !q.Encrypted {
			if err := checkClearAnswer(&q, answer); err != nil {
				return err
			}
		}
		q.Answer, q.AnsweredBy = answer, device
		return t.endQuestion(&q, QuestionAnswered, device, "by "+device)
	})
	return q, err
}

// notPending is the error for a question that has ended.
func notPending(q *Question) error {
	e := Errorf(Conflict, "the question was %s at %s", q.Status, q.EndedAt)
	e.Details = map[string]any{"status": string(q.Status)}
	return e
}

// checkClearAnswer refuses an answer that does not fit a question which is not encrypted.
func checkClearAnswer(q *Question, answer string) error {
	var asked struct {
		Options []string `json:"options"`
	}
	var said struct {
		Option *int    `json:"option"`
		Text   *string `json:"text"`
	}
	if err := json.Unmarshal([]byte(q.Body), &asked); err != nil {
		return Errorf(InvalidParams, "the question's body cannot be read")
	}
	if err := json.Unmarshal([]byte(answer), &said); err != nil || (said.Option == nil) == (said.Text == nil) {
		return Errorf(InvalidParams, "an answer has either an option or a text")
	}
	switch {
	case len(asked.Options) > 0 && (said.Option == nil || *said.Option < 0 || *said.Option >= len(asked.Options)):
		return Errorf(InvalidParams, "option: the question has options 0 to %d", len(asked.Options)-1)
	case len(asked.Options) == 0 && said.Text == nil:
		return CheckAnswerText("")
	case len(asked.Options) == 0:
		return CheckAnswerText(*said.Text)
	}
	return nil
}

// CheckAnswerText refuses what is no answer in words: more than 2,000 characters, or nothing but space. Error:
// invalid_params, which repeats nothing of it.
func CheckAnswerText(text string) error {
	if strings.TrimSpace(text) == "" || utf8.RuneCountInString(text) > 2000 {
		return Errorf(InvalidParams, "text: the answer is a text of 1 to 2000 characters, not all of them space")
	}
	return nil
}

// endQuestion ends a pending question, tells the devices and wakes who waits for it.
func (t *tx) endQuestion(q *Question, status QuestionStatus, device, why string) error {
	q.Status, q.EndedAt = status, t.now
	n, err := t.Exec(`UPDATE signal_questions SET status = ?, ended_at = ?, answer = ?, answered_by = ? WHERE question_id = ? AND status = 'pending'`,
		string(status), q.EndedAt, q.Answer, device, q.ID)
	if err != nil || n == 0 {
		return err // in one transaction with the look: it is pending
	}
	event := map[QuestionStatus]tracing.EventName{QuestionAnswered: tracing.Answered, QuestionExpired: tracing.Expired, QuestionCancelled: tracing.Cancelled}[status]
	if err := t.noteSignal(q.ID, event, string(QuestionPending), string(status), why); err != nil {
		return err
	}
	t.ring.add([]string{q.ID})
	if q.MessageID != "" && (status == QuestionExpired || status == QuestionCancelled && why != "") {
		if err := t.reportUnanswered(q, cmp.Or(why, "the question expired at "+q.ExpiresAt)); err != nil {
			return err
		}
	}
	return t.endPushes(q, device)
}

// reportUnanswered tells the sender of a message which asked the user that there will be no answer.
func (t *tx) reportUnanswered(q *Question, why string) error {
	conf, err := t.config()
	if err != nil || !conf.settings.Bounce {
		return err
	}
	payload, err := json.Marshal(map[string]any{
		"error": Expired, "message": User + " has not answered, and will not: " + why,
		"message_id": q.MessageID, "recipient": User, "question_id": q.ID,
	})
	if err != nil {
		return err
	}
	d := Draft{Recipient: q.Asker, Type: "error_report", Payload: payload, ThreadID: q.ThreadID}
	if _, found, err := t.text(`SELECT 1 FROM agent_message WHERE message_id = ?`, q.MessageID); err != nil {
		return err
	} else if found {
		d.ReplyTo = q.MessageID
	}
	return t.tell(&d)
}
