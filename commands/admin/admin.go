// Package admin is the vocabulary for those who run Mailroom: agents and groups, settings and schedules, and every way
// of asking what happened.
package admin

import (
	"embed"

	"mailroom/commands"
)

//go:embed *.md
var cards embed.FS

var vocabulary = &commands.Vocabulary{Name: "admin", Cards: cards, FoldCase: true, TopLevel: true}

// Definitions lists the commands in the order in which they are shown.
func Definitions() []*commands.Definition {
	return []*commands.Definition{
		commandsCommand.Definition,
		initCommand.Definition,
	}
}
