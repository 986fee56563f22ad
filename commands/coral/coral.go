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

// messageType is the message_type of messages sent with this vocabulary. The document defines none.
const messageType = "message"

// millis converts a stored time to Unix milliseconds, as in the document. It returns 0 for an invalid time.
func millis(stored string) int64 {
	at, err := time.Parse(tracing.Layout, stored)
	if err != nil {
		return 0
	}
	return at.UnixMilli()
}

// change returns a change to a thread by the caller. An administrator may change any thread.
func change(env commands.Env, thread string) threads.Change {
	return threads.Change{Session: env.Caller.Session, Thread: thread, By: env.Caller.Name}
}

// lines returns a confirmation in the form of the document: what happened, then a line for each value that is not
// empty. Further lines of a value are indented, so that they cannot look like another value.
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

// hanging returns a text in a form that is safe after other text in a line.
func hanging(text string) string { return strings.ReplaceAll(terminal.Visible(text), "\n", "\n  ") }

// listed joins names in one line.
func listed(names []string) string { return strings.Join(names, ", ") }
