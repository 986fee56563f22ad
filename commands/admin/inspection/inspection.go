// Package inspection contains the commands that show the current state and the history of messages: status, traffic,
// dead letters, traces, and SQL queries. Only the replay of dead letters changes anything.
package inspection

import (
	"embed"

	"mailroom/commands"
)

//go:embed *.md
var cards embed.FS

var vocabulary = &commands.Vocabulary{Name: "admin", Cards: cards, FoldCase: true, TopLevel: true}

// OfState lists the commands that show the current state, in the order in which they are shown.
func OfState() []*commands.Definition {
	return []*commands.Definition{
		statusCommand.Definition,
		statsCommand.Definition,
		nowCommand.Definition,
		roomCommand.Definition,
	}
}

// OfMessages lists the commands about messages and their history, in the order in which they are shown.
func OfMessages() []*commands.Definition {
	return []*commands.Definition{
		messagesListCommand.Definition,
		deadLettersListCommand.Definition,
		deadLettersGroupsCommand.Definition,
		deadLettersReplayCommand.Definition,
		traceCommand.Definition,
		whyCommand.Definition,
		sqlCommand.Definition,
	}
}
