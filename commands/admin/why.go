package admin

import (
	"cmp"
	"context"
	"fmt"

	"mailroom/commands"
	"mailroom/orchestrator"
)

// WhyResult explains each message.
type WhyResult struct {
	Reasons []orchestrator.Reason `json:"reasons"`
}

var whyCommand = commands.Define(vocabulary, "why", why)

func why(ctx context.Context, env commands.Env, p MessageIDParams) (WhyResult, error) {
	reasons, err := env.Router.Why(ctx, p.MessageID)
	return WhyResult{Reasons: reasons}, err
}

// Text explains in one screen.
func (r WhyResult) Text(w *commands.Text) {
	for i, reason := range r.Reasons {
		if i > 0 {
			w.Printf("\n")
		}
		is := "is"
		if reason.Gone {
			is = "was"
		}
		w.Printf("%s from %s to %s %s %s.\n", w.Paint(commands.Bold, reason.MessageID), cmp.Or(reason.Sender, "?"), cmp.Or(reason.Recipient, "?"), is, w.Status(string(reason.Status)))
		overdue := ""
		if reason.Overdue {
			overdue = "yes"
		}
		w.Fields(
			[2]string{"where", reason.Where},
			[2]string{"why", reason.Rule},
			[2]string{"next attempt", reason.NextAttemptAt},
			[2]string{"what helps", reason.Fix},
			[2]string{"last error", reason.LastError},
			[2]string{"attempts", fmt.Sprint(reason.Attempts)},
			[2]string{"overdue", overdue},
		)
		if reason.LastReport != "" {
			w.Printf("%s\n", w.Paint(commands.Dim, "its transport reported"))
			w.Body("  ", reason.LastReport)
		}
		for _, receipt := range reason.Receipts {
			w.Printf("%s %s\n", w.Paint(commands.Dim, fmt.Sprintf("%-12s", receipt.What)), receipt.At)
		}
	}
}
