package sqlite

import "testing"

// TestVersion checks that the version changes with each commit, that it is known while somebody follows the commits,
// and that no version repeats after a new start, although SQLite's counter starts anew with each connection.
func TestVersion(t *testing.T) {
	t.Parallel()
	s := makeStore(t)
	if version, known := s.Version(); known {
		t.Errorf("while nobody follows the commits: %d", version)
	}
	seen := map[int64]bool{}
	isNew := func(is bool) {
		t.Helper()
		version, known := s.Version()
		if !known || seen[version] == is {
			t.Errorf("version %d, known %t, seen before %t; want new %t", version, known, seen[version], is)
		}
		seen[version] = true
	}
	for range 2 {
		_, stop := s.detectChanges()
		isNew(true)
		isNew(false)
		if err := s.write(t.Context(), writeOne); err != nil {
			t.Fatal(err)
		}
		isNew(true)
		isNew(false)
		stop()
	}
}
