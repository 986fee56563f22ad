// Package relay is the first half of document 000: program-to-program messages with groups, threads and idempotency,
// under the document's own names.
package relay

import (
	"embed"

	"mailroom/commands"
)

//go:embed *.md
var cards embed.FS

var vocabulary = &commands.Vocabulary{Name: "relay", Cards: cards, Document: true}

// Definitions lists the commands in the document's order.
func Definitions() []*commands.Definition {
	return []*commands.Definition{
		sendMessageCommand.Definition,
		getMessagesCommand.Definition,
		getSentMessagesCommand.Definition,
		listGroupsCommand.Definition,
		getDeadLettersCommand.Definition,
		queryMessageHistoryCommand.Definition,
	}
}
