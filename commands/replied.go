package commands

import (
	"fmt"
	"strings"

	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
)

// Replied holds the further keys in the result of a send that answers a message. The zero value adds none.
type Replied struct {
	// thread of the answered message, to which the answer was added
	JoinedThread string `json:"joined_thread,omitempty"`
	// why the answer was not added to the thread, and went only to its recipient
	OutsideThread string `json:"outside_thread,omitempty"`
	RequestID     string `json:"request_id,omitempty"` // the team's request that the message answers
	Presence      string `json:"presence,omitempty"`   // stopped, after an agent has approved its own shutdown
}

// RepliedOf returns the keys for a message that was sent.
func RepliedOf(sent *orchestrator.Sent) Replied {
	return Replied{sent.Joined, sent.Outside, sent.RequestID, string(sent.Presence)}
}

// Text writes the result for people.
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

// NoteOf returns what delays the delivery of a message, for the key note of a result, or "" if nothing does.
func NoteOf(sent *orchestrator.Sent) string {
	switch {
	case len(sent.Withheld) > 0:
		return NoteWithheld(sent.Withheld, len(sent.Recipients))
	case sent.Held && sent.Note == "":
		return "waits until the recipient is added"
	}
	return sent.Note
}

// NoteWithheld returns the note that a database which is not trusted withholds the messages to the recipients in
// names. of is the number of all recipients. It returns "" if names is empty.
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
