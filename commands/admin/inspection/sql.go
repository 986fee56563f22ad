package inspection

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// SQLParams holds a query, or names one that ships with the product.
type SQLParams struct {
	Query  string   `json:"query,omitempty" desc:"one SELECT statement" check:"min=1,max=100000" arg:"1"`
	Named  string   `json:"named,omitempty" desc:"name of a built-in audit query" check:"min=1,max=64"`
	Params []string `json:"params,omitempty" desc:"values for the parameters of the query; the parameters of a named query have defaults"`
	List   bool     `json:"list,omitempty" desc:"list the named queries"`
	Limit  int      `json:"limit,omitempty" desc:"maximum number of rows" check:"min=1,max=100000" default:"1000"`
}

// SQLResult is a table, or the list of named queries.
type SQLResult struct {
	Columns   []string   `json:"columns,omitempty"`
	Rows      store.Rows `json:"rows"`
	Truncated bool       `json:"truncated,omitempty"` // there are more rows than the limit, or than fit
	Named     []Audit    `json:"named,omitempty"`

	leave func() // frees the query's slot, see EnterQuery; nil if the query has none
}

var sqlCommand = commands.Define(vocabulary, "sql", runSQL).Knowing("named", knownAudits)

// maxForModels bounds an answer to a model, in bytes. Such an answer is copied several times on its way, and hosts
// truncate it at a much smaller size.
const maxForModels = 1 << 20

// runSQL runs a query. No caller can use it to write, attach databases or read credentials.
func runSQL(ctx context.Context, env commands.Env, p SQLParams) (r SQLResult, err error) {
	if p.List && (p.Query != "" || p.Named != "" || len(p.Params) > 0) {
		return r, orchestrator.Errorf(orchestrator.InvalidParams, "list: cannot be combined with `query`, `named`, or `params`")
	}
	if p.List {
		r.Named = audits()
		return r, nil
	}
	if (p.Query == "") == (p.Named == "") {
		return r, orchestrator.Errorf(orchestrator.InvalidParams, "query: give either a query or the name of a named query").
			WithHint("To list the named queries, run `mailroom sql --list`")
	}
	bound := store.Bound{Rows: p.Limit}
	if env.Call.Model {
		bound.Bytes = maxForModels
	}
	query, params := p.Query, make([]any, len(p.Params))
	for i, v := range p.Params {
		params[i] = v
	}
	if p.Named != "" {
		if query, params, err = namedQuery(env.Ledger, p.Named, p.Params); err != nil {
			return r, err
		}
	}
	leave, err := env.Ledger.EnterQuery()
	if err != nil {
		return r, err
	}
	defer func() {
		if r.leave == nil {
			leave()
		}
	}()
	table, err := env.Ledger.Query(ctx, query, bound, params...)
	if own, ok := errors.AsType[*orchestrator.Error](err); ok && p.Named == "" {
		if audit, nerr := findAudit(strings.TrimSpace(query)); nerr == nil {
			own.Hint = "To run the named query " + audit.Name + ", run `mailroom sql --named " + audit.Name + "`"
		}
	}
	if err != nil {
		return r, err
	}
	return SQLResult{Columns: table.Columns, Rows: table.Rows, Truncated: table.Truncated, leave: leave}, nil
}

// Settle implements commands.Handed. The next query may start once no part of the answer is in memory any more.
func (r SQLResult) Settle(context.Context, commands.Env, bool) error {
	if r.leave != nil {
		r.leave()
	}
	return nil
}

// Pieces implements commands.Pieced.
func (r SQLResult) Pieces() ([][]byte, error) {
	rows := r.Rows.Pieces()
	r.Rows = store.Rows{}
	around, err := orchestrator.JSON(r)
	const list = `"rows":[`
	at := bytes.Index(around, []byte(list+"]")) + len(list) // in a text, the quotes would be escaped
	return slices.Concat([][]byte{around[:at]}, rows, [][]byte{around[at:]}), err
}

// Text writes a table.
func (r SQLResult) Text(w *terminal.Text) {
	if r.Named != nil {
		terminal.TableOf(w, []string{"NAME", "PARAMS", "WHAT IT ANSWERS"}, r.Named, func(a *Audit) []string {
			params := make([]string, len(a.Params))
			for j, p := range a.Params {
				params[j] = p.Name + "=" + p.Default
			}
			return []string{a.Name, strings.Join(params, " "), a.About}
		})
		return
	}
	rows := [][]string{}
	for _, row := range r.Rows.Values() {
		cells := make([]string, len(row))
		for i, value := range row {
			if value != nil {
				cells[i] = fmt.Sprint(value)
			}
		}
		rows = append(rows, cells)
	}
	w.Table(r.Columns, rows)
	if r.Truncated {
		w.Printf("There are more rows. To show them, increase --limit, or use OFFSET in the query.\n")
	}
}

// knownAudits returns the named queries, as completions for a shell.
func knownAudits(context.Context, commands.Env) ([]commands.Known, error) {
	return commands.KnownOf(audits(),
		func(a *Audit) commands.Known { return commands.Known{Value: a.Name, About: a.About} }), nil
}
