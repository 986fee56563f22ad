package mail

import (
	"cmp"
	"context"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
)

// ReleaseParams selects the messages to make unread again.
type ReleaseParams struct {
	MessageID string `json:"message_id,omitempty" desc:"message to make unread again" check:"id" arg:"1"`
	All       bool   `json:"all,omitempty" desc:"all read messages, instead of one"`
	Agent     string `json:"agent,omitempty" desc:"agent that read the messages; may be left out if the caller's credential names it" check:"agent"`
}

// ReleaseResult lists the messages that are unread again.
type ReleaseResult struct {
	Agent    string   `json:"agent"`
	Count    int      `json:"count"`
	Released []string `json:"released"` // at most the first maxNamed
}

// maxNamed is the largest number of messages that an answer names.
const maxNamed = 100

var releaseCommand = commands.Define(vocabulary, "release", release).With(commands.Traits{BesideAny: true})

// release makes messages unread again. It is idempotent: messages that are already unread are skipped, and not
// counted.
func release(ctx context.Context, env commands.Env, p ReleaseParams) (ReleaseResult, error) {
	if p.All == (p.MessageID != "") {
		return ReleaseResult{}, orchestrator.Errorf(orchestrator.InvalidParams, "exactly one of `message_id` and `all` is required").
			WithHint("Give either `message_id` or `all`, not both")
	}
	owner := ownerOrAll
	if p.All {
		owner = ownerOf
	}
	agent, err := owner(ctx, env, p.Agent)
	if err != nil {
		return ReleaseResult{}, err
	}
	by := env.Caller.Name
	if p.All {
		released, err := messages.ReleaseAll(ctx, env.Ledger, agent, by)
		return ReleaseResult{Agent: agent, Count: len(released), Released: released[:min(len(released), maxNamed)]}, err
	}
	// An administrator may name the reader.
	m, released, err := messages.Release(ctx, env.Ledger, p.MessageID, cmp.Or(by, agent))
	if err != nil {
		return ReleaseResult{}, err
	}
	r := ReleaseResult{Agent: m.Recipient}
	if released {
		r.Count, r.Released = 1, []string{m.ID}
	}
	return r, nil
}

// Text writes the result for people.
func (r ReleaseResult) Text(w *terminal.Text) {
	switch r.Count {
	case 0:
		w.Printf("Nothing changed for %s: no matching message is marked as read.\n", r.Agent)
	case 1:
		w.Printf("%s is unread again for %s.\n", w.Paint(terminal.Bold, r.Released[0]), r.Agent)
	default:
		w.Printf("%d messages are unread again for %s.\n", r.Count, r.Agent)
	}
}
