// Package roster contains the commands that manage agents, their tokens, and their groups.
package roster

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
		agentAddCommand.Definition,
		agentListCommand.Definition,
		agentShowCommand.Definition,
		agentRemoveCommand.Definition,
		agentDisableCommand.Definition,
		agentEnableCommand.Definition,
		agentTokenCommand.Definition,
		inviteCommand.Definition,
		groupSetCommand.Definition,
		groupAddCommand.Definition,
		groupRemoveCommand.Definition,
		groupDeleteCommand.Definition,
		groupListCommand.Definition,
	}
}
