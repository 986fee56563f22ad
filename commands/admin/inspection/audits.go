package inspection

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"sync"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/nearest"
)

//go:embed audits/*.sql
var auditFiles embed.FS

// Audit is a query that ships with the product, in a file of audits/. Comment lines at the head of the file describe
// the query: first one line about what it shows, then notes on how to read the result, `params: NAME=DEFAULT ...` if
// it has parameters, and `columns: ...`. In the query, ?1 is the present time, ?2 the first parameter, and so on.
type Audit struct {
	Name    string       `json:"name"`
	About   string       `json:"about"`
	Notes   string       `json:"notes"`
	Params  []AuditParam `json:"params"`
	Columns []string     `json:"columns"`
	SQL     string       `json:"sql"`

	usesNow bool
}

// AuditParam is a parameter of an audit. If its default is a whole number, it accepts only whole numbers.
type AuditParam struct {
	Name    string `json:"name"`
	Default string `json:"default"`
}

// Audits returns all audits, sorted by name. Callers must not change the list.
func Audits() []Audit { return audits() }

var audits = sync.OnceValue(readAudits) // read when first used, because most commands need none of them

// readAudits reads all audits. It panics if a file is invalid, which is a mistake in the program that its tests find.
func readAudits() (list []Audit) {
	files, err := fs.Glob(auditFiles, "audits/*.sql")
	if err != nil {
		panic(err)
	}
	for _, file := range files {
		text, err := fs.ReadFile(auditFiles, file)
		if err != nil {
			panic(err)
		}
		a := Audit{Name: strings.TrimSuffix(path.Base(file), ".sql"), Params: []AuditParam{}, SQL: string(text)}
		if err := a.readHead(); err != nil {
			panic(fmt.Sprintf("%s: %v", file, err))
		}
		list = append(list, a)
	}
	return list
}

// readHead reads the description from the comment lines at the top.
func (a *Audit) readHead() error {
	rest := a.SQL
	var notes []string
	for strings.HasPrefix(rest, "-- ") {
		line, after, _ := strings.Cut(rest, "\n")
		rest, line = after, strings.TrimPrefix(line, "-- ")
		key, value, _ := strings.Cut(line, ": ")
		switch {
		case a.About == "":
			a.About = line
		case key == "columns":
			a.Columns = strings.Split(value, ", ")
		case key == "params":
			for _, field := range strings.Fields(value) {
				name, preset, ok := strings.Cut(field, "=")
				if !ok {
					return fmt.Errorf("parameter %s has no default", name)
				}
				a.Params = append(a.Params, AuditParam{name, preset})
			}
		default:
			notes = append(notes, line)
		}
	}
	a.Notes, a.usesNow = strings.Join(notes, " "), strings.Contains(rest, "?1")
	if a.About == "" || a.Notes == "" || a.Columns == nil {
		return fmt.Errorf("the header must have a description, notes, and columns")
	}
	return nil
}

// findAudit finds an audit by name, with '-' or '_', in any case. An unknown name is the error not_found, with
// similar names.
func findAudit(name string) (*Audit, error) {
	folded := strings.ReplaceAll(strings.ToLower(name), "-", "_")
	list := audits()
	names := make([]string, len(list))
	for i := range list {
		if list[i].Name == folded {
			return &list[i], nil
		}
		names[i] = list[i].Name
	}
	e := orchestrator.Errorf(orchestrator.NotFound, "unknown named query %q", name)
	if near := nearest.Nearest(folded, names); len(near) > 0 {
		return nil, e.WithHint("Did you mean %s?", strings.Join(near, " or "))
	}
	return nil, e.WithHint("To list the named queries, run `mailroom sql --list`")
}

// namedQuery returns the text of an audit and its parameters. given holds the values of the first parameters; the
// others have their defaults. The present time comes from the engine's clock, so that a known history gives known
// rows.
func namedQuery(l *ledger.Ledger, name string, given []string) (query string, params []any, err error) {
	a, err := findAudit(name)
	if err != nil {
		return "", nil, err
	}
	if params, err = a.bind(given); err != nil {
		return "", nil, err
	}
	if a.usesNow || len(params) > 0 {
		params = append([]any{orchestrator.Stamp(l.Now())}, params...)
	}
	return a.SQL, params, nil
}

// bind returns the values for ?2, ?3, ...
func (a *Audit) bind(given []string) (values []any, err error) {
	if len(given) > len(a.Params) {
		return nil, orchestrator.Errorf(orchestrator.InvalidParams, "params: %s takes at most %s, but got %d", a.Name,
			orchestrator.Plural(len(a.Params), "parameter"), len(given))
	}
	for i, p := range a.Params {
		value := p.Default
		if i < len(given) {
			value = given[i]
		}
		if isCount(p.Default) && !isCount(value) {
			return nil, orchestrator.Errorf(orchestrator.InvalidParams,
				"params: %s of %s must be a whole number from 0 to 1000000, but is %q", p.Name, a.Name, value)
		}
		values = append(values, value)
	}
	return values, nil
}

func isCount(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n >= 0 && n <= 1_000_000
}
