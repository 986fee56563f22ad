// Package commands is what can be asked of Mailroom: the definition of a command, the catalogue of all of them, and the
// one way in which every surface runs one.
//
// A command is defined once, by a Markdown card and a typed handler. Flags, `invoke NAME JSON`, schedules, tools and
// HTTP paths are derived from that definition; a surface never knows a command by name. Source: architecture.md, "A
// command is defined once".
package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"

	"mailroom/orchestrator"
	"mailroom/tracing"
)

// Env is what a handler may touch.
type Env struct {
	Router    *orchestrator.Router // nil for a command that needs no database
	Caller    Caller
	Log       *slog.Logger
	Catalogue *Catalogue
}

// Caller is who asks.
type Caller struct {
	Name    string // of the agent; "" is the administrator
	Session string
	Admin   bool // may run commands whose card says rights: admin
}

// Vocabulary is a family of commands with cards of their own and one way of writing keys.
type Vocabulary struct {
	Name     string
	Cards    fs.FS
	FoldCase bool // keys match without regard to case: BATCH_SIZE is batch_size
	TopLevel bool // `mailroom send`, not `mailroom route send`
}

// Definition is one command. It is immutable once the catalogue is made, and safe for concurrent use.
type Definition struct {
	Name   string   // of the command, with '_': agent_add
	Path   []string // on the command line: agent add
	Params []Param  // in the order of their struct

	vocabulary *Vocabulary
	card       func() (*Card, error)
	front      string // front matter of the card, without its fences
	body       string // Markdown of the card
	kind       tracing.Kind
	noDatabase bool
	database   func(raw json.RawMessage) string
	run        func(ctx context.Context, env Env, raw json.RawMessage) (any, error)
	check      func(raw json.RawMessage) error
	batch      func(lines []json.RawMessage) decodedBatch
}

// Typed is a definition that still knows its types, as Define returns it.
type Typed[P, R any] struct{ *Definition }

// Define makes a command of a card and a handler. name is the command's, and its card is the file NAME.md among the
// vocabulary's cards. A wrong definition (no card, a parameter without a description, an unknown check) panics: it is a
// mistake in the program, found at its start.
func Define[P, R any](v *Vocabulary, name string, run func(context.Context, Env, P) (R, error)) Typed[P, R] {
	text, err := fs.ReadFile(v.Cards, name+".md")
	if err != nil {
		panic(fmt.Sprintf("command %s has no card: %v", name, err))
	}
	var zero P
	params, err := paramsOf(zero)
	if err != nil {
		panic(fmt.Sprintf("command %s: %v", name, err))
	}
	d := &Definition{Name: name, Params: params, vocabulary: v, kind: tracing.Internal}
	if err := d.readCard(string(text)); err != nil {
		panic(fmt.Sprintf("card %s.md: %v", name, err))
	}
	decode := func(raw json.RawMessage) (p P, err error) {
		return p, decodeParams(raw, params, v.FoldCase, &p)
	}
	d.check = func(raw json.RawMessage) error {
		_, err := decode(raw)
		return err
	}
	d.run = func(ctx context.Context, env Env, raw json.RawMessage) (any, error) {
		p, err := decode(raw)
		if err != nil {
			return nil, err
		}
		return run(ctx, env, p)
	}
	return Typed[P, R]{d}
}

// readCard takes from a card what every start needs, and leaves the rest until somebody asks for it.
func (d *Definition) readCard(text string) (err error) {
	if d.front, d.body, err = splitCard(text); err != nil {
		return err
	}
	if err := checkKeys(d.front); err != nil {
		return err
	}
	d.card = sync.OnceValues(func() (*Card, error) { return parseCard(d.front, d.body) })
	d.Path, err = pathOf(d.front, d.vocabulary)
	return err
}

// Kind sets the OpenTelemetry kind of the command's span; INTERNAL without it.
func (t Typed[P, R]) Kind(k tracing.Kind) Typed[P, R] {
	t.kind = k
	return t
}

// NeedsNoDatabase marks a command that runs without one; its Env.Router is nil.
func (t Typed[P, R]) NeedsNoDatabase() Typed[P, R] {
	t.noDatabase = true
	return t
}

// WithDatabaseAt lets the parameters say where the database is; "" leaves it to the surface.
func (t Typed[P, R]) WithDatabaseAt(path func(P) string) Typed[P, R] {
	t.database = func(raw json.RawMessage) string {
		var p P
		if decodeParams(raw, t.Params, t.vocabulary.FoldCase, &p) != nil {
			return ""
		}
		return path(p)
	}
	return t
}

// DatabaseAt returns where the parameters want the database to be, and "" when they do not say.
func (d *Definition) DatabaseAt(raw json.RawMessage) string {
	if d.database == nil {
		return ""
	}
	return d.database(raw)
}

// UsesDatabase reports whether the command needs a router.
func (d *Definition) UsesDatabase() bool { return !d.noDatabase }

// Vocabulary returns the vocabulary that the command belongs to.
func (d *Definition) Vocabulary() *Vocabulary { return d.vocabulary }

// Card returns the command's card. Error: a card whose front matter is wrong, which a test excludes.
func (d *Definition) Card() (*Card, error) { return d.card() }

// Check validates params as Run would, without running anything.
func (d *Definition) Check(raw json.RawMessage) error { return d.check(raw) }

// CommandLine is how the command is called from a shell.
func (d *Definition) CommandLine() string { return "mailroom " + strings.Join(d.Path, " ") }
