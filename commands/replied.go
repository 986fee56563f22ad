package commands

import (
	"fmt"
	"strings"

	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
)

// Replied are the keys that the result of a send has besides if the message answers another; the zero value adds none.
type Replied struct {
	// the thread of the message answered, in which the answer now stands
	JoinedThread string `json:"joined_thread,omitempty"`
	// why it does not stand there, and went to its recipient alone
	OutsideThread string `json:"outside_thread,omitempty"`
	RequestID     string `json:"request_id,omitempty"` // the team's request that it answered
	Presence      string `json:"presence,omitempty"`   // stopped, after one has approved one's own shutdown
}

// RepliedOf says what came of an answer.
func RepliedOf(sent *orchestrator.Sent) Replied {
	return Replied{sent.Joined, sent.Outside, sent.RequestID, string(sent.Presence)}
}

// Text says it to people.
func (r Replied) Text(w *terminal.Text) {
	if r.JoinedThread != "" {
		w.Printf("The message is in the thread %s.\n", r.JoinedThread)
	}
	if r.OutsideThread != "" {
		w.Printf("Sent only to the recipient, not to the thread: %s.\n", r.OutsideThread)
	}
	if r.RequestID != "" {
		w.Printf("The message answers the request %s.\n", r.RequestID)
	}
	if r.Presence == string(orchestrator.Stopped) {
		w.Printf("%s\n", w.Paint(terminal.Yellow, "You approved your own shutdown. End your process."))
	}
}

// NoteOf says what keeps a message from being delivered soon, for the key note of a result; "" is nothing.
func NoteOf(sent *orchestrator.Sent) string {
	switch {
	case len(sent.Withheld) > 0:
		return NoteWithheld(sent.Withheld, len(sent.Recipients))
	case sent.Held && sent.Note == "":
		return "waits until the recipient is added"
	}
	return sent.Note
}

// NoteWithheld says, as NoteOf does, that a database which is not trusted keeps the messages to some of so many
// recipients; "" when it keeps none.
func NoteWithheld(names []string, of int) string {
	whose, waits := "", "waits"
	switch n := len(names); {
	case n == 0:
		return ""
	case n == of:
	case n == 1:
		whose = names[0]
	case n == 2:
		whose = names[0] + " and " + names[1]
	case n <= 5:
		whose = strings.Join(names[:n-1], ", ") + ", and " + names[n-1]
	default:
		whose = fmt.Sprintf("%d of the %d recipients", n, of)
	}
	if whose != "" {
		waits = "is not delivered to " + whose
	}
	return waits + " " + ledger.UntilTrusted + ": " + ledger.NotTrusted
}
