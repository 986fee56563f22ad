package orchestrator

import (
	"encoding/json"
	"slices"
	"strings"

	"mailroom/tracing"
)

// Status is the state of a message. Source: contract, "The table".
type Status string

// The six statuses. Pending and retry are live: the engine still has to process the message.
const (
	Pending   Status = "pending"
	Retry     Status = "retry"
	Delivered Status = "delivered"
	Failed    Status = "failed"
	Expired   Status = "expired"
	Cancelled Status = "cancelled"
)

// Statuses lists all statuses.
var Statuses = []Status{Pending, Retry, Delivered, Failed, Expired, Cancelled}

// SystemSender is the sender of the engine's own messages (bounces). No agent can have this name.
const SystemSender = "system"

// Everyone is the group of all agents. No agent or stored group can have this name.
const Everyone = "all"

// ThreadPrefix, followed by a thread's ID, is the recipient of the thread's own copy of a post. No agent or group
// can have such a name, so the copy is never delivered.
const ThreadPrefix = "thread:"

// TestMessage is the type of the messages that delivery.TryTransports sends. They start no session and need no
// action.
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
	NotBefore      string          `json:"not_before,omitempty"` // earliest time of delivery, set by the sender
	ExpiresAt      string          `json:"expires_at,omitempty"`
	EndedAt        string          `json:"ended_at,omitempty"`
	ReadAt         string          `json:"read_at,omitempty"`
	AcknowledgedAt string          `json:"acknowledged_at,omitempty"`
	LeaseOwner     string          `json:"lease_owner,omitempty"`
	LeaseUntil     string          `json:"lease_until,omitempty"`
	Crashes        int             `json:"crashes,omitempty"`
	Held           bool            `json:"held,omitempty"`
	Wake           Wake            `json:"wake,omitempty"` // set by the sender; see WakeRules.WakeOf
	TraceID        string          `json:"trace_id,omitempty"`
	SpanID         string          `json:"span_id,omitempty"`
	ArchivedAt     string          `json:"archived_at,omitempty"`

	// Origin is a JSON object with those fields of an imported file that no other field holds, or "".
	Origin string `json:"-"`

	// Mark is the note that the transport stored with this message during an earlier attempt; see Attempt.Mark.
	Mark string `json:"-"`

	Seq        int64  `json:"-"`
	TTL        *int64 `json:"-"` // seconds, set by the sender
	LeaseToken string `json:"-"`
	Marks      string `json:"-"` // marks of all transports, as JSON
	Reader     string `json:"-"` // of a post that Wait took: the agent that waited
	ReadFrom   int64  `json:"-"` // sequence number up to which Reader had read the thread before

	ShownAt, ShownUntil string `json:"-"` // the lease under which the message was just handed out
}

// IsPost reports whether m is a thread's own copy of a post.
func (m *Message) IsPost() bool { return strings.HasPrefix(m.Recipient, ThreadPrefix) }

// IsOwnCopy reports whether m is the sender's own copy of its message to a group. Such a copy is kept in the
// sender's inbox and never shown.
func (m *Message) IsOwnCopy() bool {
	return m.Sender == m.Recipient && m.Group != "" && m.PostID() == "" && m.ReadAt != "" && m.ReadAt == m.CreatedAt
}

// PostID returns the ID of the post if m is a post or a copy of one, and "" otherwise.
func (m *Message) PostID() string {
	if strings.HasPrefix(m.Group, ThreadPrefix) {
		return m.MulticastID
	}
	return ""
}

// Traceparent returns the W3C Trace Context header of the command that sent m, or "" if that is unknown.
func (m *Message) Traceparent() string { return tracing.Traceparent(m.TraceID, m.SpanID) }

// ThreadClosed is the type of the message that reports that a thread was closed.
const ThreadClosed = "thread_closed"

// IdleNotification is the type of the message that reports to a team's lead that a member's turn has ended. Source:
// document 001.
const IdleNotification = "idle_notification"

// Priorities lists the words for priorities, lowest first.
var Priorities = []string{"low", "normal", "high", "urgent"}

// PriorityOf returns the number for a priority word, or 0 if the word is not in Priorities.
func PriorityOf(word string) int {
	if i := slices.Index(Priorities, word); i >= 0 {
		return i - 1
	}
	return 0
}

// PriorityWord returns the word nearest to a priority from -9 to 9.
func PriorityWord(priority int) string { return Priorities[min(max(priority, -1), 2)+1] }

// TTLEnd returns the time at which m's TTL ends, or "" if the sender set no TTL.
func (m *Message) TTLEnd() string {
	if m.TTL == nil {
		return ""
	}
	return m.ExpiresAt
}

// Attempt returns the number of the current or next attempt to deliver m, counting from 1.
func (m *Message) Attempt() int {
	if m.Status == Retry {
		return m.RetryCount + 2
	}
	return 1
}
