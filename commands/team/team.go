// Package team is the vocabulary of document 001: messages between the agents of one team, who address each other by
// name, and the protocols by which they ask each other to shut down or to approve a plan. The effects of the
// protocols on rows are in package orchestrator/teams.
package team

import (
	"embed"

	"mailroom/commands"
	"mailroom/orchestrator"
)

//go:embed *.md
var cards embed.FS

var vocabulary = &commands.Vocabulary{Name: "team", Cards: cards, Document: true}

// Definitions lists the commands in the order in which they are shown.
func Definitions() []*commands.Definition {
	return []*commands.Definition{
		sendMessageCommand.Definition,
		messagesCommand.Definition,
		membersCommand.Definition,
		idleCommand.Definition,
	}
}

// member returns the caller: an agent or, in a shell without a name, the operator, to whom teammates can write.
func member(env commands.Env) (string, error) {
	if env.Caller.Name == "" && env.Caller.Shell {
		return orchestrator.Operator, nil
	}
	return teammate(env)
}

// teammate returns the caller of a command that only an agent can run, such as the command that ends its turn.
func teammate(env commands.Env) (string, error) {
	if env.Caller.Name == "" {
		return "", orchestrator.Errorf(orchestrator.InvalidParams, "no teammate is named").
			WithHint("Pass --as NAME, or set MAILROOM_AGENT")
	}
	return env.Caller.Name, nil
}
