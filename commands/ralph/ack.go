package ralph

import (
	"context"
	"errors"
	"strings"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/bridge/letters"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
)

// AckParams names the message that was processed.
type AckParams struct {
	ID    string `json:"id" desc:"message that was processed" check:"id" arg:"1"`
	Agent string `json:"agent,omitempty" desc:"agent that processed it; may be left out" check:"agent"`
}

// AckResult holds when the message was first acknowledged, and whether its file was removed.
type AckResult struct {
	ID             string `json:"id"`
	Agent          string `json:"agent"`
	AcknowledgedAt string `json:"acknowledged_at"`
	FileRemoved    bool   `json:"file_removed"` // false also if the agent has no folder, or the file did not exist
}

var ackCommand = commands.Define(vocabulary, "ack", ack)

// ack acknowledges a message and removes its file. It is idempotent: a repeated call returns the time of the first,
// and removes the file if it still exists.
func ack(ctx context.Context, env commands.Env, p AckParams) (AckResult, error) {
	by := env.Caller.Name
	if p.Agent != "" {
		var err error
		if by, err = commands.ActAs(env.Caller, p.Agent); err != nil {
			return AckResult{}, err
		}
	}
	m, err := messages.Acknowledge(ctx, env.Ledger, p.ID, by)
	if refused, ok := errors.AsType[*orchestrator.Error](err); ok && refused.Code == orchestrator.Conflict &&
		(m.Status == orchestrator.Pending || m.Status == orchestrator.Retry) {
		refused.WithHint("If the file is already in the inbox folder, Mailroom is still recording its delivery. Try again shortly")
	}
	if err != nil {
		return AckResult{}, err
	}
	r := AckResult{ID: m.ID, Agent: m.Recipient, AcknowledgedAt: m.AcknowledgedAt}
	agent, err := agents.Get(ctx, env.Ledger, m.Recipient)
	if orchestrator.CodeOf(err) == orchestrator.NotFound {
		return r, nil // removed since
	}
	if err != nil {
		return r, err
	}
	if root, ok := folderOf(&agent); ok && !agent.Withheld() && !agent.Elsewhere() {
		r.FileRemoved, err = removeFile(root, &m, letters.MarkOf(&m, agent.Deliver))
	}
	return r, err
}

// folderOf returns the root folder below which an agent's messages are files. It returns false if they are not files.
func folderOf(agent *ledger.Agent) (root string, ok bool) {
	return strings.CutPrefix(agent.Deliver, "dir:")
}

// Text writes the result for people.
func (r AckResult) Text(w *terminal.Text) {
	if r.FileRemoved {
		w.Printf("Acknowledged %s and removed its file.\n", w.Paint(terminal.Bold, r.ID))
		return
	}
	w.Printf("Acknowledged %s.\n", w.Paint(terminal.Bold, r.ID))
}
