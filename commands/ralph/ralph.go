// Package ralph is the vocabulary of document 002: typed messages between the agents of an event-driven crew, stored
// as files in inbox folders. The form of a message is defined in package orchestrator/letter.
package ralph

import (
	"embed"

	"mailroom/commands"
)

//go:embed *.md
var cards embed.FS

var vocabulary = &commands.Vocabulary{Name: "ralph", Cards: cards, Document: true, Prefix: "ralph_"}

// Definitions lists the commands in the order in which a message passes through them.
func Definitions() []*commands.Definition {
	return []*commands.Definition{
		sendCommand.Definition,
		inboxCommand.Definition,
		ackCommand.Definition,
		watchCommand.Definition,
	}
}
