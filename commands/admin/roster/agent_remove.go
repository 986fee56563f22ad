package roster

import (
	"context"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/removal"
	"mailroom/orchestrator/sessions"
	"mailroom/orchestrator/store"
)

// AgentRemoveParams names the agent to remove.
type AgentRemoveParams struct {
	Name       string `json:"name" desc:"name of the agent" check:"agent" arg:"1"`
	Force      bool   `json:"force,omitempty" desc:"turn undelivered and unread messages into dead letters, and notify their senders"`
	DeadLetter bool   `json:"dead_letter,omitempty" desc:"same as force"`
}

// AgentRemoveResult describes what happened to the agent's messages.
type AgentRemoveResult struct {
	Name        string `json:"name"`
	DeadLetters int    `json:"dead_letters"`          // undelivered and unread messages that became dead letters
	SessionPID  int    `json:"session_pid,omitempty"` // of its session, which keeps running
}

var agentRemoveCommand = commands.Define(vocabulary, "agent remove", agentRemove).
	With(commands.Traits{Confirm: "This removes the agent {name}. It can no longer read its messages, and a new agent with this name does not get them."})

func agentRemove(ctx context.Context, env commands.Env, p AgentRemoveParams) (AgentRemoveResult, error) {
	r := AgentRemoveResult{Name: p.Name}
	agent, err := agents.Get(ctx, env.Ledger, p.Name)
	if err != nil {
		return r, err
	}
	run, err := ledger.ReadValue(ctx, env.Ledger, func(c *store.Conn) (*sessions.Run, error) {
		return sessions.LastRun(c,
			agent.Name)
	})
	if err != nil {
		return r, err
	}
	if run != nil && run.State == sessions.Running {
		r.SessionPID = run.PID
	}
	r.DeadLetters, err = removal.Remove(ctx, env.Ledger,
		removal.Request{Name: p.Name, Force: p.Force || p.DeadLetter, By: env.Caller.Name})
	return r, err
}

// Text writes the result, and whether the agent's session keeps running.
func (r AgentRemoveResult) Text(w *terminal.Text) {
	w.Printf("Removed %s.\n", r.Name)
	switch {
	case r.DeadLetters == 1:
		w.Printf("1 message to the agent became a dead letter, and Mailroom notifies the sender.\n")
	case r.DeadLetters > 1:
		w.Printf("%d messages to the agent became dead letters, and Mailroom notifies the senders.\n", r.DeadLetters)
	}
	if r.SessionPID != 0 {
		w.Printf("Its session is still running: process %d.\n", r.SessionPID)
	}
}
