package inspection

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/overview"
)

// WhyResult explains each message.
type WhyResult struct {
	Reasons []overview.Reason `json:"reasons"`
	LeftOut int               `json:"left_out,omitempty"` // since the answer would have been too long for the model
	Rest    string            `json:"rest,omitempty"`     // for a model: how to see those
}

var whyCommand = commands.Define(vocabulary, "why", why)

func why(ctx context.Context, env commands.Env, p MessageIDParams) (WhyResult, error) {
	reasons, err := overview.Why(ctx, env.Ledger, p.MessageID)
	if own := env.Caller.Name; err == nil && !env.Caller.Admin {
		reasons = slices.DeleteFunc(reasons, func(r overview.Reason) bool { return r.Sender != own && r.Recipient != own })
		for i := range reasons {
			reasons[i].LastReport = "" // another's program may have printed it
		}
		if len(reasons) == 0 {
			err = messages.NoMessage(p.MessageID)
		}
	}
	n := env.Most(len(reasons), func(k int) any { return []any{reasons[:k], commands.Room} })
	return WhyResult{Reasons: reasons[:n], LeftOut: len(reasons) - n,
		Rest: env.Rest(n < len(reasons), "call why with the ID of one message")}, err
}

// Text explains in one screen.
func (r WhyResult) Text(w *terminal.Text) {
	for i, reason := range r.Reasons {
		if i > 0 {
			w.Printf("\n")
		}
		is := "is"
		if reason.Gone {
			is = "was"
		}
		w.Printf("%s from %s to %s %s %s.\n", w.Paint(terminal.Bold, reason.MessageID), cmp.Or(reason.Sender, "?"),
			cmp.Or(reason.Recipient, "?"), is, w.Status(string(reason.Status)))
		overdue := ""
		if reason.Overdue {
			overdue = "yes"
		}
		fields := [][2]string{
			{"where", reason.Where},
			{"why", reason.Rule},
			{"next attempt", reason.NextAttemptAt},
			{"what helps", reason.Fix},
			{"last error", reason.LastError},
			{"attempts", fmt.Sprint(reason.Attempts)},
			{"overdue", overdue},
		}
		for _, receipt := range reason.Receipts {
			fields = append(fields, [2]string{receipt.What, receipt.At})
		}
		w.Fields(fields...)
		if reason.LastReport != "" {
			w.Printf("%s\n", w.Paint(terminal.Dim, "its transport reported"))
			w.Body("  ", reason.LastReport)
		}
	}
}
