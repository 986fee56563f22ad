// Package mail is the vocabulary of what every agent needs over its own mail, whatever else it speaks.
package mail

import (
	"embed"

	"mailroom/commands"
)

//go:embed *.md
var cards embed.FS

var vocabulary = &commands.Vocabulary{Name: "mail", Cards: cards}

// Definitions lists the commands in the order in which they are shown.
func Definitions() []*commands.Definition {
	return []*commands.Definition{
		getMessageCommand.Definition,
		listThreadsCommand.Definition,
		readThreadCommand.Definition,
		renameThreadCommand.Definition,
		searchMessagesCommand.Definition,
		releaseCommand.Definition,
	}
}
