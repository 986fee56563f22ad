package coral

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/threads"
	"mailroom/tracing"
)

// directPrefix begins the id of a pseudo-thread. Messages outside all threads are shown in the thread direct:SENDER,
// and a post in direct:NAME goes only to that agent.
const directPrefix = "direct:"

// SendMessageParams describes a post. Source: document 003, "Sending a Message".
type SendMessageParams struct {
	ThreadID string   `json:"threadId,omitempty" desc:"thread to post in, or direct:NAME to message one agent outside any thread; optional if reply_to is given" check:"id"`
	SenderID string   `json:"senderId,omitempty" desc:"agent that posts; may be left out if the caller's credential names it" check:"agent"`
	Content  string   `json:"content" desc:"text, at most 1 MiB including its JSON escapes and the mentions" check:"max=1048576"`
	Mentions []string `json:"mentions,omitempty" desc:"participants to notify, as NAME or @NAME; others are not notified" check:"mention,max=1000"`
	ReplyTo  string   `json:"reply_to,omitempty" desc:"message to answer; its sender also gets the post" check:"id"`
}

// SendMessageResult is the post, in the form in which the document describes a message.
type SendMessageResult struct {
	ID        string   `json:"id"`
	ThreadID  string   `json:"threadId"`
	SenderID  string   `json:"senderId"`
	Content   string   `json:"content"`
	Timestamp int64    `json:"timestamp"` // Unix milliseconds
	Mentions  []string `json:"mentions"`
	Ignored   []string `json:"ignored_mentions,omitempty"` // not participants of the thread, or invalid names

	// Names that the content has as @NAME but that are not mentions: participants, which are not notified, and agents
	// that are not participants.
	Unmentioned     []string `json:"unmentioned,omitempty"`
	NotParticipants []string `json:"not_participants,omitempty"`

	// Fields of an answer.
	ReplyTo string `json:"reply_to,omitempty"`
	// why it is not in the thread of the answered message, and went only to that message's sender
	OutsideThread string `json:"outside_thread,omitempty"`
	RequestID     string `json:"request_id,omitempty"` // the team's request that it answers
	Presence      string `json:"presence,omitempty"`   // stopped, after an agent has approved its own shutdown

	Note string `json:"note,omitempty"` // what delays its delivery

	Recipient commands.Presence `json:"recipient_presence,omitempty"`
}

var sendMessageCommand = commands.Define(vocabulary, "send_message", sendMessage).
	With(commands.Traits{Kind: tracing.Producer}).Knowing("threadId", commands.KnownThreads)

// sendMessage posts a message. The message is durable when sendMessage returns: a kill or power loss afterwards loses
// nothing.
func sendMessage(ctx context.Context, env commands.Env, p SendMessageParams) (SendMessageResult, error) {
	sender, err := commands.ActAs(env.Caller, p.SenderID)
	if err != nil {
		return SendMessageResult{}, err
	}
	mentions := mentioned(p.Mentions)
	if to, direct := strings.CutPrefix(p.ThreadID, directPrefix); direct {
		return sendDirect(ctx, env, sender, to, &p, mentions)
	}
	if p.ThreadID == "" && p.ReplyTo == "" {
		e := orchestrator.Errorf(orchestrator.InvalidParams, "threadId is missing")
		e.Details = map[string]any{"parameter": "threadId"}
		return SendMessageResult{},
			e.WithHint("Give a thread or direct:NAME as `threadId`, or the message to answer as `reply_to`")
	}
	said, err := orchestrator.JSON(p.Content)
	if err != nil {
		return SendMessageResult{}, err
	}
	posted, err := threads.Post(ctx, env.Ledger, threads.PostDraft{
		Session: env.Caller.Session, Thread: p.ThreadID, Sender: sender, Mentions: mentions, Type: messageType,
		Payload: func(mentions []string) (json.RawMessage, error) { return payload(p.Content, mentions) },
		ReplyTo: p.ReplyTo, Verdict: commands.VerdictIn(said),
	})
	if err != nil {
		return SendMessageResult{}, err
	}
	r := SendMessageResult{
		ID: posted.MessageID, ThreadID: posted.Thread, SenderID: sender, Content: p.Content,
		Timestamp: millis(posted.CreatedAt),
		Mentions:  posted.Mentions, Ignored: posted.Ignored, ReplyTo: p.ReplyTo, OutsideThread: posted.Outside,
		RequestID: posted.RequestID, Presence: string(posted.Presence),
		Note:      cmp.Or(commands.NoteWithheld(posted.Withheld, len(posted.Mentions)), posted.Note),
		Recipient: commands.PresenceOf(ctx, env, &orchestrator.Draft{Sender: sender, Type: messageType}, posted.Mentions...),
	}
	if r.ThreadID == "" {
		r.ThreadID = directPrefix + posted.Mentions[0]
	}
	r.pointOut(posted.Parties)
	return r, nil
}

// sendDirect sends a message to one agent, which may use any vocabulary.
func sendDirect(ctx context.Context, env commands.Env, sender, to string, p *SendMessageParams,
	mentions []string) (SendMessageResult, error) {
	to, err := orchestrator.CheckName("agent", to)
	if err != nil {
		return SendMessageResult{}, err
	}
	body, err := payload(p.Content, []string{to})
	if err != nil {
		return SendMessageResult{}, err
	}
	draft := orchestrator.Draft{
		Sender: sender, Recipient: to, Type: messageType, Payload: body, SessionID: env.Caller.Session,
		ReplyTo: p.ReplyTo, Direct: true, Verdict: commands.VerdictIn(body),
	}
	sent, err := messages.Send(ctx, env.Ledger, draft)
	if err != nil {
		return SendMessageResult{}, err
	}
	others := func(name string) bool { return name == to || name == sender }
	r := SendMessageResult{
		ID: sent.MessageID, ThreadID: directPrefix + to, SenderID: sender, Content: p.Content,
		Timestamp: millis(sent.CreatedAt),
		Mentions:  []string{to}, Ignored: slices.DeleteFunc(mentions, others), ReplyTo: p.ReplyTo,
		RequestID: sent.RequestID, Presence: string(sent.Presence), Note: commands.NoteOf(&sent),
		Recipient: commands.PresenceOf(ctx, env, &draft, to),
	}
	r.pointOut(nil)
	return r, nil
}

// payload returns the payload for agent_message. Source: contract.md, "what stands in payload".
func payload(content string, mentions []string) (json.RawMessage, error) {
	body, err := orchestrator.JSON(struct {
		Content  string   `json:"content"`
		Mentions []string `json:"mentions"`
	}{content, mentions})
	if err == nil {
		err = commands.CheckFits("content", body)
	}
	return body, err
}

// ToolText returns a confirmation. Source: document 003, "Sending a Message".
func (r SendMessageResult) ToolText() string {
	return lines("Message sent successfully:", [2]string{"ID", r.ID}, [2]string{"Thread", r.ThreadID},
		[2]string{"Sender", r.SenderID},
		[2]string{"Content", r.Content}, [2]string{"Mentions", listed(r.Mentions)},
		[2]string{"Ignored mentions (not participants in the thread)", listed(r.Ignored)},
		[2]string{"Mentioned only in the content, so not notified (to notify them, add them to mentions)", listed(r.Unmentioned)},
		[2]string{"Named in the content, but not participants", listed(r.NotParticipants)},
		[2]string{"In reply to", r.ReplyTo}, [2]string{"Sent directly, not to the thread", r.OutsideThread},
		[2]string{"Answered request", r.RequestID}, [2]string{"You are now", r.Presence}, [2]string{"Note", r.Note},
		[2]string{"Recipient status", r.Recipient.String()})
}

// Text writes the text of ToolText for people.
func (r SendMessageResult) Text(w *terminal.Text) { w.Block("", "", r.ToolText()) }
