// Package messages sends messages and acknowledges, cancels, replays and releases them. It lists dead letters,
// history and events, and searches messages.
package messages

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// Send stores a message, or one for each member of a group, and returns when the message is on disk, where it
// survives a kill and a power cut. Send does not deliver; see Wait of package reading and DeliverAll of package
// delivery. A draft from or to an unknown name is refused, but kept as a dead letter, which Replay can send later. A
// repeated send with the same idempotency key and content stores nothing and returns the first result. If the first
// send was refused, a repetition is refused with the same dead letter until the message can be sent or its recipient
// is corrected. Errors: invalid_params; unknown_sender; unknown_recipient; not_found for the message that ReplyTo
// names; conflict for an idempotency key that was used with other content, and for a chain of answers that is too
// long; unavailable when the recipient has too many undelivered messages; busy.
func Send(ctx context.Context, l *ledger.Ledger, d orchestrator.Draft) (orchestrator.Sent, error) {
	return SendAnd(ctx, l, d, nil)
}

// SendAnd sends a message as Send does, and calls look in the transaction that has stored the message, so that the
// database need not be opened again for the work of look. An error of look undoes the send.
func SendAnd(ctx context.Context, l *ledger.Ledger, d orchestrator.Draft,
	look func(*ledger.Tx, *orchestrator.Sent) error) (orchestrator.Sent, error) {
	out := sendAll(ctx, l, []orchestrator.Draft{d}, false, look)[0]
	return out.Sent, out.Refused
}

// Outcome is the result of sending one draft.
type Outcome struct {
	Sent    orchestrator.Sent
	Refused error // why the message was not sent; nil if it was sent
}

// scopeOf returns the scope of sends. A plain send only adds rows. An answer may acknowledge the answered message,
// decide a request or join a thread.
func scopeOf(drafts []orchestrator.Draft) store.Scope {
	for i := range drafts {
		if drafts[i].ReplyTo != "" || drafts[i].ThreadID != "" {
			return store.Alone
		}
	}
	return store.Shared
}

// SendBatch sends several messages in one transaction, in order, and returns an outcome for each. If atomic is false,
// each message fails alone. If atomic is true, one failure prevents the whole batch: the outcome of the failed
// message has its error, and the others have the code conflict.
func SendBatch(ctx context.Context, l *ledger.Ledger, drafts []orchestrator.Draft, atomic bool) []Outcome {
	return sendAll(ctx, l, drafts, atomic, nil)
}

// sendAll sends messages as SendBatch does, and calls look, unless it is nil, after each stored message.
func sendAll(ctx context.Context, l *ledger.Ledger, drafts []orchestrator.Draft, atomic bool,
	look func(*ledger.Tx, *orchestrator.Sent) error) []Outcome {
	outs, invalid := make([]Outcome, len(drafts)), make([]error, len(drafts))
	checked := make([]orchestrator.Draft, len(drafts))
	bad := false
	for i, d := range drafts {
		checked[i], invalid[i] = ledger.Check(d)
		outs[i].Refused = invalid[i]
		bad = bad || invalid[i] != nil
	}
	if atomic && bad {
		return withheld(outs)
	}
	ended := 0
	write := func(t *ledger.Tx) (err error) {
		ended = -1
		for i := range checked {
			if outs[i] = (Outcome{Refused: invalid[i]}); invalid[i] != nil {
				continue
			}
			if outs[i], err = sendOne(t, &checked[i], len(drafts) > 1); err != nil {
				if t.Broken() {
					ended = i
				}
				return err
			}
			switch {
			case atomic && outs[i].Refused != nil:
				outs[i].Refused = Undone(outs[i].Refused)
				return outs[i].Refused
			case look != nil && outs[i].Refused == nil:
				if err := look(t, &outs[i].Sent); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for {
		err := l.WriteSends(ctx, scopeOf(drafts), write)
		switch {
		case err == nil:
			return outs
		case !atomic && len(drafts) > 1 && ended >= 0 && store.IsRefused(err):
			invalid[ended] = err // a trigger with RAISE(ROLLBACK) has undone the others, too
		case atomic && slices.ContainsFunc(outs, func(o Outcome) bool { return o.Refused != nil }):
			return withheld(outs)
		default:
			for i := range outs {
				outs[i].Refused = cmp.Or(invalid[i], err)
			}
			return outs
		}
	}
}

// Undone returns a refusal without its message id and hint. It is for dead letters that are rolled back with their
// transaction and can therefore not be found or replayed.
func Undone(err error) error {
	var e *orchestrator.Error
	if !errors.As(err, &e) || e.MessageID == "" {
		return err
	}
	plain := *e
	plain.MessageID, plain.Hint = "", ""
	return &plain
}

// withheld refuses all messages that have no error of their own, because another message of their batch was refused.
func withheld(outs []Outcome) []Outcome {
	for i := range outs {
		if outs[i].Refused == nil {
			outs[i] = Outcome{Refused: orchestrator.Errorf(orchestrator.Conflict,
				"not sent because another message in the atomic batch was rejected")}
		}
	}
	return outs
}

// sendOne sends one message, or one of several. An error ends the request.
func sendOne(t *ledger.Tx, d *orchestrator.Draft, several bool) (out Outcome, err error) {
	if !several {
		return SendIn(t, d)
	}
	failed, err := t.Savepoint(func() (err error) {
		out, err = SendIn(t, d)
		return err
	})
	if failed = t.Ledger.Store.Explain(failed); failed != nil {
		out = Outcome{Refused: failed}
	}
	if err == nil && failed != nil && (orchestrator.CodeOf(failed) == orchestrator.Internal ||
		store.IsRefused(failed) && t.CanAgain(failed)) {
		err = failed
	}
	return out, err
}

// SendIn stores a draft within a transaction. A refused draft leaves a dead letter, so the transaction must still be
// committed. After an error the transaction must be rolled back.
func SendIn(t *ledger.Tx, d *orchestrator.Draft) (out Outcome, err error) {
	conf := t.Config()
	isKnown := conf.Agents[d.Sender] != nil || t.Proved(d.Sender)
	if isKnown {
		if conf, err = agents.Acting(t, d.Sender); err != nil {
			return out, err
		}
	}
	first, err := firstSend(t, d)
	if err != nil {
		return out, err
	}
	if first.Sent != nil {
		t.Heartbeat(d.Sender)
		return Outcome{Sent: *first.Sent}, nil
	}
	recipients, isGroup := agents.Members(conf, d.Recipient)
	isUnknown := recipients == nil && !isGroup
	if first.Refused != nil && (first.Differs || isKnown && (d.HoldUnknown || !isUnknown)) {
		if err := takeBack(t, d, first.Refused); err != nil {
			return out, err
		}
		first.Refused = nil
	}
	switch {
	case !isKnown:
		return refuse(t, conf, d, first.Refused, orchestrator.UnknownSender, "sender", d.Sender)
	case isUnknown && !d.HoldUnknown:
		return refuse(t, conf, d, first.Refused, orchestrator.UnknownRecipient, "recipient", d.Recipient)
	case isUnknown:
		recipients = []string{d.Recipient}
	case len(recipients) == 0:
		return out, agents.NobodyIn(conf, d.Recipient)
	case isGroup && d.ID != "":
		return out, orchestrator.Errorf(orchestrator.InvalidParams,
			"id: %s refers to several agents, and the message to each agent has its own ID", d.Recipient).
			WithHint("Omit the ID, or send to one agent")
	}
	note, err := Inherit(t, conf, d)
	if err != nil {
		return out, err
	}
	out.Sent, err = sendTo(t, conf, d, recipients, isGroup, isUnknown)
	out.Sent.Note = cmp.Or(out.Sent.Note, note)
	return out, err
}

// takeBack cancels the dead letter of a refused send that is now sent again, so that nobody replays it as well.
func takeBack(t *ledger.Tx, d *orchestrator.Draft, letter *orchestrator.Message) error {
	if err := t.TraceCreated(); err != nil { // the refused send may be in the same transaction
		return err
	}
	if err := dropKey(t, d); err != nil {
		return err
	}
	_, err := t.ChangeStatus(ledger.BySeq(letter.Seq), ledger.Change{
		To: orchestrator.Cancelled, Event: tracing.Cancelled,
		Failure: "the sender sent the message again with the same idempotency key",
	})
	return err
}

// sendTo stores a draft for permitted recipients and records the consequences for its sender.
func sendTo(t *ledger.Tx, conf *ledger.Config, d *orchestrator.Draft, recipients []string, isGroup,
	held bool) (sent orchestrator.Sent, err error) {
	note := ""
	if d.Recipient == orchestrator.User {
		if note, err = agents.MayReachUser(t, d); err != nil {
			return sent, err
		}
	}
	if err := t.CheckNotBefore(d); err != nil {
		return sent, err
	}
	spared := ""
	if isGroup && isOwnCopy(t, conf, d, d.Sender) {
		spared = d.Sender
	}
	if err := CheckBacklog(t, conf, recipients, spared); err != nil {
		return sent, err
	}
	if d.ReplyTo == "" {
		sent, err = InsertAll(t, conf, d, recipients, isGroup, held, 0)
	} else {
		sent, err = insertReply(t, conf, d, recipients, isGroup, held)
	}
	sent.Note = cmp.Or(note, sent.Note)
	if err == nil && d.Acknowledges {
		err = acknowledgeAnswered(t, d)
	}
	if err == nil {
		err = agents.NotePresence(t, d)
	}
	if err == nil && d.IdempotencyKey != "" {
		err = keepResult(t, d, sent)
	}
	if err == nil {
		t.Heartbeat(d.Sender)
	}
	return sent, err
}

// InsertAll stores one row of agent_message for each recipient of a checked draft. If held is true, the rows are not
// delivered until an agent with the recipient's name exists.
func InsertAll(t *ledger.Tx, conf *ledger.Config, d *orchestrator.Draft, recipients []string, isGroup, held bool,
	hops int) (orchestrator.Sent, error) {
	sent := orchestrator.Sent{
		Recipients: slices.Clone(recipients), Status: orchestrator.Pending, CreatedAt: t.Now, Held: held,
		Origin:   d.Origin,
		Withheld: conf.WithheldFrom(recipients),
	}
	row := ledger.Insertion{Draft: d, Hops: hops, Held: held, Status: orchestrator.Pending}
	row.MaxRetries = conf.Settings.MaxRetries
	if d.MaxRetries != nil {
		row.MaxRetries = *d.MaxRetries
	}
	row.Expire(t, &conf.Settings)
	sent.NotBefore = row.NotBefore
	if d.Post != "" {
		row.MulticastID, row.MulticastTarget = d.Post, orchestrator.ThreadPrefix+d.ThreadID
	}
	if isGroup {
		id, err := t.NewID("mc-")
		if err != nil {
			return sent, err
		}
		row.MulticastID, row.MulticastTarget = id, d.Recipient
		sent.MulticastID, sent.MessageID = id, id
	}
	for _, recipient := range recipients {
		id, err := t.MessageID(d, recipient)
		if err != nil {
			return sent, err
		}
		row.Id, row.Recipient = id, recipient
		if h := conf.HoldOf(d.Sender, recipient, t.ClockText); h != nil && !held {
			sent.Note = "is " + h.String() + ": do not send it again"
			if isGroup {
				sent.Note = "is held for " + recipient + " until " + h.Until + " by " + h.By
			}
		}
		row.Own = isGroup && isOwnCopy(t, conf, d, recipient)
		if err := t.Insert(&row); err != nil {
			return sent, err
		}
		switch {
		case row.Own:
			err = keepOwnCopy(t, &row)
		case d.AckWithin > 0:
			err = expectAcknowledgement(t, id, max(t.ClockText, row.NotBefore), d.AckWithin)
		}
		if err != nil {
			return sent, err
		}
		if !row.Own {
			t.Wake(recipient)
		}
		sent.MessageIDs = append(sent.MessageIDs, id)
	}
	if !isGroup {
		sent.MessageID = sent.MessageIDs[0]
	}
	if span := tracing.FromContext(t.Ctx); span != nil {
		span.Set(tracing.AttrMessageID, sent.MessageID)
		span.Set(tracing.AttrDestination, d.Recipient)
	}
	return sent, nil
}

// isOwnCopy reports whether a recipient of a draft to a group is its sender, whose copy goes into its inbox.
func isOwnCopy(t *ledger.Tx, conf *ledger.Config, d *orchestrator.Draft, recipient string) bool {
	agent := conf.Agents[recipient]
	return recipient == d.Sender && agent != nil && t.Ledger.Inbox() != nil &&
		t.Ledger.SetTransport(agent) == t.Ledger.Inbox()
}

// keepOwnCopy delivers the sender's own copy of a message to a group and marks it as read. The copy documents the
// send to the group, but nobody is shown a message that it wrote itself. If a trigger refuses the delivery, the copy
// is delivered later as an ordinary message.
func keepOwnCopy(t *ledger.Tx, row *ledger.Insertion) error {
	if err := t.TraceCreated(); err != nil {
		return err
	}
	_, err := t.RowSavepoint("keeping its sender's own copy", row.Id, func() error {
		if err := t.Ledger.Inbox().DeliverRead(t.InsertLater, row.Seq, t.Now); err != nil {
			return err
		}
		_, err := t.ChangeStatus(ledger.BySeq(row.Seq), ledger.Change{
			To: orchestrator.Delivered, Attempted: true, Read: true, Event: tracing.Delivered, Failure: ownCopy,
		})
		return err
	})
	return err
}

// ownCopy is the remark in the trace for the delivery of a sender's own copy.
const ownCopy = "its sender's own copy"

// refuse keeps a message that cannot be sent as a dead letter, so that a typing error loses nothing. letter is the
// dead letter of an earlier refusal of the same message, or nil.
func refuse(t *ledger.Tx, conf *ledger.Config, d *orchestrator.Draft, letter *orchestrator.Message,
	code orchestrator.Code, role, name string) (Outcome, error) {
	known := slices.Concat(conf.Names, agents.GroupsWithMembers(conf))
	refusal := orchestrator.Errorf(code, "unknown %s %q", role, name).WithUnknown(name, known)
	hint := cmp.Or(orchestrator.DidYouMean(name, known), orchestrator.AddIt(name)+".")
	if name == "human" || name == "person" {
		hint = "The person who runs the agents is `" + orchestrator.User + "`."
	}
	if at, err := agents.RemovedAt(t.Conn, name); err != nil {
		return Outcome{}, err
	} else if at != "" {
		refusal = agents.Removed(code, role+": ", name, at)
		hint = refusal.Hint + "."
	}
	var id string
	var err error
	if letter != nil {
		id = letter.ID
	} else if id, err = bury(t, conf, d, string(code)+": "+refusal.Message); err != nil {
		return Outcome{}, err
	}
	refusal.WithHint("%s Mailroom keeps the message as dead letter %s", hint, id)
	refusal.MessageID, refusal.Recipient = id, d.Recipient
	return Outcome{Refused: refusal}, nil
}

// bury stores a draft as a dead letter. The dead letter has the draft's idempotency key but not its id, which is
// reserved for the message that is finally sent.
func bury(t *ledger.Tx, conf *ledger.Config, d *orchestrator.Draft, failure string) (id string, err error) {
	dead := *d
	dead.ID = ""
	if id, err = t.MessageID(&dead, d.Recipient); err != nil {
		return "", err
	}
	row := ledger.Insertion{Draft: &dead, Id: id, Recipient: d.Recipient, Status: orchestrator.Failed, Failure: failure}
	row.MaxRetries = conf.Settings.MaxRetries
	row.Expire(t, &conf.Settings)
	if err = t.Insert(&row); err == nil && d.IdempotencyKey != "" {
		err = keepRefusal(t, d, id)
	}
	return id, err
}

// CheckBacklog refuses to send if a recipient has as many undelivered and unread messages as the setting
// backlog.limit allows. spared is a recipient that is not checked, because the message does not wait for it; "" means
// none. Error: unavailable.
func CheckBacklog(t *ledger.Tx, conf *ledger.Config, recipients []string, spared string) error {
	limit := conf.Settings.BacklogLimit
	if limit == 0 {
		return nil
	}
	for _, recipient := range recipients {
		if recipient == spared {
			continue
		}
		n, err := t.Number(`SELECT count(*) FROM (SELECT 1 FROM agent_message WHERE `+ledger.Live+` AND recipient = ?1
			UNION ALL SELECT 1 FROM agent_inbox WHERE recipient = ?1 AND read_at = '' LIMIT +?2) AS m`, recipient,
			limit)
		if err != nil {
			return err
		}
		if n >= int64(limit) {
			e := orchestrator.Errorf(orchestrator.Unavailable,
				"%s has %d undelivered and unread messages, which is the limit; nothing was sent", recipient, n)
			e.Recipient = recipient
			return e.WithHint("Try again later. To see the backlog, run `mailroom status` (the limit is the setting backlog.limit)")
		}
	}
	return nil
}
