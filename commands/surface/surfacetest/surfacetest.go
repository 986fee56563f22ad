// Package surfacetest contains what the tests of the surfaces share: sample commands, a database, and a client of its
// endpoints.
package surfacetest

import (
	"log/slog"
	"strings"
	"testing"
	"testing/fstest"

	"mailroom/commands"
	"mailroom/commands/admin"
	"mailroom/commands/coral"
	"mailroom/commands/ralph"
	"mailroom/commands/relay"
	"mailroom/commands/route"
	"mailroom/commands/team"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/router"
	"mailroom/orchestrator/store"
)

// Card is the card of a command for tests. PATH in it stands for the command's path.
const Card = `---
command: orchestrator.PATH
agent: orchestrator
action: try
description: Try something
rights: self
tables: {read: [], write: []}
required_tools: []
cfr_compliance: []
---

# try

## Purpose

Tries something.

## Parameters

| parameter | meaning |
|---|---|

## Usage notes

It takes a while.

## Examples

    mailroom try
`

// Vocabulary returns a vocabulary with one command: name is the name of its card, and path its path.
func Vocabulary(name, path string) *commands.Vocabulary {
	text := strings.Replace(Card, "PATH", path, 1)
	return &commands.Vocabulary{Name: "test", FoldCase: true, TopLevel: true,
		Cards: fstest.MapFS{name + ".md": {Data: []byte(text)}}}
}

// Catalogue returns the catalogue of the program, for tests that need real commands.
func Catalogue() *commands.Catalogue {
	return commands.NewCatalogue(route.Definitions(), relay.Definitions(), team.Definitions(), coral.Definitions(),
		ralph.Definitions(), admin.Definitions())
}

// OpenRouter opens a database until the end of the test, without a log and with a bell for this process only.
func OpenRouter(t testing.TB, o ledger.Options) *delivery.Engine {
	t.Helper()
	o.Log, o.Instance = slog.New(slog.DiscardHandler), t.Name()
	if o.Bell == nil {
		o.Bell = store.NewLocalBell()
	}
	r, err := router.Open(t.Context(), enginetest.Placed(o))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// Equal reports an error if got differs from want.
func Equal(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s is\n%s\nwant\n%s", what, got, want)
	}
}
