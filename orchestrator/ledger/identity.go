package ledger

import (
	"context"

	"mailroom/orchestrator"
)

type identityKey struct{}

// WithIdentity returns a context whose caller has proved to be the agent of that name, known or not: the first thing that it
// does in that name adds it, and it may answer only what it sent or got. "" proves nothing: the caller is an administrator, or
// the engine itself.
func WithIdentity(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, identityKey{}, orchestrator.FoldName(name))
}

// Proved reports whether the caller has proved to be the agent of that name.
func Proved(ctx context.Context, name string) bool {
	proved, _ := ctx.Value(identityKey{}).(string)
	return proved != "" && proved == name
}

// Proved reports whether whoever asked for the transaction has proved to be the agent of that name.
func (t *Tx) Proved(name string) bool { return Proved(t.Ctx, name) }
