package sqlite

import (
	"slices"
	"strings"
	"testing"

	"mailroom"
	"mailroom/orchestrator/store"
)

// No statement that makes something is passed over by the search for names that are taken.
func TestAllThatIsMadeIsLookedFor(t *testing.T) {
	t.Parallel()
	madeBy := func(script string) (names []string) {
		for _, made := range makes().FindAllStringSubmatch(script, -1) {
			names = append(names, made[1])
		}
		return names
	}
	looked := madeBy(mailroom.Schema)
	var there []string
	err := makeStore(t).Read(t.Context(), func(c *store.Conn) (err error) {
		there, err = c.Texts(`SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'`)
		return err
	})
	if err != nil || len(there) == 0 {
		t.Fatal(there, err)
	}
	for _, name := range there {
		if !slices.Contains(looked, name) {
			t.Errorf("%s is made and not looked for", name)
		}
	}
	for v := firstVersion; v < schemaVersion; v++ {
		if names, want := madeBy(migration(v)),
			strings.Count(migration(v), "CREATE ")+strings.Count(migration(v), " RENAME TO "); len(names) != want {
			t.Errorf("a migration makes %d, of which these are looked for: %q", want, names)
		}
	}
}
