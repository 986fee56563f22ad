package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"mailroom/orchestrator/store"
)

// A request is open until its responder has approved or rejected it. One whose message was cancelled, expired or failed
// reached nobody: it is void, though its status may still say open, until the message is replayed.
const (
	requestOpen     = "open"
	requestVoid     = "void"
	requestApproved = "approved"
	requestRejected = "rejected"
)

// TeamRequest asks a teammate for something that it must approve or reject.
type TeamRequest struct {
	Kind  RequestKind
	Draft Draft // its SessionID is the session; its Payload is Payload's
	// Payload makes the message's payload, compact JSON that says under which id the request is answered. It may be called
	// more often than once; ids are all of one length.
	Payload func(requestID string) (json.RawMessage, error)
}

// TeamAnswer approves or rejects a request.
type TeamAnswer struct {
	Kind      RequestKind // of the request
	RequestID string
	Approve   bool
	Draft     Draft // its SessionID is the session, its Sender the agent that was asked, its Recipient the one that asked
}

// requestOf is a row of team_requests.
type requestOf struct {
	id, session, requester, responder, messageID, status, answeredAt string
	kind                                                             RequestKind
	void                                                             bool // unanswered, but its message reached nobody
}

// reachedNobody is the condition for a request, of team_requests as q, whose message ended undelivered.
const reachedNobody = `NOT EXISTS (SELECT 1 FROM agent_message m WHERE m.message_id = q.message_id AND m.status IN ('pending','retry','delivered'))
	AND NOT EXISTS (SELECT 1 FROM agent_message_archive a WHERE a.message_id = q.message_id)`

// requestColumns are what scanRequest reads, of team_requests as q.
const requestColumns = `q.request_id, q.kind, q.session_id, q.requester, q.responder, q.message_id, q.status, q.answered_at,
	` + reachedNobody

func scanRequest(row store.Row) requestOf {
	return requestOf{
		id: row.Text(0), kind: RequestKind(row.Text(1)), session: row.Text(2), requester: row.Text(3),
		responder: row.Text(4), messageID: row.Text(5), status: row.Text(6), answeredAt: row.Text(7),
		void: row.Text(6) == requestVoid || (row.Text(6) == requestOpen && row.Int(8) != 0),
	}
}

// openRequests lists what a responder was asked in a session and has not answered, oldest first.
func (c *Conn) openRequests(session, responder string) (list []requestOf, err error) {
	err = c.query(`
		SELECT `+requestColumns+` FROM team_requests q
		WHERE q.responder = ?1 AND q.status = 'open' AND q.session_id = ?2 ORDER BY q.rowid`, func(row store.Row) error {
		if q := scanRequest(row); !q.void {
			list = append(list, q)
		}
		return nil
	}, responder, session)
	return list, err
}

// requestBy returns the request that a column of team_requests names.
func (c *Conn) requestBy(column, id string) (q requestOf, found bool, err error) {
	err = c.query(`SELECT `+requestColumns+` FROM team_requests q WHERE q.`+column+` = ?`, func(row store.Row) error {
		q, found = scanRequest(row), true
		return nil
	}, id)
	return q, found, err
}

// AskTeammate sends a request to a teammate and opens it, in one transaction; only the teammate can answer it. Errors: as
// SendToTeam; invalid_params for a broadcast; conflict when the sender's last request of the kind to this teammate is
// still open, and for the shutdown of one that has stopped. A request to a name that nobody knows is kept as a dead
// letter and opens when that is replayed.
func (r *Router) AskTeammate(ctx context.Context, q TeamRequest) (sent TeamSent, err error) {
	const anyID = "req-00000000000000000000000000" // as long as the real one, so that what is checked is as long
	if q.Draft.Payload, err = q.Payload(anyID); err != nil {
		return sent, err
	}
	if q.Draft, err = q.Draft.checkProtocol(); err != nil {
		return sent, err
	}
	return r.writeToTeam(ctx, func(t *tx) (TeamSent, error, error) { return t.ask(q) })
}

// checkProtocol is checkInTeam for what cannot be broadcast.
func (d Draft) checkProtocol() (Draft, error) {
	if d.toSeveralInTeam() {
		return d, Errorf(InvalidParams, "%s cannot be broadcast: one teammate has to answer for itself", d.Type).WithHint("Name one teammate")
	}
	return d.checkInTeam()
}

func (t *tx) ask(q TeamRequest) (sent TeamSent, refusal, err error) {
	d := q.Draft
	d.Direct = true // it is one teammate's to answer
	if err := t.mayAsk(q.Kind, &d); err != nil {
		return sent, nil, err
	}
	id, err := t.newID("req-")
	if err != nil {
		return sent, nil, err
	}
	if d.Payload, err = q.Payload(id); err != nil {
		return sent, nil, err
	}
	if sent, refusal, err = t.sendToTeam(&d); err != nil {
		return sent, nil, err
	}
	sent.RequestID = id
	messageID, status := sent.MessageID, requestOpen
	var kept *Error
	if errors.As(refusal, &kept) {
		messageID, status = kept.MessageID, requestVoid
	}
	_, err = t.Exec(`
		INSERT INTO team_requests (request_id, kind, session_id, requester, responder, message_id, status, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, id, string(q.Kind), d.SessionID, d.Sender, d.Recipient, messageID, status, t.now)
	return sent, refusal, err
}

// reopenRequest opens a void request whose message is sent again.
func (t *tx) reopenRequest(messageID string) error {
	_, err := t.Exec(`UPDATE team_requests SET status = 'open' WHERE status = 'void' AND message_id = ?`, messageID)
	return err
}

// mayAsk refuses a request that is open already, and one that asks a stopped agent to stop.
func (t *tx) mayAsk(kind RequestKind, d *Draft) error {
	// What became void is noted here, so that it is not looked at with every request.
	if _, err := t.Exec(`UPDATE team_requests AS q SET status = 'void' WHERE q.responder = ? AND q.status = 'open' AND `+reachedNobody, d.Recipient); err != nil {
		return err
	}
	open, err := t.openRequests(d.SessionID, d.Recipient)
	if err != nil {
		return err
	}
	for _, q := range open {
		if q.kind == kind && q.requester == d.Sender {
			e := Errorf(Conflict, "%s has not answered the %s of %s yet", d.Recipient, q.kind.request(), q.id)
			e.Details = map[string]any{"request_id": q.id}
			return e.WithHint("Remind %s of %s with a plain message", d.Recipient, q.id)
		}
	}
	if kind != Shutdown {
		return nil
	}
	if stopped, err := t.stopped(d.SessionID, d.Recipient); err != nil || stopped == nil {
		return err
	}
	return Errorf(Conflict, "%s has stopped already", d.Recipient)
}

// request is the message_type of a request, and response that of its answer.
func (k RequestKind) request() string  { return string(k) + "_request" }
func (k RequestKind) response() string { return string(k) + "_response" }

// AnswerTeammate approves or rejects a request, in one transaction with the message that says so. An approved shutdown
// marks the responder as stopped in the session: it leaves broadcasts until it sends again. An approved plan ends the
// requester's plan mode. Of several answers at the same time one succeeds. Errors: as SendToTeam; invalid_params for a
// broadcast, another recipient than the requester, or another kind than the request's; not_found for a request that does
// not exist, or neither asks the sender nor was its own; permission_denied for one of its own; conflict when it is answered
// already, or its message reached nobody. The answer belongs to the session of the request, whatever the draft says.
func (r *Router) AnswerTeammate(ctx context.Context, a TeamAnswer) (sent TeamSent, err error) {
	if a.Draft, err = a.Draft.checkProtocol(); err != nil {
		return sent, err
	}
	return r.writeToTeam(ctx, func(t *tx) (TeamSent, error, error) {
		sent, err := t.answer(a)
		return sent, nil, err
	})
}

func (t *tx) answer(a TeamAnswer) (sent TeamSent, err error) {
	d := a.Draft
	q, err := t.answerable(&a)
	if err != nil {
		return sent, err
	}
	if d.ReplyTo != "" && d.ReplyTo != q.messageID {
		return sent, Errorf(InvalidParams, "reply_to: the message of %s is %s", q.id, q.messageID).WithHint("Leave reply_to out: request_id says what is answered")
	}
	d.ReplyTo, d.SessionID, d.Direct = q.messageID, q.session, true // a request is read in any session, so it can be answered from any
	sent, refusal, err := t.sendToTeam(&d)
	if err == nil {
		err = undone(refusal)
	}
	if err != nil {
		return sent, err
	}
	return sent, t.decide(&q, a.Approve, &sent.Sent)
}

// answerable returns the request that an answer is for, if the answer may be given.
func (t *tx) answerable(a *TeamAnswer) (requestOf, error) {
	d := &a.Draft
	q, found, err := t.requestBy("request_id", a.RequestID)
	if err != nil {
		return q, err
	}
	if found {
		if found, err = t.takesPart(&q, d.Sender); err != nil {
			return q, err
		}
	}
	switch {
	case !found:
		open, err := t.openRequests(d.SessionID, d.Sender)
		if err != nil {
			return q, err
		}
		return q, Errorf(NotFound, "there is no request %q", a.RequestID).WithHint("%s", hintOpen(d.Sender, open))
	case q.responder == d.Sender && q.kind != a.Kind:
		return q, Errorf(InvalidParams, "%s is a %s, which takes no %s", q.id, q.kind.request(), a.Kind.response()).
			WithHint("Answer with a %s", q.kind.response())
	}
	return q, q.refuses(d.Sender, d.Recipient)
}

// takesPart reports whether an agent made a request or was asked, and not a removed one that had its name.
func (t *tx) takesPart(q *requestOf, agent string) (bool, error) {
	conf, err := t.config()
	if err != nil || agent != q.responder && agent != q.requester || conf.agents[agent] == nil {
		return false, err
	}
	if conf.since(agent) == "" {
		return true, nil
	}
	_, err = t.mustFindOwn(conf, q.messageID, agent)
	if CodeOf(err) == NotFound {
		return false, nil
	}
	return err == nil, err
}

// hintOpen says which requests an agent could answer.
func hintOpen(responder string, open []requestOf) string {
	if len(open) == 0 {
		return "No request to " + responder + " is open"
	}
	var list []string
	for _, q := range open[:min(len(open), 10)] {
		list = append(list, q.id+" ("+q.kind.request()+" of "+q.requester+")")
	}
	return "Open to " + responder + ": " + strings.Join(list, ", ")
}

// answerByReply makes a draft that answers a team's request what a teammate would have sent. What says nothing of approval decides
// nothing, unless its sender is asked to decide.
func (t *tx) answerByReply(re *reply) error {
	d := &re.draft
	if d.Verdict == nil {
		return nil
	}
	q, found, err := t.requestBy("message_id", d.ReplyTo)
	if err != nil || !found {
		return err
	}
	v, unclear := d.Verdict(Asked{q.id, q.kind})
	refusal := q.refuses(d.Sender, d.Recipient)
	switch {
	case unclear != nil && refusal == nil:
		return unclear
	case unclear != nil || v == nil:
		return nil
	case refusal != nil:
		return refusal
	case !d.dueAt(t.clock).IsZero():
		return Errorf(InvalidParams, "not_before: an answer to a team's request decides it at once").WithHint("Send it when it is to be decided")
	}
	d.Type, d.Payload, d.Summary, d.SessionID, d.Direct = v.Type, v.Payload, v.Summary, q.session, true
	re.stored = func(sent *Sent) error { return t.decide(&q, v.Approve, sent) }
	return nil
}

// refuses is why an agent cannot answer the request with a message to another; nil if it can.
func (q *requestOf) refuses(sender, recipient string) error {
	switch {
	case q.responder != sender:
		return Errorf(PermissionDenied, "%s was sent to %s; only its recipient can answer it", q.id, q.responder)
	case !q.void && q.status != requestOpen:
		return Errorf(Conflict, "%s was %s at %s", q.id, q.status, q.answeredAt)
	case q.void:
		return Errorf(Conflict, "%s is not open: its message %s reached nobody, or %s was removed since", q.id, q.messageID, q.requester).
			WithHint("`mailroom why %s` says what became of it", q.messageID)
	case q.requester != recipient:
		return Errorf(InvalidParams, "to: %s was asked by %s, and the answer goes there", q.id, q.requester).
			WithHint("Send it to %s", q.requester)
	}
	return nil
}

// decide notes how a request was answered, by the message that was just sent, and does what was asked.
func (t *tx) decide(q *requestOf, approve bool, sent *Sent) error {
	sent.RequestID, sent.Type = q.id, q.kind.response()
	status := requestRejected
	if approve {
		status = requestApproved
	}
	if _, err := t.Exec(`UPDATE team_requests SET status = ?, answer_id = ?, answered_at = ? WHERE request_id = ?`,
		status, sent.MessageID, t.now, q.id); err != nil || !approve {
		return err
	}
	if q.kind == PlanApproval {
		return t.endPlanMode(q.requester)
	}
	p, err := t.takePresence(q.session, q.responder, Stopped)
	sent.Presence = p.Status
	return err
}

// endPlanMode lets an agent act without having its plans approved.
func (t *tx) endPlanMode(agent string) error {
	conf, err := t.config()
	if err != nil {
		return err
	}
	if a := conf.agents[agent]; a == nil || !a.PlanModeRequired {
		return nil
	}
	_, _, err = t.addAgent(AgentUpdate{Name: agent, PlanModeRequired: new(false)})
	return err
}
