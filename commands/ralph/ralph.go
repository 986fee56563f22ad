// Package ralph is the vocabulary of document 002: typed messages between the agents of an event-driven crew, which lie
// as files in inbox folders. What the form of a message is stands in orchestrator/letter.
package ralph

import (
	"embed"

	"mailroom/commands"
)

//go:embed *.md
var cards embed.FS

var vocabulary = &commands.Vocabulary{Name: "ralph", Cards: cards, Document: true, Prefix: "ralph_"}

// Definitions lists the commands in the order of a message's life.
func Definitions() []*commands.Definition {
	return []*commands.Definition{
		sendCommand.Definition,
		inboxCommand.Definition,
		ackCommand.Definition,
		watchCommand.Definition,
	}
}
