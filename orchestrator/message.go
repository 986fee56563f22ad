package orchestrator

import (
	"encoding/json"
	"slices"
	"strings"

	"mailroom/tracing"
)

// Status is where a message stands in its life. Source: contract, "The table".
type Status string

// The six statuses. Pending and retry are live: the engine still has to act on them.
const (
	Pending   Status = "pending"
	Retry     Status = "retry"
	Delivered Status = "delivered"
	Failed    Status = "failed"
	Expired   Status = "expired"
	Cancelled Status = "cancelled"
)

// Statuses are all of them.
var Statuses = []Status{Pending, Retry, Delivered, Failed, Expired, Cancelled}

// SystemSender is the sender of the engine's own messages (bounces). No agent can have the name.
const SystemSender = "system"

// Everyone is the group of all agents. No agent or stored group can have its name.
const Everyone = "all"

// ThreadPrefix, followed by the id of a thread, is the recipient of the thread's own copy of a post. No agent and no
// group can have such a name, so nothing is ever delivered there.
const ThreadPrefix = "thread:"

// TestMessage is the type of the messages that delivery.TryTransports sends. They start no session, and nobody need act
// on them.
const TestMessage = "transport_test"

// Message is one row of agent_message or of its archive. Times are RFC 3339 text as stored; "" means not yet.
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
	Wake           Wake            `json:"wake,omitempty"` // as its sender wants it; see WakeRules.WakeOf
	TraceID        string          `json:"trace_id,omitempty"`
	SpanID         string          `json:"span_id,omitempty"`
	ArchivedAt     string          `json:"archived_at,omitempty"`

	// Origin is what a file that was taken in said and no other field holds: a JSON object, or "".
	Origin string `json:"-"`

	// Mark is what the transport noted with this message during an earlier attempt; see Attempt.Mark.
	Mark string `json:"-"`

	Seq        int64  `json:"-"`
	TTL        *int64 `json:"-"` // seconds, the sender's own
	LeaseToken string `json:"-"`
	Marks      string `json:"-"` // all transports' marks, JSON
	Reader     string `json:"-"` // of a post that Wait took: the agent that waited
	ReadFrom   int64  `json:"-"` // and how far that had read its thread before

	ShownAt, ShownUntil string `json:"-"` // the lease under which it was handed out just now
}

// IsPost reports whether m is a thread's own copy of a post.
func (m *Message) IsPost() bool { return strings.HasPrefix(m.Recipient, ThreadPrefix) }

// IsOwnCopy reports whether m is what its sender got of its own message to a group: kept in its inbox, and shown to
// nobody.
func (m *Message) IsOwnCopy() bool {
	return m.Sender == m.Recipient && m.Group != "" && m.PostID() == "" && m.ReadAt != "" && m.ReadAt == m.CreatedAt
}

// PostID returns the id of the post that m is, or a copy of which it is; "" for any other message.
func (m *Message) PostID() string {
	if strings.HasPrefix(m.Group, ThreadPrefix) {
		return m.MulticastID
	}
	return ""
}

// Traceparent returns a W3C Trace Context header for the command that sent m; "" if that is not known.
func (m *Message) Traceparent() string { return tracing.Traceparent(m.TraceID, m.SpanID) }

// ThreadClosed is the type of the message that says that a thread was closed.
const ThreadClosed = "thread_closed"

// IdleNotification is the type of the message that tells a team's lead that a member's turn has ended. Source: document
// 001.
const IdleNotification = "idle_notification"

// Priorities are the words for priorities, lowest first.
var Priorities = []string{"low", "normal", "high", "urgent"}

// PriorityOf returns the number of a priority's word; 0 for any text that is not in Priorities.
func PriorityOf(word string) int {
	if i := slices.Index(Priorities, word); i >= 0 {
		return i - 1
	}
	return 0
}

// PriorityWord returns the word that is nearest to a priority from -9 to 9.
func PriorityWord(priority int) string { return Priorities[min(max(priority, -1), 2)+1] }

// TTLEnd returns when m's TTL ends, if its sender gave it one; "" otherwise.
func (m *Message) TTLEnd() string {
	if m.TTL == nil {
		return ""
	}
	return m.ExpiresAt
}

// Attempt returns the number of the attempt that is being made to deliver m, or would be next, from 1.
func (m *Message) Attempt() int {
	if m.Status == Retry {
		return m.RetryCount + 2
	}
	return 1
}
