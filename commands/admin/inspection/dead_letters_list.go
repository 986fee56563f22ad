package inspection

import (
	"context"
	"fmt"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
)

// DeadLettersListParams selects dead letters.
type DeadLettersListParams struct {
	Recipient string `json:"recipient,omitempty" desc:"only dead letters to this recipient" check:"max=1024"`
	Sender    string `json:"sender,omitempty" desc:"only dead letters from this sender" check:"agent"`
	Error     string `json:"error,omitempty" desc:"only dead letters with a similar error" check:"max=65536"`
	Continue  string `json:"continue,omitempty" desc:"continue value of the previous answer" check:"max=64"`
	Limit     int    `json:"limit,omitempty" desc:"maximum number of dead letters, newest first" check:"min=1,max=1000" default:"50"`
}

// DeadLettersListResult lists dead letters, newest first.
type DeadLettersListResult struct {
	messages.DeadLetterList        // Total counts the dead letters from the start of this answer on
	Continue                string `json:"continue,omitempty"` // parameter for the next call, if there are more
}

var deadLettersListCommand = commands.Define(vocabulary, "dead_letters list", deadLettersList)

func deadLettersList(ctx context.Context, env commands.Env, p DeadLettersListParams) (DeadLettersListResult, error) {
	before, err := commands.Place(p.Continue)
	if err != nil {
		return DeadLettersListResult{}, err
	}
	list, err := messages.DeadLetters(ctx, env.Ledger,
		messages.DeadLetterFilter{Recipient: p.Recipient, Sender: p.Sender, Error: p.Error, Limit: p.Limit,
			Before: before})
	answer := func(ms []orchestrator.Message) any {
		r := DeadLettersListResult{DeadLetterList: list}
		r.DeadLetters = ms
		if n := len(ms); n > 0 && int64(n) < list.Total {
			r.Continue = fmt.Sprint(ms[n-1].Seq)
		}
		return r
	}
	return answer(env.Shown(list.DeadLetters, answer)).(DeadLettersListResult), err
}

// Text writes a table.
func (r DeadLettersListResult) Text(w *terminal.Text) {
	if r.Total == 0 {
		w.Printf("No dead letters.\n")
	} else {
		terminal.TableOf(w, []string{"MESSAGE", "FROM", "TO", "TYPE", "STATUS", "SINCE", "WHY"}, r.DeadLetters,
			func(m *orchestrator.Message) []string {
				return []string{m.ID, m.Sender, m.Recipient, m.Type, string(m.Status), w.When(m.EndedAt), m.Error}
			})
	}
	if int64(len(r.DeadLetters)) < r.Total {
		w.Printf("Shown: %d of %d. To show more at a time, increase --limit. To show the next dead letters, add --continue %s.\n", len(r.DeadLetters), r.Total, r.Continue)
	}
	onlyNewest(w, r.Cut)
}

// onlyNewest writes a note if cut is true, because not all dead letters were searched.
func onlyNewest(w *terminal.Text, cut bool) {
	if cut {
		w.Printf("Only the newest 20,000 dead letters were searched.\n")
	}
}
