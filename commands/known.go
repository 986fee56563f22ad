package commands

import (
	"cmp"
	"context"

	"mailroom/orchestrator"
	"mailroom/orchestrator/threads"
)

// Known is a value that a parameter can have, as a shell offers it when a command line is completed.
type Known struct{ Value, About string }

// KnownValues finds the values that a parameter can have in a database. It changes nothing.
type KnownValues func(ctx context.Context, env Env) ([]Known, error)

// Knowing says which values a parameter can have, where its checks do not.
func (t Typed[P, R]) Knowing(param string, values KnownValues) Typed[P, R] {
	if t.known == nil {
		t.known = map[string]KnownValues{}
	}
	t.known[param] = values
	return t
}

// Known returns what finds the values of a parameter; nil if its checks say all that there is to say.
func (d *Definition) Known(param string) KnownValues { return d.known[param] }

// KnownOf makes known values of a list.
func KnownOf[T any](list []T, known func(*T) Known) []Known {
	values := make([]Known, len(list))
	for i := range list {
		values[i] = known(&list[i])
	}
	return values
}

// KnownThreads are the newest threads in which the caller takes part.
func KnownThreads(ctx context.Context, env Env) ([]Known, error) {
	const most = 50
	list, _, err := threads.Own(ctx, env.Ledger, cmp.Or(env.Caller.Name, orchestrator.Operator), "", 0, most)
	return KnownOf(list, func(th *threads.Overview) Known { return Known{th.Thread.ID, th.Thread.Name} }), err
}
