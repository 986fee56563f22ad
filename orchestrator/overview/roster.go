package overview

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// Roster says which agents Standings returns, and in which order.
type Roster struct {
	Search  string // only those that have this text in their name, role or host
	Waiting bool   // first those that are disabled, then those for which most waits, and not by name
	Skip    int    // so many of the first
	Limit   int    // so many at most; 0 is all
	Backlog bool   // say what waits for each
}

// Standings returns the standings of agents: by name, and behind them those of the operator and the user. total says how many
// the roster selects in all.
func Standings(ctx context.Context, l *ledger.Ledger, r Roster) (list []Standing, total int, err error) {
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		names := r.names(conf)
		total = len(names)
		var counts map[string]map[orchestrator.Status]int64
		if r.Waiting || r.Backlog {
			if counts, err = ledger.Counts(c); err != nil {
				return err
			}
		}
		if r.Waiting {
			sortByTrouble(names, conf, counts)
		}
		names = names[min(r.Skip, total):]
		if r.Limit > 0 {
			names = names[:min(r.Limit, len(names))]
		}
		if list, err = standingsIn(c, l, conf, agents.Of(conf, names)); err != nil || !r.Backlog {
			return err
		}
		return addBacklogs(c, l, conf, counts, names, list)
	})
	return list, total, err
}

// names returns the names that a roster selects, those of the operator and the user last.
func (r *Roster) names(conf *ledger.Config) []string {
	search := strings.ToLower(r.Search)
	names := append(slices.Clone(conf.Names), orchestrator.Operator, orchestrator.User)
	return slices.DeleteFunc(names, func(name string) bool {
		a := conf.Agents[name]
		return !slices.ContainsFunc([]string{a.Name, a.Role, a.Host}, func(text string) bool { return strings.Contains(strings.ToLower(text), search) })
	})
}

// sortByTrouble sorts names: who is disabled first, then for whom most waits.
func sortByTrouble(names []string, conf *ledger.Config, counts map[string]map[orchestrator.Status]int64) {
	waits := func(name string) int64 {
		of := counts[name]
		return of[orchestrator.Pending] + of[orchestrator.Retry] + of[ledger.Unread]
	}
	isEnabled := func(name string) int {
		if conf.Agents[name].Disabled != "" {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(isEnabled(a), isEnabled(b)), cmp.Compare(waits(b), waits(a)))
	})
}

// addBacklogs adds to the standings of these names what waits for each.
func addBacklogs(c *store.Conn, l *ledger.Ledger, conf *ledger.Config, counts map[string]map[orchestrator.Status]int64, names []string, list []Standing) error {
	overdue := orchestrator.Stamp(l.Now().Add(-conf.Settings.OverdueAfter))
	waiting, _, err := backlogs(c, conf, counts, l.Now(), overdue, names)
	if err != nil {
		return err
	}
	if err := errors.Join(addUnread(c, waiting), addSessions(c, waiting, l.Now())); err != nil {
		return err
	}
	for i := range list {
		at, found := slices.BinarySearchFunc(waiting, list[i].Name, func(b RecipientBacklog, name string) int { return strings.Compare(b.Recipient, name) })
		if found {
			list[i].Backlog = &waiting[at]
		} else {
			list[i].Backlog = &RecipientBacklog{Recipient: list[i].Name, Known: true}
		}
	}
	return nil
}

// BacklogOf returns what waits for one recipient.
func BacklogOf(ctx context.Context, l *ledger.Ledger, agent ledger.Agent) (b RecipientBacklog, err error) {
	list := []Standing{{Agent: agent}}
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		counts, err := ledger.Counts(c)
		if err != nil {
			return err
		}
		return addBacklogs(c, l, conf, counts, []string{agent.Name}, list)
	})
	if err != nil {
		return b, err
	}
	return *list[0].Backlog, nil
}
