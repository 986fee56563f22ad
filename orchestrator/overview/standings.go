package overview

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// StandingFilter says which agents Standings returns, and in which order.
type StandingFilter struct {
	Search  string // only those that have this text in their name, role or host
	Waiting bool   // first those that are disabled, then those for which most waits, and not by name
	Skip    int    // so many of the first
	Limit   int    // so many at most; 0 is all
	Backlog bool   // say what waits for each
}

// Standings returns the standings of agents: by name, and behind them those of the operator and the user. total says
// how many the filter selects in all.
func Standings(ctx context.Context, l *ledger.Ledger, r StandingFilter) (list []Standing, total int, err error) {
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		names := r.names(conf)
		total = len(names)
		s, err := takeSnapshot(c, l, conf)
		if err != nil {
			return err
		}
		if r.Waiting {
			s.sortByTrouble(names)
		}
		names = names[min(r.Skip, total):]
		if r.Limit > 0 {
			names = names[:min(r.Limit, len(names))]
		}
		list = make([]Standing, 0, len(names))
		for _, a := range agents.Of(conf, names) {
			of := s.standing(a)
			if !r.Backlog {
				of.Backlog = nil
			}
			list = append(list, of)
		}
		return nil
	})
	return list, total, err
}

// names returns the names that a filter selects, those of the operator and the user last.
func (r *StandingFilter) names(conf *ledger.Config) []string {
	search := strings.ToLower(r.Search)
	names := append(slices.Clone(conf.Names), orchestrator.Operator, orchestrator.User)
	return slices.DeleteFunc(names, func(name string) bool {
		a := conf.Agents[name]
		return !slices.ContainsFunc([]string{a.Name, a.Role, a.Host},
			func(text string) bool { return strings.Contains(strings.ToLower(text), search) })
	})
}

// sortByTrouble sorts names: who is disabled first, then for whom most waits.
func (s *snapshot) sortByTrouble(names []string) {
	isEnabled := func(m *Member) int {
		if isDisabled(m) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(names, func(a, b string) int {
		x, y := s.members[a], s.members[b]
		return cmp.Or(cmp.Compare(isEnabled(x), isEnabled(y)), cmp.Compare(y.Pending+y.Unread, x.Pending+x.Unread))
	})
}
