package commands

import (
	"context"
	"testing"
	"testing/fstest"

	"mailroom/orchestrator"
)

// front is a front matter with all that it needs.
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

// vocabularyOf returns a vocabulary with one card.
func vocabularyOf(name, card string) *Vocabulary {
	return &Vocabulary{Name: "test", FoldCase: true, TopLevel: true,
		Cards: fstest.MapFS{name + ".md": {Data: []byte(card)}}}
}

const goodCard = "---\n" + front + "---\n\n# try\n\nTries.\n"

type needy struct {
	Name string `json:"name" desc:"a name that must be there"`
}

func nothing[P any](context.Context, Env, P) (struct{}, error) { return struct{}{}, nil }

// codeIs fails the test unless err has a code.
func codeIs(t testing.TB, err error, want orchestrator.Code) {
	t.Helper()
	if err == nil || orchestrator.CodeOf(err) != want {
		t.Errorf("error is %v; want %s", err, want)
	}
}
