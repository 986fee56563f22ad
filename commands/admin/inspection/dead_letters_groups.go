package inspection

import (
	"context"
	"fmt"
	"strings"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/messages"
)

// DeadLettersGroupsParams selects dead letters and bounds the answer.
type DeadLettersGroupsParams struct {
	Recipient string `json:"recipient,omitempty" desc:"only dead letters to this recipient" check:"max=1024"`
	Error     string `json:"error,omitempty" desc:"only dead letters with a similar error" check:"max=65536"`
	Limit     int    `json:"limit,omitempty" desc:"maximum number of groups, largest first" check:"min=1,max=1000" default:"100"`
}

// DeadLettersGroupsResult holds groups of dead letters.
type DeadLettersGroupsResult struct{ messages.DeadLetterGroups }

var deadLettersGroupsCommand = commands.Define(vocabulary, "dead_letters groups", deadLettersGroups)

func deadLettersGroups(ctx context.Context, env commands.Env, p DeadLettersGroupsParams) (DeadLettersGroupsResult,
	error) {
	groups, err := messages.GroupDeadLetters(ctx, env.Ledger,
		messages.DeadLetterFilter{Recipient: p.Recipient, Error: p.Error, Limit: p.Limit})
	return DeadLettersGroupsResult{groups}, err
}

// Text writes a table.
func (r DeadLettersGroupsResult) Text(w *terminal.Text) {
	if r.Total == 0 {
		w.Printf("No dead letters.\n")
	} else {
		terminal.TableOf(w, []string{"MESSAGES", "TO", "FROM", "SINCE", "LATEST", "WHY"}, r.Groups,
			func(g *messages.DeadLetterGroup) []string {
				return []string{fmt.Sprint(g.Messages), g.Recipient, strings.Join(g.Senders, ", "), w.When(g.Since),
					w.When(g.Latest), g.Error}
			})
	}
	if r.More {
		w.Printf("There are more groups. To show them, increase --limit.\n")
	}
	onlyNewest(w, r.Cut)
}
