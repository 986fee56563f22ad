package admin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

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
	Columns   []string       `json:"columns,omitempty"`
	Rows      []store.Record `json:"rows"`
	Truncated bool           `json:"truncated,omitempty"` // there are more rows than the limit
	Named     []Audit        `json:"named,omitempty"`
}

var sqlCommand = commands.Define(vocabulary, "sql", runSQL).Knowing("named", knownAudits)

// runSQL answers audits. It cannot write, attach or read credentials, whoever asks.
func runSQL(ctx context.Context, env commands.Env, p SQLParams) (SQLResult, error) {
	r := SQLResult{Rows: []store.Record{}}
	if p.List && (p.Query != "" || p.Named != "" || len(p.Params) > 0) {
		return r, orchestrator.Errorf(orchestrator.InvalidParams, "list: it goes with no query, named or params")
	}
	if p.List {
		r.Named = audits()
		return r, nil
	}
	if (p.Query == "") == (p.Named == "") {
		return r, orchestrator.Errorf(orchestrator.InvalidParams, "query: give a query, or name one").
			WithHint("`mailroom sql --list` lists the named ones")
	}
	if p.Named != "" {
		audit, err := findAudit(p.Named)
		if err != nil {
			return r, err
		}
		return audit.run(ctx, env.Ledger, p.Limit, p.Params)
	}
	params := make([]any, len(p.Params))
	for i, v := range p.Params {
		params[i] = v
	}
	r, err := tableOf(env.Ledger.Query(ctx, p.Query, p.Limit, params...))
	if own, ok := errors.AsType[*orchestrator.Error](err); ok {
		if audit, nerr := findAudit(strings.TrimSpace(p.Query)); nerr == nil {
			own.Hint = "That is the name of a query: `mailroom sql --named " + audit.Name + "`"
		}
	}
	return r, err
}

// tableOf makes a result of what a query gave. SQLite knows infinite numbers (9e999) and JSON does not: they become text.
func tableOf(t store.Table, err error) (SQLResult, error) {
	if err != nil {
		return SQLResult{Rows: []store.Record{}}, err
	}
	for _, row := range t.Rows {
		for i, v := range row.Values {
			if n, ok := v.(float64); ok && math.IsInf(n, 0) {
				row.Values[i] = fmt.Sprintf("%+v", n)
			}
		}
	}
	return SQLResult{Columns: t.Columns, Rows: t.Rows, Truncated: t.Truncated}, nil
}

// Text shows a table.
func (r SQLResult) Text(w *commands.Text) {
	if r.Named != nil {
		commands.TableOf(w, []string{"NAME", "PARAMS", "WHAT IT ANSWERS"}, r.Named, func(a *Audit) []string {
			params := make([]string, len(a.Params))
			for j, p := range a.Params {
				params[j] = p.Name + "=" + p.Default
			}
			return []string{a.Name, strings.Join(params, " "), a.About}
		})
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
