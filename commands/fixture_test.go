package commands

import (
	"context"
	"encoding/json"
	"testing"
	"testing/fstest"

	"mailroom/orchestrator"
)

// front is a front matter that has all it needs.
const front = `command: orchestrator.try
agent: orchestrator
action: try
description: Try something
rights: self
tables:
  read: []
  write: []
required_tools: []
cfr_compliance: []
`

// vocabularyOf is a vocabulary with one card.
func vocabularyOf(name, card string) *Vocabulary {
	return &Vocabulary{Name: "test", FoldCase: true, TopLevel: true,
		Cards: fstest.MapFS{name + ".md": {Data: []byte(card)}}}
}

const goodCard = "---\n" + front + "---\n\n# try\n\nTries.\n"

// everything has a parameter of each kind.
type everything struct {
	Agent   string          `json:"agent,omitempty" desc:"an agent" check:"agent"`
	Word    string          `json:"word,omitempty" desc:"one of some" check:"oneof=red|green" default:"red"`
	Text    string          `json:"text,omitempty" desc:"a short text" check:"min=2,max=8"`
	ID      string          `json:"id,omitempty" desc:"an id" check:"id"`
	Count   int             `json:"count,omitempty" desc:"a count" check:"min=1,max=1000" default:"10"`
	Maybe   *int            `json:"maybe,omitempty" desc:"a count that may be absent" check:"min=0"`
	Ratio   float64         `json:"ratio,omitempty" desc:"a ratio" check:"max=1.5"`
	Yes     bool            `json:"yes,omitempty" desc:"a switch"`
	List    []string        `json:"list,omitempty" desc:"some words" check:"max=2"`
	Any     json.RawMessage `json:"any,omitempty" desc:"any value" check:"max=40"`
	Wait    Seconds         `json:"wait_seconds,omitempty" desc:"a time" check:"max=60"`
	Element []string        `json:"agents,omitempty" desc:"agents" check:"agent"`
}

type needy struct {
	Name string `json:"name" desc:"a name that must be there"`
}

func nothing[P any](context.Context, Env, P) (struct{}, error) { return struct{}{}, nil }

// decodeInto decodes raw into P as a command with such params would.
func decodeInto[P any](t testing.TB, raw string, fold bool) (P, error) {
	t.Helper()
	var p P
	params, err := paramsOf(p)
	if err != nil {
		t.Fatal(err)
	}
	return p, decodeParams(json.RawMessage(raw), params, fold, &p)
}

// codeIs fails the test unless err carries a code.
func codeIs(t testing.TB, err error, want orchestrator.Code) {
	t.Helper()
	if err == nil || orchestrator.CodeOf(err) != want {
		t.Errorf("error is %v; want %s", err, want)
	}
}
