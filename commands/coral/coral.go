// Package coral is the vocabulary of document 003: agents talk in threads, mention each other, and wait to be
// mentioned.
package coral

import (
	"embed"
	"strings"
	"time"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/threads"
	"mailroom/tracing"
)

//go:embed *.md
var cards embed.FS

var vocabulary = &commands.Vocabulary{Name: "coral", Cards: cards, Document: true, Prefix: "coral_"}

// Definitions lists the commands in the order in which an agent needs them.
func Definitions() []*commands.Definition {
	return []*commands.Definition{
		registerAgentCommand.Definition,
		listAgentsCommand.Definition,
		createThreadCommand.Definition,
		addParticipantCommand.Definition,
		removeParticipantCommand.Definition,
		closeThreadCommand.Definition,
		sendMessageCommand.Definition,
		waitForMentionsCommand.Definition,
	}
}

// messageType is the message_type of what is sent here; the document has none.
const messageType = "message"

// millis turns a stored time into Unix milliseconds, as the document has them; 0 for one that cannot be read.
func millis(stored string) int64 {
	at, err := time.Parse(tracing.Layout, stored)
	if err != nil {
		return 0
	}
	return at.UnixMilli()
}

// change says which thread a command changes, and who asks: the administrator may change any.
func change(env commands.Env, thread string) threads.Change {
	return threads.Change{Session: env.Caller.Session, Thread: thread, By: env.Caller.Name}
}

// lines writes a confirmation in the document's form: what happened, then a line for each value that is not empty.
// Further lines of a value are indented, so that they pass for no other.
func lines(what string, pairs ...[2]string) string {
	var b strings.Builder
	b.WriteString(what)
	for _, pair := range pairs {
		if pair[1] != "" {
			b.WriteString("\n" + pair[0] + ": " + hanging(pair[1]))
		}
	}
	return b.String()
}

// hanging makes a text safe to stand behind something else in a line.
func hanging(text string) string { return strings.ReplaceAll(terminal.Visible(text), "\n", "\n  ") }

// listed writes names in one line.
func listed(names []string) string { return strings.Join(names, ", ") }
