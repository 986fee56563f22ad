package orchestrator

import "context"

// Open prepares a Router. It touches the disk only as far as needed to refuse a path that cannot be a database; the
// file itself is opened by the first command that needs it, and made by the first that writes, or by Create.
func Open(_ context.Context, o Options) (*Router, error) { return openWith(o, newParts()) }

// newParts lists what the records add to the engine of one database, in the order in which it is called. Teams come before
// threads: what answers a team's request joins no thread.
func newParts() []*Part {
	return []*Part{teamsPart(), threadsPart(), agentsPart(), sessionsPart(), questionsPart()}
}

// Beside opens another database, of the caller's own, with the same transports, clock and log. It is not asked whether it is
// trusted, and nothing is kept of it.
func (r *Router) Beside(ctx context.Context, path string) (*Router, error) {
	return Open(ctx, Options{
		Path: path, Instance: r.instance, Now: r.now, Transports: r.transports, User: r.user, Log: r.log, BusyTimeout: r.busy,
	})
}
