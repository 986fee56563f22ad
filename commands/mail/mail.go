// Package mail is the vocabulary of what every agent needs over its own mail, whatever else it speaks.
package mail

import (
	"context"
	"embed"

	"mailroom/commands"
	"mailroom/orchestrator/agents"
)

//go:embed *.md
var cards embed.FS

var vocabulary = &commands.Vocabulary{Name: "mail", Cards: cards}

// Definitions lists the commands in the order in which they are shown.
func Definitions() []*commands.Definition {
	return []*commands.Definition{
		listUnreadCommand.Definition,
		getMessageCommand.Definition,
		listThreadsCommand.Definition,
		readThreadCommand.Definition,
		renameThreadCommand.Definition,
		searchMessagesCommand.Definition,
		releaseCommand.Definition,
	}
}

// ownerOf returns the agent whose mail a command is about: the one that the parameters name, or the caller. Error:
// unknown_recipient for a name that no agent has, who would else look like one without mail.
func ownerOf(ctx context.Context, env commands.Env, named string) (string, error) {
	agent, err := commands.ActAs(env.Caller, named)
	if err != nil {
		return "", err
	}
	return agent, agents.MustKnow(ctx, env.Ledger, agent)
}

// ownerOrAll does the same for a command in which an administrator who names nobody sees the mail of all, and then
// returns "".
func ownerOrAll(ctx context.Context, env commands.Env, named string) (string, error) {
	if named == "" && env.Caller.Name == "" {
		return "", nil
	}
	return ownerOf(ctx, env, named)
}
