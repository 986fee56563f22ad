package orchestrator

import (
	"encoding/json"
	"time"
)

// Bounds of a message. Source: contract, "The table".
const (
	MaxPayload   = 1 << 20 // bytes of JSON
	MaxType      = 64      // bytes
	MaxPriority  = 9
	MaxTTL       = 30 * Day
	MaxNotBefore = 30 * Day // how far ahead a sender may put the delivery
	MaxKey       = 256      // bytes of an idempotency key, a message id, a thread or session id
	MaxText      = 8 << 10  // bytes of summary and context
)

// Draft is a message that is about to be sent. Sender and Recipient are required; the zero value of any other field
// means what its comment says, or nothing.
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
	SessionNamed   bool // the sender named SessionID, instead of just working there: a repeat must name it too
	// deliver no earlier; at most MaxNotBefore ahead, and before the TTL ends. A past time is at once
	NotBefore time.Time
	Delay     time.Duration // the same, as long from the send; at most one of the two
	// tell the sender when nobody has acknowledged it after this long; 1 s to 30 days, 0: never
	AckWithin time.Duration
	// acknowledge the message that ReplyTo names, if the sender got it, together with the send
	Acknowledges bool
	// its own, for one recipient: another message with it is a conflict. "": MakeID, or the engine, makes one
	ID          string
	Origin      string // see Message.Origin
	Wake        Wake   // what it may cost a session; "": its type and priority decide, see WakeRules.WakeOf
	HoldUnknown bool   // keep a message to an unknown name until such an agent is added
	Hops        int    // that it has besides those of an answer; see messages.Inherit
	ChainAt     string // when the first message was sent that led to it; "" where Hops is 0
	Direct      bool   // an answer that does not join the thread of what it answers

	// Verdict reads what the message says to a team's request, which ReplyTo may name; the message then answers it, as
	// a teammate would. An error is for the sender, who is asked and does not say it; no Verdict and no error is a
	// message that answers nothing, and so is every message without the function.
	Verdict func(Asked) (*Verdict, error)

	// Presence is what the sender says that it does in the session SessionID, or else in DefaultSession; it is noted
	// together with the send. "" says nothing. A repeat of an idempotency key notes nothing.
	Presence PresenceStatus

	// MakeID names the message, or each one to a member of a group; nil leaves that to the engine. It is called within
	// the transaction with the time that is stored as CreatedAt, and its sequence is the first, from 1, whose id is
	// free among all messages that are kept. It must have an id of its own for every sequence, of 1 to 256 bytes, and
	// may be called again.
	MakeID func(recipient string, at time.Time, sequence int) string

	Post string // the thread's own row of the message
}

// Sent is the result of sending a Draft.
type Sent struct {
	MessageID   string   // of the only row; for a group the multicast id
	MulticastID string   // "" unless the recipient is a group
	MessageIDs  []string // one per recipient, in the order of Recipients
	Recipients  []string // the agents that get it
	Status      Status   // Pending
	CreatedAt   string
	NotBefore   string `json:",omitempty"` // when it is delivered at the earliest; "" is at once
	Held        bool   // kept for an agent that nobody has added yet
	Origin      string `json:",omitempty"` // the draft's
	// what its sender should know of it, as the rest of a sentence: that it waits for a device, or is part of a long
	// chain
	Note string `json:",omitempty"`
	// those of Recipients whose messages stay here until the database is trusted
	Withheld   []string `json:"-"`
	Idempotent bool     // true: nothing was sent now, this is the first send's answer

	// Of an answer.
	Type      string         // its message_type, if it decides a team's request and has another than the draft
	Joined    string         // the thread in which it stands, since what it answers does
	Outside   string         // why it does not, though what it answers stands in one
	RequestID string         // of a team: the request that it answers, or that it is
	Presence  PresenceStatus // of the sender in a team's session, afterwards; "" if it has not changed
}

// Asked is a team's request, as the agent that was asked sees it.
type Asked struct {
	RequestID string
	Kind      RequestKind
}

// Verdict is what an agent answers to a team's request.
type Verdict struct {
	Approve bool

	// The message that goes to the one who asked: an answer as a teammate would have written it.
	Type    string
	Payload json.RawMessage // compact JSON
	Summary string
}

// RequestKind is what a teammate is asked to approve. Source: document 001, "Structured Protocol Messages".
type RequestKind string

// The kinds of requests: that a teammate shuts down, and that it approves a plan.
const (
	Shutdown     RequestKind = "shutdown"
	PlanApproval RequestKind = "plan_approval"
)

// DefaultSession is the session of callers that name none.
const DefaultSession = "default"

// PresenceStatus is what an agent was last known to do in a session.
type PresenceStatus string

// The presences. A stopped agent takes no part in broadcasts until it joins anew.
const (
	Working PresenceStatus = "working"
	Idle    PresenceStatus = "idle"
	Stopped PresenceStatus = "stopped"
)

// The types of the messages by which members of a team ask and answer each other. Source: document 001.
const (
	ShutdownRequest      = string(Shutdown) + "_request"
	ShutdownResponse     = string(Shutdown) + "_response"
	PlanApprovalRequest  = string(PlanApproval) + "_request"
	PlanApprovalResponse = string(PlanApproval) + "_response"
)
