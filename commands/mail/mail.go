// Package mail is the vocabulary that every agent needs for its own messages, whatever other vocabulary it uses.
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

// ownerOf returns the agent whose messages a command is about: the agent that the parameters name, or the caller. An
// unknown name is the error unknown_recipient, because it would otherwise look like an agent without messages.
func ownerOf(ctx context.Context, env commands.Env, named string) (string, error) {
	agent, err := commands.ActAs(env.Caller, named)
	if err != nil {
		return "", err
	}
	return agent, agents.MustKnow(ctx, env.Ledger, agent)
}

// ownerOrAll returns the agent whose messages a command is about, by the rules of ownerOf. For an administrator who
// names no agent, it returns "", which means the messages of all agents.
func ownerOrAll(ctx context.Context, env commands.Env, named string) (string, error) {
	if named == "" && env.Caller.Name == "" {
		return "", nil
	}
	return ownerOf(ctx, env, named)
}
