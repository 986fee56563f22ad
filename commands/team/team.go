// Package team is the vocabulary of document 001: messages between the agents of one team, who know each other by name,
// and the protocols by which they ask each other to shut down or to approve a plan. What the protocols do to rows
// stands in orchestrator/teams.
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

// member returns who asks: an agent or, in a shell without a name, the operator, to whom teammates can write.
func member(env commands.Env) (string, error) {
	if env.Caller.Name == "" && env.Caller.Shell {
		return orchestrator.Operator, nil
	}
	return teammate(env)
}

// teammate returns who asks for what only an agent can do, such as ending its turn.
func teammate(env commands.Env) (string, error) {
	if env.Caller.Name == "" {
		return "", orchestrator.Errorf(orchestrator.InvalidParams, "no teammate is named").
			WithHint("Pass --as NAME, or set MAILROOM_AGENT")
	}
	return env.Caller.Name, nil
}
