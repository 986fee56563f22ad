package orchestrator

import (
	"encoding/json"
	"mailroom/tracing"
	"time"
)

// Status is where a message stands. Source: contract, "The table".
type Status string

// The six statuses. Pending and retry are live: the router still has to act on them.
const (
	Pending   Status = "pending"
	Retry     Status = "retry"
	Delivered Status = "delivered"
	Failed    Status = "failed"
	Lapsed    Status = "expired" // named so because Expired is the error code
	Cancelled Status = "cancelled"
)

// SystemSender is the sender of the router's own messages (bounces). No agent can have the name.
const SystemSender = "system"

// Everyone is the group that every known agent belongs to. No agent or stored group can have the name.
const Everyone = "all"

// Message is one row of agent_message, or of its archive. Times are RFC 3339 text as stored; "" is "not yet".
type Message struct {
	ID             string          `json:"message_id"`
	Sender         string          `json:"sender"`
	Recipient      string          `json:"recipient"`
	Type           string          `json:"message_type"`
	Payload        json.RawMessage `json:"payload"`
	Status         Status          `json:"status"`
	CreatedAt      string          `json:"created_at"`
	DeliveredAt    string          `json:"delivered_at,omitempty"`
	RetryCount     int             `json:"retry_count"`
	MaxRetries     int             `json:"max_retries"`
	Error          string          `json:"error_message,omitempty"`
	Priority       int             `json:"priority"`
	Summary        string          `json:"summary,omitempty"`
	Context        string          `json:"context,omitempty"`
	Action         string          `json:"action,omitempty"`
	ThreadID       string          `json:"thread_id,omitempty"`
	SessionID      string          `json:"session_id,omitempty"`
	ReplyTo        string          `json:"reply_to,omitempty"`
	Hops           int             `json:"hops,omitempty"`
	MulticastID    string          `json:"multicast_id,omitempty"`
	Group          string          `json:"multicast_target,omitempty"` // group that the sender named
	IdempotencyKey string          `json:"idempotency_key,omitempty"`
	NextAttemptAt  string          `json:"next_attempt_at,omitempty"`
	NotBefore      string          `json:"not_before,omitempty"` // when its sender wants it delivered at the earliest
	ExpiresAt      string          `json:"expires_at,omitempty"`
	EndedAt        string          `json:"ended_at,omitempty"`
	ReadAt         string          `json:"read_at,omitempty"`
	AcknowledgedAt string          `json:"acknowledged_at,omitempty"`
	LeaseOwner     string          `json:"lease_owner,omitempty"`
	LeaseUntil     string          `json:"lease_until,omitempty"`
	Crashes        int             `json:"crashes,omitempty"`
	Held           bool            `json:"held,omitempty"`
	TraceID        string          `json:"trace_id,omitempty"`
	SpanID         string          `json:"span_id,omitempty"`
	ArchivedAt     string          `json:"archived_at,omitempty"`

	// Origin is what a file that was taken in said and no other field holds: a JSON object, or "".
	Origin string `json:"-"`

	// Mark is what the transport noted with this message during an earlier attempt; see Attempt.Mark.
	Mark string `json:"-"`

	seq        int64
	ttl        *int64 // seconds, the sender's own
	leaseToken string
	marks      string // all transports' marks, JSON
	reader     string // of a post that Wait took: the agent that waited
	readFrom   int64  // and how far that had read its thread before

	shownAt, shownUntil string // the lease under which it was handed out just now
}

// Traceparent returns the command that sent the message as a W3C Trace Context header; "" when it is not known.
func (m *Message) Traceparent() string { return tracing.Traceparent(m.TraceID, m.SpanID) }

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

// Priorities are the words for priorities, from the lowest.
var Priorities = []string{"low", "normal", "high", "urgent"}

// PriorityOf is the number of a priority's word; 0 for "" and for what is none of Priorities.
func PriorityOf(word string) int {
	for i, p := range Priorities {
		if p == word {
			return i - 1
		}
	}
	return 0
}

// PriorityWord is the word that comes nearest to a priority's number, -9 to 9.
func PriorityWord(priority int) string { return Priorities[min(max(priority, -1), 2)+1] }
