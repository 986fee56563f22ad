package store

import (
	"strconv"

	"mailroom/orchestrator"
)

// Table is the answer of an audit query.
type Table struct {
	Columns   []string
	Rows      []Record
	Truncated bool // there were more rows than asked for
}

// Record is one row of a Table. It marshals as a JSON object whose keys are the columns, in their order.
type Record struct {
	Columns []string
	Values  []any // nil, int64, float64, string
}

// UniqueColumns makes column names usable as JSON keys: a repeated one gets a number.
func UniqueColumns(columns []string) []string {
	taken := map[string]bool{}
	names := make([]string, len(columns))
	for i, name := range columns {
		names[i] = name
		for n := 2; taken[names[i]]; n++ {
			names[i] = name + "_" + strconv.Itoa(n)
		}
		taken[names[i]] = true
	}
	return names
}

// MarshalJSON keeps the order of the columns.
func (row Record) MarshalJSON() ([]byte, error) {
	text := []byte{'{'}
	for i, column := range row.Columns {
		if i > 0 {
			text = append(text, ',')
		}
		value, err := orchestrator.JSON(row.Values[i])
		if err != nil {
			return nil, err
		}
		text = append(append(append(text, orchestrator.JSONString(column)...), ':'), value...)
	}
	return append(text, '}'), nil
}
