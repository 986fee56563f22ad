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

// AckParams name the message that was processed.
type AckParams struct {
	ID    string `json:"id" desc:"message that was processed" check:"id" arg:"1"`
	Agent string `json:"agent,omitempty" desc:"agent that processed it; may be left out" check:"agent"`
}

// AckResult tells when it was acknowledged first, and what became of its file.
type AckResult struct {
	ID             string `json:"id"`
	Agent          string `json:"agent"`
	AcknowledgedAt string `json:"acknowledged_at"`
	FileRemoved    bool   `json:"file_removed"` // false also when the agent has no folder, or the file was gone
}

var ackCommand = commands.Define(vocabulary, "ack", ack)

// ack is idempotent: a repeat answers with the first time, and removes a file that is still there.
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

// folderOf is the root below which an agent's messages lie as files, if they do.
func folderOf(agent *ledger.Agent) (root string, ok bool) {
	return strings.CutPrefix(agent.Deliver, "dir:")
}

// Text says it in a sentence.
func (r AckResult) Text(w *terminal.Text) {
	if r.FileRemoved {
		w.Printf("Acknowledged %s and removed its file.\n", w.Paint(terminal.Bold, r.ID))
		return
	}
	w.Printf("Acknowledged %s.\n", w.Paint(terminal.Bold, r.ID))
}
