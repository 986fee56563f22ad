package orchestrator

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of a message. Source: contract, "The table".
const (
	MaxPayload   = 1 << 20 // bytes of JSON
	MaxType      = 64      // bytes
	MaxPriority  = 9
	MaxTTL       = 30 * day
	MaxNotBefore = 30 * day // how far ahead a sender may put the delivery
	maxKey       = 256      // bytes of an idempotency key, a message id, a thread or session id
	maxText      = 8 << 10  // bytes of summary and context
)

// Draft is a message about to be sent.
type Draft struct {
	Sender         string          // required: a known agent
	Recipient      string          // required: a known agent, a group, or role:ROLE for every agent of a role
	Type           string          // any word, at most 64 bytes
	Payload        json.RawMessage // one JSON value of at most MaxPayload bytes; nil is null
	MaxRetries     *int            // 0 to 100; nil: the setting retry.max_retries
	Priority       int             // -9 to 9, higher first
	TTL            time.Duration   // whole seconds, 1 s to 30 days; 0: none, the settings decide
	IdempotencyKey string          // a repeat with the same key and content answers with the first result
	ReplyTo        string          // message that this one answers; must exist
	Summary        string
	Context        string
	Action         string // "", "queue" or "interrupt"
	ThreadID       string
	SessionID      string
	SessionNamed   bool          // the sender named SessionID, instead of just working there: a repeat must name it too
	NotBefore      time.Time     // deliver no earlier; at most MaxNotBefore ahead, and before the TTL ends. A past time is at once
	Delay          time.Duration // the same, as long from the send; at most one of the two
	AckWithin      time.Duration // tell the sender when nobody has acknowledged it after this long; 1 s to 30 days, 0: never
	Acknowledges   bool          // acknowledge the message that ReplyTo names, if the sender got it, together with the send
	ID             string        // its own, for one recipient: another message with it is a conflict. "": MakeID, or the router, makes one
	Origin         string        // see Message.Origin
	HoldUnknown    bool          // keep a message to an unknown name until such an agent is added
	RegisterSender bool          // the sender proved its identity: add it if nobody knows it yet
	Direct         bool          // an answer that does not join the thread of what it answers

	// Verdict reads what the message says to a team's request, which ReplyTo may name; the message then answers it, as a
	// teammate would. An error is for the sender, who is asked and does not say it; no Verdict and no error is a message
	// that answers nothing, and so is every message without the function.
	Verdict func(Asked) (*Verdict, error)

	// Presence is what the sender says that it does in the session SessionID, or else in DefaultSession; it is noted together
	// with the send. "" says nothing. A repeat of an idempotency key notes nothing.
	Presence PresenceStatus

	// MakeID names the message, or each one to a member of a group; nil leaves that to the router. It is called within the
	// transaction with the time that is stored as CreatedAt, and its sequence is the first, from 1, whose id is free among all
	// messages that are kept. It must have an id of its own for every sequence, of 1 to 256 bytes, and may be called again.
	MakeID func(recipient string, at time.Time, sequence int) string

	post string // the thread's own row of the message
}

// Sent is the answer to a Draft.
type Sent struct {
	MessageID   string   // of the only row; for a group the multicast id
	MulticastID string   // "" unless the recipient is a group
	MessageIDs  []string // one per recipient, in the order of Recipients
	Recipients  []string // the agents that get it
	Status      Status   // Pending
	CreatedAt   string
	NotBefore   string   `json:",omitempty"` // when it is delivered at the earliest; "" is at once
	Held        bool     // kept for an agent that nobody has added yet
	Origin      string   `json:",omitempty"` // the draft's
	Note        string   `json:",omitempty"` // why it is not delivered soon: a message to the user waits for a device
	Withheld    []string `json:"-"`          // those of Recipients whose messages stay here until the database is trusted
	Idempotent  bool     // true: nothing was sent now, this is the first send's answer

	// Of an answer.
	Type      string         // its message_type, if it decides a team's request and has another than the draft
	Joined    string         // the thread in which it stands, since what it answers does
	Outside   string         // why it does not, though what it answers stands in one
	RequestID string         // of a team: the request that it answers, or that it is
	Presence  PresenceStatus // of the sender in a team's session, afterwards; "" if it has not changed
}

// Asked is a team's request as it stands before the one who was asked.
type Asked struct {
	RequestID string
	Kind      RequestKind
}

// Verdict is what an agent says to a team's request.
type Verdict struct {
	Approve bool

	// The message that goes to the one who asked: an answer as a teammate would have written it.
	Type    string
	Payload json.RawMessage // compact JSON
	Summary string
}

// RequestKind is what a member of a team asks another for. Source: document 001, "Structured Protocol Messages".
type RequestKind string

// The kinds of requests: that a teammate shuts down, and that it approves a plan.
const (
	Shutdown     RequestKind = "shutdown"
	PlanApproval RequestKind = "plan_approval"
)

// DefaultSession is the session of those who name none.
const DefaultSession = "default"

// PresenceStatus is what an agent was last known to do in a session.
type PresenceStatus string

// The presences. A stopped agent takes no part in broadcasts until it joins anew.
const (
	Working PresenceStatus = "working"
	Idle    PresenceStatus = "idle"
	Stopped PresenceStatus = "stopped"
)

// QuotingHint says what most likely went wrong with a text that is not JSON.
func QuotingHint(text []byte) string {
	if len(text) > 0 && (text[0] == '{' || text[0] == '[') {
		return `A shell eats double quotes: put single ones around the JSON, as in '{"a":1}'`
	}
	return `A bare text needs quotes of its own: '"hello"'`
}

// check validates a draft and brings it into the form in which it is stored.
func (d Draft) check() (Draft, error) {
	var err error
	if d.Sender, err = CheckName("sender", d.Sender); err != nil {
		return d, err
	}
	if d.Recipient, err = CheckRecipient("recipient", d.Recipient); err != nil {
		return d, err
	}
	return d.checkContent()
}

// checkContent is check without the names.
func (d Draft) checkContent() (Draft, error) {
	if d.Payload == nil {
		d.Payload = json.RawMessage("null")
	}
	if len(d.Payload) > MaxPayload {
		return d, Errorf(InvalidParams, "payload has %d bytes; at most %d are allowed", len(d.Payload), MaxPayload).
			WithHint("Write the content to a file and send its path")
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, d.Payload); err != nil {
		return d, &Error{Code: InvalidParams, Message: "payload is not JSON", Err: err, Hint: QuotingHint(d.Payload)}
	}
	d.Payload = compact.Bytes()
	if !utf8.Valid(d.Payload) {
		return d, Errorf(InvalidParams, "payload is not valid UTF-8")
	}
	for _, text := range []struct {
		name, value string
		limit       int
	}{
		{"message_type", d.Type, MaxType}, {"id", d.ID, maxKey}, {"idempotency_key", d.IdempotencyKey, maxKey}, {"reply_to", d.ReplyTo, maxKey},
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
	if err := checkPlain("message_type", d.Type); err != nil {
		return d, err
	}
	if err := checkPlain("id", d.ID); err != nil {
		return d, err
	}
	switch {
	case d.Priority < -MaxPriority || d.Priority > MaxPriority:
		return d, Errorf(InvalidParams, "priority is %d; it goes from %d to %d", d.Priority, -MaxPriority, MaxPriority)
	case d.MaxRetries != nil && (*d.MaxRetries < 0 || *d.MaxRetries > 100):
		return d, Errorf(InvalidParams, "max_retries is %d; it goes from 0 to 100", *d.MaxRetries)
	case d.TTL != 0 && (d.TTL < time.Second || d.TTL > MaxTTL):
		return d, Errorf(InvalidParams, "ttl_seconds is %d; it goes from 1 to %d", int64(d.TTL/time.Second), int64(MaxTTL/time.Second))
	case d.Delay < 0 || d.Delay > MaxNotBefore:
		return d, Errorf(InvalidParams, "not_before lies %s ahead; at most %s are allowed", FormatDuration(d.Delay), FormatDuration(MaxNotBefore))
	case d.AckWithin != 0 && (d.AckWithin < time.Second || d.AckWithin > MaxTTL):
		return d, Errorf(InvalidParams, "ack_within is %d; it goes from 1 to %d", int64(d.AckWithin/time.Second), int64(MaxTTL/time.Second))
	case d.Action != "" && d.Action != "queue" && d.Action != "interrupt":
		return d, Errorf(InvalidParams, "action is %q; it is queue or interrupt", d.Action)
	}
	if d.Presence == "" {
		return d, nil
	}
	session, err := CheckName("session", cmp.Or(d.SessionID, DefaultSession))
	if d.SessionID != "" {
		d.SessionID = session
	}
	return d, err
}
