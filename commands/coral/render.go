package coral

import (
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"slices"
	"strings"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/threads"
)

// Thread is a thread with the messages of it that are shown. A Thread with the id direct:SENDER holds messages that
// belong to no thread. Source: document 003, "Waiting for Messages"; further keys follow those of the document.
type Thread struct {
	ID           string  `json:"id" xml:"id,attr"`
	Name         string  `json:"name" xml:"name,attr"`
	Session      string  `json:"session,omitempty" xml:"session,attr,omitempty"` // if it is not the caller's session
	Status       string  `json:"status" xml:"status"`
	Summary      text    `json:"summary,omitempty" xml:"summary,omitempty"`
	Participants []Party `json:"participants" xml:"participants>participant"`
	// participants left out because the answer would be too long for the model
	LeftOut  int       `json:"participants_left_out,omitempty" xml:"participants_left_out,omitempty"`
	Messages []Message `json:"messages" xml:"messages>message"`
}

// shorten removes most of the parts of a thread that could be long.
func (t *Thread) shorten() {
	t.LeftOut = max(0, len(t.Participants)-mostParties)
	t.Participants = t.Participants[:len(t.Participants)-t.LeftOut]
	t.Summary = text(commands.FirstUnits(string(t.Summary), commands.MaxExcerpt))
}

// mostParties is how many participants a shortened thread keeps.
const mostParties = 6

// Party is an agent as other agents see it.
type Party struct {
	ID   string `json:"id" xml:"id,attr"`
	Name string `json:"name" xml:"name,attr"`
}

// Message is a message of any vocabulary in the form of this one. Fields that only other vocabularies have follow
// Content.
type Message struct {
	ID        string  `json:"id" xml:"id,attr"`               // of the post: the same for all agents that it mentions
	Timestamp int64   `json:"timestamp" xml:"timestamp,attr"` // Unix milliseconds
	Sender    Party   `json:"sender" xml:"sender"`
	Mentions  []Party `json:"mentions" xml:"mentions>mention"`
	Content   text    `json:"content" xml:"content"`

	// Fields of the reader's own copy, if there is one.
	MessageID string          `json:"message_id,omitempty" xml:"message_id,omitempty"`
	Type      string          `json:"message_type,omitempty" xml:"message_type,omitempty"`
	Priority  string          `json:"priority,omitempty" xml:"priority,omitempty"` // unless it is normal
	Action    string          `json:"action,omitempty" xml:"action,omitempty"`
	ReplyTo   string          `json:"reply_to,omitempty" xml:"reply_to,omitempty"`
	ThreadID  string          `json:"thread_id,omitempty" xml:"thread_id,omitempty"` // of another vocabulary
	Session   string          `json:"session,omitempty" xml:"session,omitempty"`     // if not the caller's
	Group     string          `json:"multicast_target,omitempty" xml:"multicast_target,omitempty"`
	ExpiresAt string          `json:"expires_at,omitempty" xml:"expires_at,omitempty"`
	Summary   text            `json:"summary,omitempty" xml:"summary,omitempty"`
	Context   text            `json:"context,omitempty" xml:"context,omitempty"`
	Data      json.RawMessage `json:"data,omitempty" xml:"-"`
	DataText  text            `json:"-" xml:"data,omitempty"` // Data, unless Content has the same text
}

// text is a text that keeps its line ends in XML, because models read it. encoding/xml would escape them.
type text string

// MarshalXML implements xml.Marshaler.
func (t text) MarshalXML(e *xml.Encoder, start xml.StartElement) error {
	for _, token := range []xml.Token{start, xml.CharData(t), start.End()} {
		if err := e.EncodeToken(token); err != nil {
			return err
		}
	}
	return nil
}

// render groups messages by thread, in the order in which they were taken.
func render(ctx context.Context, env commands.Env, reader string, ms []orchestrator.Message) ([]Thread, error) {
	var wanted []string
	for i := range ms {
		if id := ms[i].ThreadID; id != "" && !slices.Contains(wanted, id) {
			wanted = append(wanted, id)
		}
	}
	threads, err := threads.List(ctx, env.Ledger, wanted)
	if err != nil {
		return nil, err
	}
	presences, err := agents.Presences(ctx, env.Ledger, env.Caller.Session)
	if err != nil {
		return nil, err
	}
	v := view{reader: reader, session: env.Caller.Session, names: map[string]string{}}
	for _, p := range presences {
		if p.DisplayName != "" {
			v.names[p.Agent] = p.DisplayName
		}
	}
	var list []Thread
	places := map[string]int{}
	for i := range ms {
		m := &ms[i]
		th, real := threads[m.ThreadID]
		real = real && belongs(&th, m, reader)
		id := directPrefix + m.Sender
		if real {
			id = th.ID
		}
		at, seen := places[id]
		if !seen {
			at = len(list)
			places[id] = at
			if real {
				list = append(list, v.thread(&th))
			} else {
				list = append(list, v.direct(m.Sender))
			}
		}
		list[at].Messages = append(list[at].Messages, v.message(m, &list[at], real))
	}
	return list, nil
}

// belongs reports whether a message is shown in the thread that it names. Any vocabulary can name any thread, but a
// thread contains only what was sent to the thread itself, and what another participant or the system sent to a
// participant.
func belongs(th *threads.Thread, m *orchestrator.Message, reader string) bool {
	if m.Group == orchestrator.ThreadPrefix+th.ID {
		return true
	}
	return th.Has(reader) && (th.Has(m.Sender) || m.Sender == orchestrator.SystemSender)
}

// view is the reader of messages, and the names to show.
type view struct {
	reader, session string
	names           map[string]string // display names of agents in the session
}

func (v *view) thread(th *threads.Thread) Thread {
	t := Thread{ID: th.ID, Name: th.Name, Status: string(th.Status), Summary: text(th.Summary), Participants: []Party{}}
	if th.Session != v.session {
		t.Session = th.Session
	}
	for _, p := range th.Participants {
		t.Participants = append(t.Participants, Party{p.Agent, p.DisplayName})
	}
	return t
}

// direct returns a Thread for what an agent sent outside all threads.
func (v *view) direct(sender string) Thread {
	return Thread{
		ID: directPrefix + sender, Name: "Direct messages", Status: string(threads.Open),
		Participants: []Party{v.party(sender, nil), v.party(v.reader, nil)},
	}
}

// party returns an agent with its name in a thread or, if it has none there, in the session.
func (v *view) party(id string, in *Thread) Party {
	if in != nil {
		for _, p := range in.Participants {
			if p.ID == id {
				return p
			}
		}
	}
	if name := v.names[id]; name != "" {
		return Party{id, name}
	}
	return Party{id, id}
}

// message renders a message in its thread. real is false if the Thread only stands for direct messages.
func (v *view) message(m *orchestrator.Message, in *Thread, real bool) Message {
	content := commands.ContentOf(m)
	sentAt := cmp.Or(m.CreatedAt, m.DeliveredAt) // a message inserted into the inbox by hand was not sent
	shown := Message{
		ID: m.ID, Timestamp: millis(sentAt), Sender: v.party(m.Sender, in), Mentions: []Party{},
		Content: text(content.Text),
		Type:    m.Type, Action: m.Action, ReplyTo: m.ReplyTo, Group: m.Group, ExpiresAt: m.TTLEnd(),
		Summary: text(m.Summary), Context: text(m.Context), Data: content.Data,
	}
	if string(content.Data) != content.Text {
		shown.DataText = text(content.Data)
	}
	if word := orchestrator.PriorityWord(m.Priority); word != "normal" {
		shown.Priority = word
	}
	if m.SessionID != v.session {
		shown.Session = m.SessionID
	}
	if !real {
		shown.ThreadID = m.ThreadID
	}
	if strings.HasPrefix(m.Group, orchestrator.ThreadPrefix) {
		shown.ID, shown.MessageID, shown.Group = m.MulticastID, m.ID, ""
		if m.ID == m.MulticastID { // the row of the thread itself, which nobody acknowledges
			shown.MessageID = ""
		}
	}
	mentions := content.Mentions
	if mentions == nil {
		mentions = []string{v.reader}
	}
	for _, name := range mentions {
		shown.Mentions = append(shown.Mentions, v.party(name, in))
	}
	return shown
}

// write writes a thread for people.
func (t *Thread) write(w *terminal.Text) {
	w.Printf("%s  %s (%s)\n", w.Paint(terminal.Bold, t.ID), t.Name, t.Status)
	for i := range t.Messages {
		m := &t.Messages[i]
		from := m.Sender.ID
		if m.Sender.Name != from {
			from = m.Sender.Name + " (" + from + ")"
		}
		w.Printf("  %s from %s  %s\n", m.Type, from, w.Paint(terminal.Dim, m.ID))
		w.Body("    ", string(m.Content))
		if m.DataText != "" {
			w.Body("    ", string(m.DataText))
		}
	}
}
