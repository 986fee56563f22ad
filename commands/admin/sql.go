package admin

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/tracing"
)

//go:embed audits/*.sql
var auditFiles embed.FS

// SQLParams hold a query, or name one that ships with the product.
type SQLParams struct {
	Query  string   `json:"query,omitempty" desc:"one SELECT" check:"min=1,max=100000" arg:"1"`
	Named  string   `json:"named,omitempty" desc:"audit query that ships with mailroom" check:"min=1,max=64"`
	Params []string `json:"params,omitempty" desc:"values for ?1, ?2, ... of the query; a named one has defaults"`
	List   bool     `json:"list,omitempty" desc:"list the named queries"`
	Limit  int      `json:"limit,omitempty" desc:"rows at most" check:"min=1,max=100000" default:"1000"`
}

// SQLResult is a table, or the list of named queries.
type SQLResult struct {
	Columns   []string           `json:"columns,omitempty"`
	Rows      []orchestrator.Row `json:"rows"`
	Truncated bool               `json:"truncated,omitempty"` // there are more rows than the limit
	Named     []Audit            `json:"named,omitempty"`
}

var sqlCommand = commands.Define(vocabulary, "sql", runSQL)

// runSQL answers audits. It cannot write, attach or read credentials, whoever asks.
func runSQL(ctx context.Context, env commands.Env, p SQLParams) (SQLResult, error) {
	r := SQLResult{Rows: []orchestrator.Row{}}
	if p.List {
		r.Named = audits
		return r, nil
	}
	if (p.Query == "") == (p.Named == "") {
		return r, orchestrator.Errorf(orchestrator.InvalidParams, "query: give a query, or name one").
			WithHint("`mailroom sql --list` lists the named ones")
	}
	query, params := p.Query, make([]any, len(p.Params))
	for i, v := range p.Params {
		params[i] = v
	}
	if p.Named != "" {
		audit, err := findAudit(p.Named)
		if err != nil {
			return r, err
		}
		query = audit.SQL
		if params, err = audit.bind(p.Params, env.Router.Now().UTC().Format(tracing.Layout)); err != nil {
			return r, err
		}
	}
	table, err := env.Router.Query(ctx, query, p.Limit, params...)
	if err != nil {
		return r, err
	}
	return SQLResult{Columns: table.Columns, Rows: table.Rows, Truncated: table.Truncated}, nil
}

// Text shows a table.
func (r SQLResult) Text(w *commands.Text) {
	if r.Named != nil {
		rows := make([][]string, len(r.Named))
		for i, a := range r.Named {
			rows[i] = []string{a.Name, strings.Join(a.Defaults, " "), a.About}
		}
		w.Table([]string{"NAME", "DEFAULTS", "WHAT IT ANSWERS"}, rows)
		return
	}
	rows := make([][]string, len(r.Rows))
	for i, row := range r.Rows {
		for _, v := range row.Values {
			cell := ""
			if v != nil {
				cell = fmt.Sprint(v)
			}
			rows[i] = append(rows[i], cell)
		}
	}
	w.Table(r.Columns, rows)
	if r.Truncated {
		w.Printf("There are more rows; --limit shows them.\n")
	}
}

// Audit is a query that ships with the product: a file of audits/ whose first comment lines say what it answers and
// which defaults its parameters have. ?1 is always the present time.
type Audit struct {
	Name     string   `json:"name"`
	About    string   `json:"about"`
	Defaults []string `json:"params"` // of ?2, ?3, ...
	SQL      string   `json:"sql"`
}

var audits = readAudits()

// readAudits reads the files. One without its head panics: it is a mistake in the program, found at its start.
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
		a := Audit{Name: strings.TrimSuffix(path.Base(file), ".sql"), SQL: string(text), Defaults: []string{}}
		for line := range strings.Lines(a.SQL) {
			line = strings.TrimSpace(line)
			if rest, ok := strings.CutPrefix(line, "-- params:"); ok {
				a.Defaults = strings.Fields(rest)
			} else if rest, ok := strings.CutPrefix(line, "-- "); ok && a.About == "" {
				a.About = rest
			}
		}
		if a.About == "" {
			panic(file + " does not say what it answers")
		}
		list = append(list, a)
	}
	return list
}

func findAudit(name string) (*Audit, error) {
	folded := strings.ReplaceAll(strings.ToLower(name), "-", "_")
	names := make([]string, len(audits))
	for i := range audits {
		if audits[i].Name == folded {
			return &audits[i], nil
		}
		names[i] = audits[i].Name
	}
	e := orchestrator.Errorf(orchestrator.NotFound, "there is no named query %q", name)
	if near := orchestrator.Nearest(folded, names); len(near) > 0 {
		return nil, e.WithHint("Did you mean %s?", strings.Join(near, " or "))
	}
	return nil, e.WithHint("`mailroom sql --list` lists them")
}

// bind returns the values of ?1 (now), ?2, ...
func (a *Audit) bind(given []string, now string) ([]any, error) {
	if len(given) > len(a.Defaults) {
		return nil, orchestrator.Errorf(orchestrator.InvalidParams, "params: %s takes %d, and %d were given", a.Name, len(a.Defaults), len(given))
	}
	values := slices.Clone(a.Defaults)
	copy(values, given)
	bound := []any{now}
	for _, v := range values {
		bound = append(bound, v)
	}
	return bound, nil
}
