package commands

import (
	"cmp"
	"context"

	"mailroom/orchestrator"
	"mailroom/orchestrator/threads"
)

// Known is a value that a parameter can have. A shell offers it as a completion.
type Known struct{ Value, About string }

// KnownValues returns the values that a parameter can have in a database. It changes nothing.
type KnownValues func(ctx context.Context, env Env) ([]Known, error)

// Knowing sets the function that lists the values of a parameter, for a parameter whose checks do not list them.
func (t Typed[P, R]) Knowing(param string, values KnownValues) Typed[P, R] {
	if t.known == nil {
		t.known = map[string]KnownValues{}
	}
	t.known[param] = values
	return t
}

// Known returns the function that lists the values of a parameter, or nil if Knowing set none.
func (d *Definition) Known(param string) KnownValues { return d.known[param] }

// KnownOf converts a list to known values.
func KnownOf[T any](list []T, known func(*T) Known) []Known {
	values := make([]Known, len(list))
	for i := range list {
		values[i] = known(&list[i])
	}
	return values
}

// KnownThreads returns the newest threads in which the caller takes part.
func KnownThreads(ctx context.Context, env Env) ([]Known, error) {
	const most = 50
	list, _, err := threads.Own(ctx, env.Ledger, cmp.Or(env.Caller.Name, orchestrator.Operator), "", 0, most)
	return KnownOf(list, func(th *threads.Overview) Known { return Known{th.Thread.ID, th.Thread.Name} }), err
}
