package inspection

import (
	"cmp"
	"context"
	"fmt"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/overview"
)

// WhyResult explains the state of each message.
type WhyResult struct {
	Reasons []overview.Reason `json:"reasons"`
	LeftOut int               `json:"left_out,omitempty"` // left out because the answer would be too long
	Rest    string            `json:"rest,omitempty"`     // for a model: how to get the rest
}

var whyCommand = commands.Define(vocabulary, "why", why)

func why(ctx context.Context, env commands.Env, p MessageIDParams) (WhyResult, error) {
	reasons, err := overview.Why(ctx, env.Ledger, p.MessageID)
	if !env.Caller.Admin && (err == nil || orchestrator.CodeOf(err) == orchestrator.NotFound) {
		reasons, err = seenBy(env.Caller.Name, reasons, p.MessageID)
	}
	n := env.Most(len(reasons), func(k int) any { return []any{reasons[:k], commands.Room} })
	return WhyResult{Reasons: reasons[:n], LeftOut: len(reasons) - n,
		Rest: env.Rest(n < len(reasons), "call `why` with the ID of one message")}, err
}

// seenBy returns the reasons of the messages that an agent sent or received, or the error not_found if there are
// none.
func seenBy(agent string, reasons []overview.Reason, id string) (own []overview.Reason, err error) {
	for _, r := range reasons {
		if r.Sender == agent || r.Recipient == agent {
			r.LastReport = "" // the program of another agent may have printed it
			own = append(own, r)
		}
	}
	if len(own) == 0 {
		err = messages.NoMessage(id)
	}
	return own, err
}

// Text writes an explanation for each message.
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
			cmp.Or(reason.Recipient, "?"), is, w.Is(string(reason.Status)))
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
			w.Printf("%s\n", w.Paint(terminal.Dim, "output of the transport"))
			w.Body("  ", reason.LastReport)
		}
	}
}
