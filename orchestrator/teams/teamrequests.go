package teams

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/store"
)

// A request is open until its responder has approved or rejected it. A request whose message was cancelled, expired
// or failed reached nobody. It is void until the message is replayed, although its stored status may still be open.
const (
	requestOpen     = "open"
	requestVoid     = "void"
	requestApproved = "approved"
	requestRejected = "rejected"
)

// Request is a request for a teammate's approval.
type Request struct {
	Kind  orchestrator.RequestKind
	Draft orchestrator.Draft // its SessionID is the session; Payload replaces its Payload
	// Payload returns the message's payload: compact JSON that contains the ID under which the request is answered.
	// It may be called more than once; all IDs have the same length.
	Payload func(requestID string) (json.RawMessage, error)
}

// Reply approves or rejects a Request.
type Reply struct {
	Kind      orchestrator.RequestKind // of the request
	RequestID string
	Approve   bool
	// Draft is the answer: its SessionID is the session, its Sender the agent that was asked, its Recipient the
	// agent that asked.
	Draft orchestrator.Draft
}

// requestOf is a row of team_requests.
type requestOf struct {
	id, session, requester, responder, messageID, status, answeredAt string
	kind                                                             orchestrator.RequestKind
	void                                                             bool // unanswered, but its message reached nobody
}

// reachedNobody selects requests, of team_requests as q, whose message ended undelivered.
const reachedNobody = `NOT EXISTS (SELECT 1 FROM agent_message m WHERE m.message_id = q.message_id AND m.status IN ('pending','retry','delivered'))
	AND NOT EXISTS (SELECT 1 FROM agent_message_archive a WHERE a.message_id = q.message_id)`

// requestColumns are the columns that scanRequest reads, of team_requests as q.
const requestColumns = `q.request_id, q.kind, q.session_id, q.requester, q.responder, q.message_id, q.status, q.answered_at,
	` + reachedNobody

func scanRequest(row store.Row) requestOf {
	return requestOf{
		id: row.Text(0), kind: orchestrator.RequestKind(row.Text(1)), session: row.Text(2), requester: row.Text(3),
		responder: row.Text(4), messageID: row.Text(5), status: row.Text(6), answeredAt: row.Text(7),
		void: row.Text(6) == requestVoid || (row.Text(6) == requestOpen && row.Int(8) != 0),
	}
}

// openRequests returns the open requests to a responder in a session, oldest first.
func openRequests(c *store.Conn, session, responder string) ([]requestOf, error) {
	list, err := store.List(c, scanRequest, `
		SELECT `+requestColumns+` FROM team_requests q
		WHERE q.responder = ?1 AND q.status = 'open' AND q.session_id = ?2 ORDER BY q.rowid`, responder, session)
	return slices.DeleteFunc(list, func(q requestOf) bool { return q.void }), err
}

// requestBy finds a request by the value of a unique column.
func requestBy(c *store.Conn, column, id string) (q requestOf, found bool, err error) {
	return store.First(c, scanRequest, `SELECT `+requestColumns+` FROM team_requests q WHERE q.`+column+` = ?`, id)
}

// Ask sends a request to a teammate. The request is open until that teammate, and nobody else, has answered. A
// request to an unknown name is kept as a dead letter and opens when that is replayed. Errors: those of Send;
// invalid_params for a broadcast; conflict if the last request of this kind from this sender to this teammate is
// still open, and for a shutdown request to a teammate that has stopped.
func Ask(ctx context.Context, l *ledger.Ledger, q Request) (sent Sent, err error) {
	const anyID = "req-00000000000000000000000000" // as long as a real ID, so that the payload has its final length
	if q.Draft.Payload, err = q.Payload(anyID); err != nil {
		return sent, err
	}
	if q.Draft, err = CheckProtocol(q.Draft); err != nil {
		return sent, err
	}
	return writeToTeam(ctx, l, func(t *ledger.Tx) (outcome, error) { return ask(t, q) })
}

// CheckProtocol checks the draft of a request or an answer, which goes to one teammate, and returns it in the form
// in which it is stored.
func CheckProtocol(d orchestrator.Draft) (orchestrator.Draft, error) {
	if toSeveralInTeam(&d) {
		return d, orchestrator.Errorf(orchestrator.InvalidParams,
			"%s cannot be broadcast: it must go to one teammate", d.Type).WithHint("Name one teammate")
	}
	return checkInTeam(d)
}

func ask(t *ledger.Tx, q Request) (out outcome, err error) {
	d := q.Draft
	d.Direct = true // only one teammate is to answer it
	if err := mayAsk(t, q.Kind, &d); err != nil {
		return out, err
	}
	id, err := t.NewID("req-")
	if err != nil {
		return out, err
	}
	if d.Payload, err = q.Payload(id); err != nil {
		return out, err
	}
	if out, err = sendToTeam(t, &d); err != nil {
		return out, err
	}
	out.sent.RequestID = id
	messageID, status := out.sent.MessageID, requestOpen
	if kept, ok := errors.AsType[*orchestrator.Error](out.refused); ok {
		messageID, status = kept.MessageID, requestVoid
	}
	_, err = t.Exec(`
		INSERT INTO team_requests (request_id, kind, session_id, requester, responder, message_id, status, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, id, string(q.Kind), d.SessionID, d.Sender, d.Recipient, messageID, status,
		t.Now)
	return out, err
}

// reopenRequest opens a void request whose message is sent again.
func reopenRequest(t *ledger.Tx, messageID string) error {
	return t.Run(`UPDATE team_requests SET status = 'open' WHERE status = 'void' AND message_id = ?`, messageID)
}

// mayAsk returns an error for a request that is already open, and for a request to a stopped agent to stop.
func mayAsk(t *ledger.Tx, kind orchestrator.RequestKind, d *orchestrator.Draft) error {
	// Storing the void requests here avoids checking them at every request.
	if err := t.Run(`UPDATE team_requests AS q SET status = 'void' WHERE q.responder = ? AND q.status = 'open' AND `+
		reachedNobody, d.Recipient); err != nil {
		return err
	}
	open, err := openRequests(t.Conn, d.SessionID, d.Recipient)
	if err != nil {
		return err
	}
	for _, q := range open {
		if q.kind == kind && q.requester == d.Sender {
			e := orchestrator.Errorf(orchestrator.Conflict, "%s has not yet answered your %s %s", d.Recipient,
				request(q.kind), q.id)
			e.Details = map[string]any{"request_id": q.id}
			return e.WithHint("To remind %s of %s, send a plain message", d.Recipient, q.id)
		}
	}
	if kind != orchestrator.Shutdown {
		return nil
	}
	if stopped, err := stopped(t.Conn, d.SessionID, d.Recipient); err != nil || stopped == nil {
		return err
	}
	return orchestrator.Errorf(orchestrator.Conflict, "%s has already stopped", d.Recipient)
}

// request returns the message_type of a request, and response that of its answer.
func request(k orchestrator.RequestKind) string  { return string(k) + "_request" }
func response(k orchestrator.RequestKind) string { return string(k) + "_response" }

// Answer approves or rejects a request and sends the answer, in one transaction. If a shutdown is approved, the
// responder becomes stopped: broadcasts omit it until it sends again. If a plan is approved, the requester leaves
// plan mode. Of several answers only the first counts. The answer belongs to the session of the request, whatever
// session the draft names. Errors: those of Send; invalid_params for a broadcast, for a recipient other than the
// requester, or for a kind other than the request's; not_found for a request that does not exist or is between
// other agents; permission_denied for the sender's own request; conflict if the request is already answered or its
// message reached nobody.
func Answer(ctx context.Context, l *ledger.Ledger, a Reply) (sent Sent, err error) {
	if a.Draft, err = CheckProtocol(a.Draft); err != nil {
		return sent, err
	}
	return writeToTeam(ctx, l, func(t *ledger.Tx) (out outcome, err error) {
		out.sent, err = AnswerIn(t, a)
		return out, err
	})
}

// AnswerIn answers a request, like Answer, within a transaction. The draft must have been checked with
// CheckProtocol.
func AnswerIn(t *ledger.Tx, a Reply) (sent Sent, err error) {
	d := a.Draft
	q, err := answerable(t, &a)
	if err != nil {
		return sent, err
	}
	if d.ReplyTo != "" && d.ReplyTo != q.messageID {
		return sent, orchestrator.Errorf(orchestrator.InvalidParams, "reply_to: must be %s, the message of the request %s",
			q.messageID, q.id).WithHint("Omit reply_to: request_id identifies the request")
	}
	// A request is read in any session, so it can be answered from any session.
	d.ReplyTo, d.SessionID, d.Direct = q.messageID, q.session, true
	out, err := sendToTeam(t, &d)
	if err == nil {
		err = messages.Undone(out.refused)
	}
	if err != nil {
		return out.sent, err
	}
	return out.sent, decide(t, &q, a.Approve, &out.sent.Sent)
}

// answerable returns the request that an answer is for, or an error if the answer is not allowed.
func answerable(t *ledger.Tx, a *Reply) (requestOf, error) {
	d := &a.Draft
	q, found, err := requestBy(t.Conn, "request_id", a.RequestID)
	if err != nil {
		return q, err
	}
	if found {
		if found, err = takesPart(t, &q, d.Sender); err != nil {
			return q, err
		}
	}
	switch {
	case !found:
		open, err := openRequests(t.Conn, d.SessionID, d.Sender)
		if err != nil {
			return q, err
		}
		return q, orchestrator.Errorf(orchestrator.NotFound, "there is no request %q", a.RequestID).
			WithHint("%s", hintOpen(d.Sender, open))
	case q.responder == d.Sender && q.kind != a.Kind:
		return q, orchestrator.Errorf(orchestrator.InvalidParams, "%s is a %s, so a %s cannot answer it", q.id,
			request(q.kind), response(a.Kind)).
			WithHint("Answer with a %s", response(q.kind))
	}
	return q, q.refuses(d.Sender, d.Recipient)
}

// takesPart reports whether an agent made a request or was asked. A removed agent that had the same name does not
// count.
func takesPart(t *ledger.Tx, q *requestOf, agent string) (bool, error) {
	conf := t.Config()
	if agent != q.responder && agent != q.requester || conf.Agents[agent] == nil {
		return false, nil
	}
	if conf.Since(agent) == "" {
		return true, nil
	}
	_, err := messages.FindOwn(t.Conn, conf, q.messageID, agent)
	if orchestrator.CodeOf(err) == orchestrator.NotFound {
		return false, nil
	}
	return err == nil, err
}

// hintOpen returns a hint with the requests that an agent could answer.
func hintOpen(responder string, open []requestOf) string {
	if len(open) == 0 {
		return "There are no open requests to " + responder
	}
	var list []string
	for _, q := range open[:min(len(open), 10)] {
		list = append(list, q.id+" ("+request(q.kind)+" from "+q.requester+")")
	}
	return "Open requests to " + responder + ": " + strings.Join(list, ", ")
}

// answerByReply turns a plain answer to a message that carries a request into the answer that a teammate would have
// sent, if its content approves or rejects. If the content is unclear and its sender is the responder,
// answerByReply returns an error. Any other answer stays unchanged.
func answerByReply(t *ledger.Tx, re *ledger.Reply) error {
	d := &re.Draft
	if d.Verdict == nil {
		return nil
	}
	q, found, err := requestBy(t.Conn, "message_id", d.ReplyTo)
	if err != nil || !found {
		return err
	}
	v, unclear := d.Verdict(orchestrator.Asked{RequestID: q.id, Kind: q.kind})
	refusal := q.refuses(d.Sender, d.Recipient)
	switch {
	case unclear != nil && refusal == nil:
		return unclear
	case unclear != nil || v == nil:
		return nil
	case refusal != nil:
		return refusal
	case !ledger.DueAt(d, t.Clock).IsZero():
		return orchestrator.Errorf(orchestrator.InvalidParams,
			"not_before: an answer to a team request takes effect immediately and cannot be scheduled").WithHint("Send the answer when it should take effect")
	}
	d.Type, d.Payload, d.Summary, d.SessionID, d.Direct = v.Type, v.Payload, v.Summary, q.session, true
	re.Stored = func(sent *orchestrator.Sent) error { return decide(t, &q, v.Approve, sent) }
	return nil
}

// refuses returns the reason why a sender cannot answer the request with a message to a recipient, or nil if it
// can.
func (q *requestOf) refuses(sender, recipient string) error {
	switch {
	case q.responder != sender:
		return orchestrator.Errorf(orchestrator.PermissionDenied, "%s was sent to %s; only the recipient can answer it",
			q.id, q.responder)
	case !q.void && q.status != requestOpen:
		return orchestrator.Errorf(orchestrator.Conflict, "%s was %s at %s", q.id, q.status, q.answeredAt)
	case q.void:
		return orchestrator.Errorf(orchestrator.Conflict,
			"%s is not open: its message %s did not reach anyone, or %s was removed", q.id, q.messageID, q.requester).
			WithHint("To see what happened to the message, run `mailroom why %s`", q.messageID)
	case q.requester != recipient:
		return orchestrator.Errorf(orchestrator.InvalidParams, "to: the request %s was made by %s, so the answer must go to that agent",
			q.id, q.requester).
			WithHint("Send the answer to %s", q.requester)
	}
	return nil
}

// decide stores the answer that was just sent and carries out an approved request: it ends plan mode, or sets the
// responder's presence to stopped.
func decide(t *ledger.Tx, q *requestOf, approve bool, sent *orchestrator.Sent) error {
	sent.RequestID, sent.Type = q.id, response(q.kind)
	status := requestRejected
	if approve {
		status = requestApproved
	}
	if err := t.Run(`UPDATE team_requests SET status = ?, answer_id = ?, answered_at = ? WHERE request_id = ?`,
		status, sent.MessageID, t.Now, q.id); err != nil || !approve {
		return err
	}
	if q.kind == orchestrator.PlanApproval {
		return endPlanMode(t, q.requester)
	}
	p, err := agents.TakePresence(t, q.session, q.responder, orchestrator.Stopped)
	sent.Presence = p.Status
	return err
}

// endPlanMode allows an agent to act without approval of its plans.
func endPlanMode(t *ledger.Tx, agent string) error {
	if a := t.Config().Agents[agent]; a == nil || !a.PlanModeRequired {
		return nil
	}
	_, _, err := agents.AddIn(t, agents.Update{Name: agent, PlanModeRequired: new(false)})
	return err
}
