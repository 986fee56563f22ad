package inspection

import (
	"context"
	"strconv"
	"strings"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/overview"
)

// NowResult lists what needs a person's attention.
type NowResult struct{ overview.Needed }

var nowCommand = commands.Define(vocabulary, "now", now)

func now(ctx context.Context, env commands.Env, _ struct{}) (NowResult, error) {
	needed, err := overview.Now(ctx, env.Ledger)
	return NowResult{needed}, err
}

// counted maps the code of a finding to the word after its number.
var counted = map[string]string{"failed": "failed", "overdue": "overdue", "unread": "unread", "disabled": "disabled",
	"user": "waiting", "phone": "failed", "question": "open", "daemon": "waiting",
	"exchange": "messages", "hold": "waiting"}

// fewNames joins the first names of a list.
func fewNames(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + " and " + strconv.Itoa(len(names)-most) + " more"
}

// Text writes a few lines for each finding.
func (r NowResult) Text(w *terminal.Text) {
	if len(r.Findings) == 0 {
		w.Printf("Nothing needs your attention.\n")
		return
	}
	w.Printf("%s\n", w.Paint(terminal.Bold, orchestrator.Plural(len(r.Findings), "thing")+" to look at."))
	for _, n := range r.Findings {
		w.Printf("\n%s.\n", w.Paint(terminal.Red, n.Says))
		number := ""
		if n.Count > 0 {
			number = strconv.FormatInt(n.Count, 10) + " " + counted[n.Code]
		}
		w.Fields([2]string{"how many", number}, [2]string{"because", n.Because}, [2]string{"from", fewNames(n.From)},
			[2]string{"since", w.When(n.Since)},
			[2]string{"the oldest", n.ID}, [2]string{"what helps", n.Do})
	}
}
