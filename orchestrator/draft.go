package orchestrator

import (
	"encoding/json"
	"time"
)

// Limits of a message. Source: contract, "The table".
const (
	MaxPayload   = 1 << 20 // bytes of JSON
	MaxType      = 64      // bytes
	MaxPriority  = 9
	MaxTTL       = 30 * Day
	MaxNotBefore = 30 * Day // how far ahead a sender may schedule the delivery
	MaxKey       = 256      // bytes of an idempotency key, a message id, a thread or session id
	MaxText      = 8 << 10  // bytes of summary and context
)

// Draft is a message to be sent. Sender and Recipient are required. The zero value of any other field has the
// meaning that its comment gives, or means that the field is not set.
type Draft struct {
	Sender         string          // required: a known agent
	Recipient      string          // required: a known agent, a group, or role:ROLE for every agent of a role
	Type           string          // any word of at most 64 bytes
	Payload        json.RawMessage // one JSON value of at most MaxPayload bytes; nil is null
	MaxRetries     *int            // 0 to 100; nil: the setting retry.max_retries
	Priority       int             // -9 to 9, higher first
	TTL            time.Duration   // whole seconds, 1 s to 30 days; 0: no TTL, the settings decide
	IdempotencyKey string          // a repeat with the same key and content returns the first result
	ReplyTo        string          // the message that this one answers; must exist
	Summary        string
	Context        string
	Action         string // "", "queue" or "interrupt"
	ThreadID       string
	SessionID      string
	SessionNamed   bool // the sender gave SessionID explicitly; a repeat must give it too
	// NotBefore is the earliest time of delivery, at most MaxNotBefore ahead and before the TTL ends. A past time
	// means at once.
	NotBefore time.Time
	Delay     time.Duration // like NotBefore, but counted from the send; set at most one of the two
	// AckWithin notifies the sender if nobody has acknowledged the message after this time; 1 s to 30 days, 0:
	// never.
	AckWithin time.Duration
	// Acknowledges acknowledges the message ReplyTo, if it was delivered to the sender, in the same transaction as
	// the send.
	Acknowledges bool
	// ID is the message's own ID, for one recipient only. An existing message with the same ID is a conflict. If ID
	// is "", MakeID or the engine makes one.
	ID          string
	Origin      string // see Message.Origin
	Wake        Wake   // limit on how a session may be woken; "": type and priority decide, see WakeRules.WakeOf
	HoldUnknown bool   // hold a message to an unknown name until an agent with that name is added
	Hops        int    // hops to count in addition to those of an answer; see messages.Inherit
	ChainAt     string // when the first message of the chain was sent; "" if Hops is 0
	Direct      bool   // the answer does not join the thread of the message that it answers

	// Verdict decides whether the message answers the team request that ReplyTo may name. If Verdict returns a
	// verdict, the message answers the request as a teammate's would. If the content is unclear, Verdict returns an
	// error; the send fails with this error if the sender is the agent that was asked. If Verdict returns neither, or
	// if Verdict is nil, the message answers no request.
	Verdict func(Asked) (*Verdict, error)

	// Presence is the sender's presence in the session SessionID, or else in DefaultSession. It is stored in the
	// same transaction as the send. "" leaves the presence unchanged. A repeat of an idempotency key stores
	// nothing.
	Presence PresenceStatus

	// MakeID returns the ID of the message, or of each copy to a member of a group. If MakeID is nil, the engine
	// makes the IDs. MakeID is called within the transaction, with the time that is stored as CreatedAt and with
	// sequence numbers counting from 1; the first ID that no kept message has is used. It must return a different
	// ID of 1 to 256 bytes for every sequence number, and may be called again.
	MakeID func(recipient string, at time.Time, sequence int) string

	Post string // ID of the thread's own row of the message
}

// Sent is the result of sending a Draft.
type Sent struct {
	MessageID   string   // of the only row; for a group the multicast ID
	MulticastID string   // "" unless the recipient is a group
	MessageIDs  []string // one per recipient, in the order of Recipients
	Recipients  []string // the agents that receive the message
	Status      Status   // Pending
	CreatedAt   string
	NotBefore   string `json:",omitempty"` // earliest time of delivery; "" is at once
	Held        bool   // kept for an agent that has not been added yet
	Origin      string `json:",omitempty"` // the draft's
	// Note for the sender, as the rest of a sentence: for example that the message waits for a device or is part of
	// a long chain.
	Note string `json:",omitempty"`
	// Withheld lists those of Recipients whose messages stay here until the database is trusted.
	Withheld   []string `json:"-"`
	Idempotent bool     // nothing was sent now; this is the result of the first send

	// Fields of an answer.
	Type      string         // its message_type, if it decides a team request and differs from the draft's
	Joined    string         // the thread that it joined, because the message that it answers is in it
	Outside   string         // why it did not join the thread of the message that it answers
	RequestID string         // ID of the team request that it answers or makes
	Presence  PresenceStatus // the sender's presence in a team's session afterwards; "" if unchanged
}

// Asked is a team request, as the agent that was asked sees it.
type Asked struct {
	RequestID string
	Kind      RequestKind
}

// Verdict is an agent's answer to a team request.
type Verdict struct {
	Approve bool

	// The message to the agent that asked, in the form in which a teammate would write it.
	Type    string
	Payload json.RawMessage // compact JSON
	Summary string
}

// RequestKind is the kind of a team request. Source: document 001, "Structured Protocol Messages".
type RequestKind string

// The kinds of requests: that a teammate shuts down, and that a plan is approved.
const (
	Shutdown     RequestKind = "shutdown"
	PlanApproval RequestKind = "plan_approval"
)

// DefaultSession is the session of callers that name no session.
const DefaultSession = "default"

// PresenceStatus is an agent's last reported activity in a session.
type PresenceStatus string

// The presences. A stopped agent takes no part in broadcasts until it joins again.
const (
	Working PresenceStatus = "working"
	Idle    PresenceStatus = "idle"
	Stopped PresenceStatus = "stopped"
)

// The types of the messages with which members of a team ask and answer each other. Source: document 001.
const (
	ShutdownRequest      = string(Shutdown) + "_request"
	ShutdownResponse     = string(Shutdown) + "_response"
	PlanApprovalRequest  = string(PlanApproval) + "_request"
	PlanApprovalResponse = string(PlanApproval) + "_response"
)
