package ledger

import (
	"fmt"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// Anybody may write the tables that say who there is and how the engine works. What nobody can tell the meaning of is passed
// over, as if it were not there, and named by the doctor: it must harm nobody but whom it is about.

// nameIn reads a column that names an agent or a group. ok is false for what is no name.
func nameIn(v any) (name string, ok bool) {
	name, ok = v.(string) // the BLOB of a name equals it nowhere
	return name, ok && orchestrator.IsName(name) && name != orchestrator.Everyone && name != orchestrator.SystemSender
}

// countIn reads a column that counts something, up to a bound; 0, which stands for what is usual, for anything else.
func countIn(v any, most int64) int {
	if n := store.Int(v); n > 0 && n <= most {
		return int(n)
	}
	return 0
}

// oddName notes a row of the configuration whose name is none.
func (conf *Config) oddName(table, column string, v any) {
	conf.Odd = append(conf.Odd, fmt.Sprintf("a row of %s has %q for its %s, which is no name: it is passed over", table, orchestrator.Clip(store.Text(v)), column))
}
