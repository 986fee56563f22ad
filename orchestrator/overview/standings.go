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

// StandingFilter selects and orders the agents that Standings returns.
type StandingFilter struct {
	Search  string // only agents with this text in their name, role or host
	Waiting bool   // order by disabled agents first, then by most waiting messages, instead of by name
	Skip    int    // how many to skip
	Limit   int    // how many to return at most; 0: all
	Backlog bool   // include what waits for each agent
}

// Standings returns the states of agents, ordered by name, followed by those of the operator and the user. total is
// how many agents the filter selects in all.
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

// names returns the names that a filter selects, the operator and the user last.
func (r *StandingFilter) names(conf *ledger.Config) []string {
	search := strings.ToLower(r.Search)
	names := append(slices.Clone(conf.Names), orchestrator.Operator, orchestrator.User)
	return slices.DeleteFunc(names, func(name string) bool {
		a := conf.Agents[name]
		return !slices.ContainsFunc([]string{a.Name, a.Role, a.Host},
			func(text string) bool { return strings.Contains(strings.ToLower(text), search) })
	})
}

// sortByTrouble sorts names: disabled agents first, then by most waiting messages.
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
