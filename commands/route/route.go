// Package route is the vocabulary of document 004: one command per action on agent_message, and the dispatcher that
// the document itself describes.
package route

import (
	"embed"

	"mailroom/commands"
	"mailroom/orchestrator"
)

//go:embed *.md
var cards embed.FS

var vocabulary = &commands.Vocabulary{Name: "route", Cards: cards, FoldCase: true, TopLevel: true}

// Definitions lists the commands in the order in which they are shown.
func Definitions() []*commands.Definition {
	return []*commands.Definition{
		sendCommand.Definition,
		replyCommand.Definition,
		pollCommand.Definition,
		deliverAllCommand.Definition,
		clearOldCommand.Definition,
		waitCommand.Definition,
		cancelCommand.Definition,
		acknowledgeCommand.Definition,
		routeCommand.Definition,
	}
}

// timestamp returns the present time, for an answer.
func timestamp(env commands.Env) string { return orchestrator.Stamp(env.Ledger.Now()) }
