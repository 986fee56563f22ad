package sqlite

import "sync"

// commits tells whether anybody has committed, through SQLite's data_version and a connection of its own: 5 us a look,
// with that for a database that has moved. It is safe for concurrent use.
type commits struct {
	s *Store

	mu        sync.Mutex
	followers int
	c         *conn // nil if nobody follows, or it could not be opened
	opened    int64 // connections until now: each counts anew
}

// Version returns a number that has changed when any connection has committed since it was last asked for. It is known
// as long as this process listens to the bell, since only then the connection is open anyway.
func (s *Store) Version() (version int64, known bool) { return s.commits.version() }

func (f *commits) version() (version int64, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.followers == 0 {
		return 0, false
	}
	if f.c != nil && f.c.moved() {
		f.c.close()
		f.c = nil
	}
	if f.c == nil {
		var err error
		if f.c, err = f.s.openReader(); err != nil {
			return 0, false
		}
		f.opened++
	}
	n, err := f.c.Number("PRAGMA data_version")
	return f.opened<<32 | n, err == nil
}

// detectChanges follows the commits. While that cannot be done everything counts as changed: whoever looks then gets to
// know why.
func (s *Store) detectChanges() (changed func() bool, stop func()) {
	f := &s.commits
	f.mu.Lock()
	f.followers++
	f.mu.Unlock()
	last, known := f.version()
	changed = func() bool {
		now, ok := f.version()
		differs := !ok || !known || now != last
		last, known = now, ok
		return differs
	}
	return changed, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.followers--; f.followers == 0 && f.c != nil {
			f.c.close()
			f.c = nil
		}
	}
}
