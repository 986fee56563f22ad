package sqlite

import "sync"

// commits finds out whether anybody has committed, by SQLite's data_version and a connection of its own. A look takes 5 us,
// including the check whether the file was replaced. It is safe for concurrent use.
type commits struct {
	s *Store

	mu        sync.Mutex
	followers int
	c         *conn // nil if nobody follows, or it could not be opened
	opened    int64 // connections until now: each counts anew
}

// Version returns a number that every commit changes. It is not known unless this process listens to the bell, since only
// then the connection is open anyway, or if the database cannot be read.
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
		if f.c.immutable { // its data_version stands still
			f.c.close()
			f.c = nil
			return 0, false
		}
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
