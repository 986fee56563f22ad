package orchestrator

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"mailroom/tracing"
)

// Send takes a message, or one per member of a group, and returns when it is on disk: a kill or a power cut afterwards
// loses nothing. It delivers nothing itself. A message to or from a name that nobody knows is refused and kept as a dead
// letter. A repeat of an idempotency key answers with the first result. Errors: invalid_params, unknown_sender,
// unknown_recipient, not_found (the message answered), conflict (the key with other content, a loop), unavailable (the
// recipient's backlog limit), busy.
func (r *Router) Send(ctx context.Context, d Draft) (Sent, error) {
	sent, errs := r.SendBatch(ctx, []Draft{d}, false)
	return sent[0], errs[0]
}

// SendBatch sends several messages in one transaction, in order. Each fails alone, unless atomic: then one failure means
// that none is sent, and errs tells which one failed; the others carry code conflict. Both results have one element per
// draft.
func (r *Router) SendBatch(ctx context.Context, drafts []Draft, atomic bool) (sent []Sent, errs []error) {
	sent, errs = make([]Sent, len(drafts)), make([]error, len(drafts))
	checked := make([]Draft, len(drafts))
	bad := false
	for i, d := range drafts {
		checked[i], errs[i] = d.check()
		bad = bad || errs[i] != nil
	}
	if atomic && bad {
		return sent, withheld(errs)
	}
	invalid := append([]error(nil), errs...)
	err := r.writeSends(ctx, func(t *tx) error {
		copy(errs, invalid)
		for i := range checked {
			if errs[i] != nil {
				continue
			}
			if err := t.sendOne(&checked[i], &sent[i], &errs[i], len(drafts) > 1); err != nil {
				return err
			}
			if atomic && errs[i] != nil {
				errs[i] = undone(errs[i])
				return errs[i]
			}
		}
		return nil
	})
	if err == nil {
		return sent, errs
	}
	if atomic && firstError(errs) != nil {
		return sent, withheld(errs)
	}
	for i := range errs {
		if invalid[i] == nil {
			errs[i] = err
		}
	}
	return sent, errs
}

// undone takes from a refusal what is no longer true once its dead letter is rolled back with the batch.
func undone(err error) error {
	var e *Error
	if !errors.As(err, &e) || e.MessageID == "" {
		return err
	}
	plain := *e
	plain.MessageID, plain.Hint = "", ""
	return &plain
}

func firstError(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// withheld gives every message without an error of its own the reason why it was not sent either.
func withheld(errs []error) []error {
	for i := range errs {
		if errs[i] == nil {
			errs[i] = Errorf(Conflict, "not sent, since another message of the atomic batch was refused")
		}
	}
	return errs
}

// sendOne sends one message of a batch. What it returns ends the request; what it stores in failure concerns this message
// alone.
func (t *tx) sendOne(d *Draft, sent *Sent, failure *error, several bool) error {
	var refusal error
	send := func() (err error) {
		*sent, refusal, err = t.send(d)
		return err
	}
	if !several {
		if err := send(); err != nil {
			return err
		}
		*failure = refusal
		return nil
	}
	failed, err := t.apart(send)
	if err == nil && failed != nil && CodeOf(failed) == Internal {
		err = failed
	}
	if *failure = refusal; failed != nil {
		*failure = failed
	}
	return err
}

// send stores the rows of one draft. refusal is an error for the sender that left a dead letter behind, which must be
// committed; err undoes everything.
func (t *tx) send(d *Draft) (sent Sent, refusal error, err error) {
	conf, err := t.config()
	if err != nil {
		return sent, nil, err
	}
	if conf.agents[d.Sender] == nil && !d.RegisterSender {
		return t.refuse(conf, d, UnknownSender, "sender", d.Sender)
	}
	if conf, err = t.acting(d.Sender, d.RegisterSender); err != nil {
		return sent, nil, err
	}
	if d.IdempotencyKey != "" || d.ID != "" {
		first, found, err := t.firstSend(d)
		if err == nil && found {
			err = t.heartbeat(d.Sender)
		}
		if err != nil || found {
			return first, nil, err
		}
	}
	recipients, isGroup := conf.members(d.Recipient)
	held := false
	switch {
	case recipients == nil && !isGroup && d.HoldUnknown:
		recipients, held = []string{d.Recipient}, true
	case recipients == nil && !isGroup:
		return t.refuse(conf, d, UnknownRecipient, "recipient", d.Recipient)
	case len(recipients) == 0:
		return sent, nil, conf.nobodyIn(d.Recipient)
	case isGroup && d.ID != "":
		return sent, nil, Errorf(InvalidParams, "id: %s is several agents, and each of them gets a message with an id of its own", d.Recipient).
			WithHint("Leave the id out, or name one agent")
	}
	sent, err = t.sendTo(conf, d, recipients, isGroup, held)
	return sent, nil, err
}

// sendTo stores a draft for recipients that may have it, and notes what follows from it for its sender.
func (t *tx) sendTo(conf *config, d *Draft, recipients []string, isGroup, held bool) (sent Sent, err error) {
	note := ""
	if d.Recipient == User {
		if note, err = t.mayReachUser(d); err != nil {
			return sent, err
		}
	}
	if err := t.checkNotBefore(d); err != nil {
		return sent, err
	}
	if err := t.checkBacklog(conf, recipients); err != nil {
		return sent, err
	}
	if d.ReplyTo == "" {
		sent, err = t.insertAll(conf, d, recipients, isGroup, held, 0)
	} else {
		sent, err = t.insertReply(conf, d, recipients, isGroup, held)
	}
	sent.Note = note
	if err == nil && d.Acknowledges {
		err = t.acknowledgeAnswered(d)
	}
	if err == nil {
		err = t.saidPresence(d)
	}
	if err == nil && d.IdempotencyKey != "" {
		err = t.keepResult(d, sent)
	}
	if err == nil {
		err = t.heartbeat(d.Sender)
	}
	return sent, err
}

// insertAll stores one row per recipient.
func (t *tx) insertAll(conf *config, d *Draft, recipients []string, isGroup, held bool, hops int) (Sent, error) {
	sent := Sent{
		Recipients: slices.Clone(recipients), Status: Pending, CreatedAt: t.now, Held: held, Origin: d.Origin,
		Withheld: conf.withheldFrom(recipients),
	}
	row := insertion{draft: d, hops: hops, held: held, status: Pending}
	row.maxRetries = conf.settings.MaxRetries
	if d.MaxRetries != nil {
		row.maxRetries = *d.MaxRetries
	}
	row.expire(t, &conf.settings)
	sent.NotBefore = row.notBefore
	if d.post != "" {
		row.multicastID, row.multicastTarget = d.post, ThreadPrefix+d.ThreadID
	}
	if isGroup {
		id, err := t.newID("mc-")
		if err != nil {
			return sent, err
		}
		row.multicastID, row.multicastTarget = id, d.Recipient
		sent.MulticastID, sent.MessageID = id, id
	}
	for _, recipient := range recipients {
		id, err := t.messageID(d, recipient)
		if err != nil {
			return sent, err
		}
		row.id, row.recipient = id, recipient
		if err := t.insert(&row); err != nil {
			return sent, err
		}
		if d.AckWithin > 0 {
			if err := t.expectAcknowledgement(id, max(t.clockText, row.notBefore), d.AckWithin); err != nil {
				return sent, err
			}
		}
		sent.MessageIDs = append(sent.MessageIDs, id)
	}
	if !isGroup {
		sent.MessageID = sent.MessageIDs[0]
	}
	if span := tracing.FromContext(t.ctx); span != nil {
		span.Set(tracing.AttrMessageID, sent.MessageID)
		span.Set(tracing.AttrDestination, d.Recipient)
	}
	t.ring.add(recipients)
	return sent, nil
}

// refuse keeps a message that cannot be sent as a dead letter, so that a typo loses nothing.
func (t *tx) refuse(conf *config, d *Draft, code Code, role, name string) (Sent, error, error) {
	known := slices.Concat(conf.names, conf.groupsWithMembers())
	refusal := Errorf(code, "nobody is known as %s %q", role, name).unknown(name, known)
	hint := cmp.Or(didYouMean(name, known), addIt(name)+".")
	if at, err := t.removedAt(name); err != nil {
		return Sent{}, nil, err
	} else if at != "" {
		refusal = removedAgent(code, role+": ", name, at)
		hint = refusal.Hint + "."
	}
	unkeyed := *d
	unkeyed.IdempotencyKey, unkeyed.ID = "", "" // a refused send does not use them up
	id, err := t.messageID(&unkeyed, d.Recipient)
	if err != nil {
		return Sent{}, nil, err
	}
	refusal.WithHint("%s The message is kept as dead letter %s", hint, id)
	refusal.MessageID, refusal.Recipient = id, d.Recipient
	row := insertion{draft: &unkeyed, id: id, recipient: d.Recipient, status: Failed, failure: string(code) + ": " + refusal.Message}
	row.maxRetries = conf.settings.MaxRetries
	row.expire(t, &conf.settings)
	return Sent{}, refusal, t.insert(&row)
}

// checkBacklog refuses a send to a recipient that has too much waiting already.
func (t *tx) checkBacklog(conf *config, recipients []string) error {
	limit := conf.settings.BacklogLimit
	if limit == 0 {
		return nil
	}
	for _, recipient := range recipients {
		n, err := t.number(`SELECT count(*) FROM (SELECT 1 FROM agent_message WHERE `+live+` AND recipient = ? LIMIT +?) AS m`, recipient, limit)
		if err != nil {
			return err
		}
		if n >= int64(limit) {
			e := Errorf(Unavailable, "%s has %d undelivered messages, its limit; nothing was sent", recipient, n)
			e.Recipient = recipient
			return e.WithHint("Try again later; `mailroom status` shows the backlog, the setting backlog.limit the limit")
		}
	}
	return nil
}
