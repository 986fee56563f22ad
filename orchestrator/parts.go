package orchestrator

import "context"

// Open prepares an Engine. It touches the disk only as far as needed to refuse a path that cannot be a database; the
// file itself is opened by the first command that needs it, and made by the first that writes, or by Create.
func Open(_ context.Context, o Options) (*Engine, error) {
	r := New(o, newParts())
	s, err := openSQLite(sqliteOptions{
		Path: o.Path, Now: r.Now, Log: r.log, Bell: o.Bell, BusyTimeout: r.busy, Made: r.TrustNew, Begin: r.Begin, End: r.End,
	})
	if err != nil {
		return nil, err
	}
	r.UseStore(s)
	e := NewEngine(r)
	e.Beside = func(ctx context.Context, path string) (*Engine, error) {
		return Open(ctx, Options{
			Path: path, Instance: r.Instance(), Now: r.Now, Transports: r.transports, User: r.user, Log: r.log, BusyTimeout: r.busy,
		})
	}
	return e, nil
}

// newParts lists what the records add to the engine of one database, in the order in which it is called. Teams come before
// threads: what answers a team's request joins no thread.
func newParts() []*Part {
	return []*Part{teamsPart(), threadsPart(), agentsPart(), sessionsPart(), questionsPart()}
}
