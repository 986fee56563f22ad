package move

import (
	"fmt"
	"slices"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// twins is called when a row could not be added at the new place. It returns an error that names two rows of the
// table that differ at the old place, but have the same values of a unique key at the new place. It returns nil if
// there are none.
func (c *copying) twins(p *pair) error {
	for _, key := range p.to.Keys {
		if err := c.twinsIn(p, key); err != nil {
			return err
		}
	}
	return nil
}

// twinsIn looks for two rows that get the same values of one key. It remembers only the rows whose key equals that of
// a repaired row.
func (c *copying) twinsIn(p *pair, key []string) error {
	suspects := map[string]string{} // old value of a key, by its new value; "" until a row with it was seen
	err := c.eachKey(p, key, func(_, becomes []any, kept bool) error {
		if !kept {
			suspects[fmt.Sprintf("%#v", becomes)] = ""
		}
		return nil
	})
	if err != nil || len(suspects) == 0 {
		return err
	}
	return c.eachKey(p, key, func(was, becomes []any, _ bool) error {
		id := fmt.Sprintf("%#v", becomes)
		switch other, suspected := suspects[id]; {
		case !suspected:
			return nil
		case other != "":
			return orchestrator.Errorf(orchestrator.Conflict,
				"the table %s has two rows that would have the same %s in the new database: %s and %s both become %s; nothing was moved",
				p.to.Name, strings.Join(key, ", "), other, list(was), list(becomes)).
				WithHint("In the old database, change one of the two values with SQL, in every table that has it. Then run `mailroom migrate` again")
		}
		suspects[id] = list(was)
		return nil
	})
}

// eachKey calls each with the values of a key in each row: the old and the new values. Keys with a NULL never
// collide.
func (c *copying) eachKey(p *pair, key []string, each func(was, becomes []any, kept bool) error) error {
	return c.each(c.from, p.from, func(row store.Row) error {
		var was, becomes []any
		kept := true
		for _, name := range key {
			i := slices.Index(namesOf(p.to), name)
			value, same := fitValue(p.to.Columns[i], row[i])
			if value == nil {
				return nil
			}
			kept = kept && same
			was, becomes = append(was, row[i]), append(becomes, value)
		}
		return each(was, becomes, kept)
	})
}

// list formats a list of values.
func list(values []any) string {
	var texts []string
	for _, value := range values {
		texts = append(texts, shown(value))
	}
	return strings.Join(texts, ", ")
}
