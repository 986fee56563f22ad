package orchestrator

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql/driver"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"mailroom/tracing"
)

// Bounds of a message. Source: contract, "The table".
const (
	MaxPayload  = 1 << 20 // bytes of JSON
	MaxType     = 64      // bytes
	MaxPriority = 9
	MaxTTL      = 30 * day
	maxKey      = 256     // bytes of an idempotency key, a message id, a thread or session id
	maxText     = 8 << 10 // bytes of summary and context
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
	err := r.write(ctx, func(t *tx) error {
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

// sendOne sends one message of a batch. What it returns ends the transaction; what it stores in failure concerns this
// message alone.
func (t *tx) sendOne(d *Draft, sent *Sent, failure *error, several bool) error {
	if several {
		if _, err := t.Exec("SAVEPOINT message"); err != nil {
			return err
		}
	}
	var refusal error
	err := func() (err error) {
		*sent, refusal, err = t.send(d)
		return err
	}()
	if err != nil {
		if CodeOf(err) == Internal || t.raw.AutoCommit() || !several {
			return err
		}
		if _, rerr := t.Exec("ROLLBACK TO message"); rerr != nil {
			return rerr
		}
	}
	if *failure = err; err == nil {
		*failure = refusal
	}
	if several {
		_, err = t.Exec("RELEASE message")
		return err
	}
	return nil
}

// check validates a draft and brings it into the form in which it is stored.
func (d Draft) check() (Draft, error) {
	var err error
	if d.Sender, err = CheckName("sender", d.Sender); err != nil {
		return d, err
	}
	if d.Recipient, err = CheckName("recipient", d.Recipient); err != nil {
		return d, err
	}
	if d.Payload == nil {
		d.Payload = json.RawMessage("null")
	}
	if len(d.Payload) > MaxPayload {
		return d, Errorf(InvalidParams, "payload has %d bytes; at most %d are allowed", len(d.Payload), MaxPayload).
			WithHint("Write the content to a file and send its path")
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, d.Payload); err != nil {
		return d, &Error{Code: InvalidParams, Message: "payload is not JSON", Err: err, Hint: `A bare text needs quotes: '"hello"'`}
	}
	d.Payload = compact.Bytes()
	if !utf8.Valid(d.Payload) {
		return d, Errorf(InvalidParams, "payload is not valid UTF-8")
	}
	for _, text := range []struct {
		name, value string
		limit       int
	}{
		{"message_type", d.Type, MaxType}, {"idempotency_key", d.IdempotencyKey, maxKey}, {"reply_to", d.ReplyTo, maxKey},
		{"thread_id", d.ThreadID, maxKey}, {"session_id", d.SessionID, maxKey}, {"summary", d.Summary, maxText},
		{"context", d.Context, maxText},
	} {
		switch {
		case len(text.value) > text.limit:
			return d, Errorf(InvalidParams, "%s has %d bytes; at most %d are allowed", text.name, len(text.value), text.limit)
		case strings.ContainsRune(text.value, 0) || !utf8.ValidString(text.value):
			return d, Errorf(InvalidParams, "%s holds a NUL or is not valid UTF-8", text.name)
		}
	}
	switch {
	case d.Priority < -MaxPriority || d.Priority > MaxPriority:
		return d, Errorf(InvalidParams, "priority is %d; it goes from %d to %d", d.Priority, -MaxPriority, MaxPriority)
	case d.MaxRetries != nil && (*d.MaxRetries < 0 || *d.MaxRetries > 100):
		return d, Errorf(InvalidParams, "max_retries is %d; it goes from 0 to 100", *d.MaxRetries)
	case d.TTL != 0 && (d.TTL < time.Second || d.TTL > MaxTTL):
		return d, Errorf(InvalidParams, "ttl_seconds is %d; it goes from 1 to %d", int64(d.TTL/time.Second), int64(MaxTTL/time.Second))
	case d.Action != "" && d.Action != "queue" && d.Action != "interrupt":
		return d, Errorf(InvalidParams, "action is %q; it is queue or interrupt", d.Action)
	}
	return d, nil
}

// send stores the rows of one draft. refusal is an error for the sender that left a dead letter behind, which must be
// committed; err undoes everything.
func (t *tx) send(d *Draft) (sent Sent, refusal error, err error) {
	conf, err := t.config()
	if err != nil {
		return sent, nil, err
	}
	if conf.agents[d.Sender] == nil {
		if !d.RegisterSender {
			return t.refuse(conf, d, UnknownSender, "sender", d.Sender)
		}
		if _, _, err := t.addAgent(AgentUpdate{Name: d.Sender, By: d.Sender}); err != nil {
			return sent, nil, err
		}
		if conf, err = t.config(); err != nil {
			return sent, nil, err
		}
	}
	hash := ""
	if d.IdempotencyKey != "" {
		hash = d.hash()
		first, found, err := t.firstResult(d, hash)
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
		return sent, nil, Errorf(InvalidParams, "the group %s has no members", d.Recipient).
			WithHint("Add some with `mailroom group set %s --members A --members B`", d.Recipient)
	}
	hops, err := t.hops(conf, d.ReplyTo)
	if err != nil {
		return sent, nil, err
	}
	if err := t.checkBacklog(conf, recipients); err != nil {
		return sent, nil, err
	}
	sent, err = t.insertAll(conf, d, recipients, isGroup, held, hops)
	if err == nil && d.IdempotencyKey != "" {
		err = t.keepResult(d, hash, sent)
	}
	return sent, nil, err
}

// insertAll stores one row per recipient.
func (t *tx) insertAll(conf *config, d *Draft, recipients []string, isGroup, held bool, hops int) (Sent, error) {
	sent := Sent{Recipients: slices.Clone(recipients), Status: Pending, CreatedAt: t.now, Held: held}
	row := insertion{draft: d, hops: hops, held: held, status: Pending}
	row.maxRetries = conf.settings.MaxRetries
	if d.MaxRetries != nil {
		row.maxRetries = *d.MaxRetries
	}
	row.expire(t, &conf.settings)
	if isGroup {
		id, err := t.newID("mc-")
		if err != nil {
			return sent, err
		}
		row.multicastID, row.multicastTarget = id, d.Recipient
		sent.MulticastID, sent.MessageID = id, id
	}
	for _, recipient := range recipients {
		id, err := t.newID("msg-")
		if err != nil {
			return sent, err
		}
		row.id, row.recipient = id, recipient
		if err := t.insert(&row); err != nil {
			return sent, err
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
	t.ring = true
	return sent, nil
}

// insertion is one row about to be stored.
type insertion struct {
	draft                        *Draft
	id, recipient                string
	status                       Status
	failure                      string
	maxRetries, hops             int
	held                         bool
	multicastID, multicastTarget string
	expiresAt, reviewAt          string
	ttl                          any
}

// expire sets when the row expires, and when the router next looks at it: when it is overdue, or earlier if it expires.
func (row *insertion) expire(t *tx, s *Settings) {
	created := parseStamp(t.now)
	lifetime := s.ExpireAfter
	if row.draft.TTL > 0 {
		lifetime = row.draft.TTL
		row.ttl = int64(row.draft.TTL / time.Second)
	}
	row.expiresAt = stamp(created.Add(lifetime))
	row.reviewAt = stamp(created.Add(min(lifetime, s.OverdueAfter)))
}

// insert stores one row and its first event.
func (t *tx) insert(row *insertion) error {
	d := row.draft
	var failure any
	endedAt := ""
	if row.status == Failed {
		failure, endedAt, row.reviewAt = row.failure, t.now, ""
	}
	traceID := ""
	if span := tracing.FromContext(t.ctx); span != nil {
		traceID = span.TraceID
	}
	held := 0
	if row.held {
		held = 1
	}
	_, err := t.Exec(`
		INSERT INTO agent_message (message_id, sender, recipient, message_type, payload, status, created_at, retry_count,
		    max_retries, error_message, traced_status, review_at, expires_at, ended_at, ttl_seconds, priority, held, summary,
		    context, action, thread_id, session_id, reply_to, hops, multicast_id, multicast_target, idempotency_key,
		    trace_id, span_id)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?8, ?9, ?6, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
		    ?22, ?23, ?24, ?25, ?26, ?27)`,
		row.id, d.Sender, row.recipient, d.Type, string(d.Payload), row.status, t.now, row.maxRetries, failure, row.reviewAt,
		row.expiresAt, endedAt, row.ttl, d.Priority, held, null(d.Summary), null(d.Context), null(d.Action), null(d.ThreadID),
		null(d.SessionID), null(d.ReplyTo), row.hops, null(row.multicastID), null(row.multicastTarget),
		null(d.IdempotencyKey), traceID, t.spanID)
	if err != nil {
		return err
	}
	event := t.event(tracing.Created, row.failure)
	event.MessageID, event.NewStatus = row.id, string(row.status)
	if err := tracing.Record(t, event); err != nil || !row.held {
		return err
	}
	event.Name, event.Error = tracing.Held, "nobody is known as "+row.recipient
	event.OldStatus = event.NewStatus
	return tracing.Record(t, event)
}

// null is the SQL NULL for an empty text.
func null(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// refuse keeps a message that cannot be sent as a dead letter, so that a typo loses nothing.
func (t *tx) refuse(conf *config, d *Draft, code Code, role, name string) (Sent, error, error) {
	refusal := Errorf(code, "nobody is known as %s %q", role, name)
	hint := didYouMean(name, append(append([]string(nil), conf.names...), conf.groupNames()...))
	if hint == "" {
		hint = "Add the agent with `mailroom agent add " + name + "`."
	}
	id, err := t.newID("msg-")
	if err != nil {
		return Sent{}, nil, err
	}
	refusal.WithHint("%s The message is kept as dead letter %s", hint, id)
	refusal.MessageID, refusal.Recipient = id, d.Recipient
	unkeyed := *d
	unkeyed.IdempotencyKey = "" // a refused send does not use its key up
	row := insertion{draft: &unkeyed, id: id, recipient: d.Recipient, status: Failed, failure: string(code) + ": " + refusal.Message}
	row.maxRetries = conf.settings.MaxRetries
	row.expire(t, &conf.settings)
	return Sent{}, refusal, t.insert(&row)
}

// hops returns how many answers lie behind a message that answers replyTo.
func (t *tx) hops(conf *config, replyTo string) (int, error) {
	if replyTo == "" {
		return 0, nil
	}
	parent, found, err := t.text(`
		SELECT hops FROM agent_message WHERE message_id = ?1
		UNION ALL SELECT hops FROM agent_message_archive WHERE message_id = ?1`, replyTo)
	if err != nil {
		return 0, err
	}
	if !found {
		return 0, Errorf(NotFound, "reply_to: there is no message %q", replyTo)
	}
	hops := int(asInt(parent)) + 1
	if hops > conf.settings.MaxHops {
		return 0, Errorf(Conflict, "a loop: this would be answer number %d to one message; at most %d are allowed", hops, conf.settings.MaxHops).
			WithHint("Let somebody end the conversation, or start a new one without reply_to")
	}
	return hops, nil
}

// checkBacklog refuses a send to a recipient that has too much waiting already.
func (t *tx) checkBacklog(conf *config, recipients []string) error {
	limit := conf.settings.BacklogLimit
	if limit == 0 {
		return nil
	}
	for _, recipient := range recipients {
		n, err := t.number(`SELECT count(*) FROM (SELECT 1 FROM agent_message WHERE `+live+` AND recipient = ? LIMIT ?)`, recipient, limit)
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

// hash tells whether two sends with one idempotency key are the same.
func (d *Draft) hash() string {
	same := *d
	same.RegisterSender = false
	b, _ := json.Marshal(same) // plain fields and checked JSON always marshal
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// firstResult looks for an earlier send with the draft's idempotency key.
func (t *tx) firstResult(d *Draft, hash string) (sent Sent, found bool, err error) {
	var have, result string
	err = t.query(`SELECT params_hash, result FROM idempotency WHERE sender = ? AND key = ?`, func(row []driver.Value) error {
		have, result, found = asText(row[0]), asText(row[1]), true
		return nil
	}, d.Sender, d.IdempotencyKey)
	switch {
	case err != nil || !found:
		return sent, false, err
	case have != hash:
		return sent, false, Errorf(Conflict, "the idempotency key %q was used by %s for another message", d.IdempotencyKey, d.Sender).
			WithHint("Use a new key for a new message")
	}
	if err := json.Unmarshal([]byte(result), &sent); err != nil {
		return sent, false, err
	}
	sent.Idempotent = true
	return sent, true, nil
}

func (t *tx) keepResult(d *Draft, hash string, sent Sent) error {
	result, err := json.Marshal(sent)
	if err != nil {
		return err
	}
	_, err = t.Exec(`INSERT INTO idempotency (sender, key, params_hash, result, created_at) VALUES (?, ?, ?, ?, ?)`,
		d.Sender, d.IdempotencyKey, hash, string(result), t.now)
	return err
}
