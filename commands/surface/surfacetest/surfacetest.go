// Package surfacetest is what the tests of the ways in share: commands to try, a database, and a client of its
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

// Card is the card of a command for tests; PATH in it is how the command is called.
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

// Vocabulary returns a vocabulary for one command: name is that of its card, and path is how it is called.
func Vocabulary(name, path string) *commands.Vocabulary {
	text := strings.Replace(Card, "PATH", path, 1)
	return &commands.Vocabulary{Name: "test", FoldCase: true, TopLevel: true,
		Cards: fstest.MapFS{name + ".md": {Data: []byte(text)}}}
}

// Catalogue is that of the program, for tests that need real commands.
func Catalogue() *commands.Catalogue {
	return commands.NewCatalogue(route.Definitions(), relay.Definitions(), team.Definitions(), coral.Definitions(),
		ralph.Definitions(), admin.Definitions())
}

// OpenRouter opens a database until the test ends, without a log and with a bell of the process's own.
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

// Equal holds what a test got to what it wants.
func Equal(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s is\n%s\nwant\n%s", what, got, want)
	}
}
