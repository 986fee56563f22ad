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
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"mailroom/commands/parameter"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/pattern"
	"mailroom/tracing"
)

// Env is what a handler may touch.
type Env struct {
	*delivery.Engine // the open database, with its Ledger; nil for a command that needs none
	Caller           Caller
	Distant          *Distant // in place of Engine, where the database is on another machine
	Catalogue        *Catalogue
	Log              *slog.Logger
	Call             Call
}

// Database names the database as --db does.
func (env *Env) Database() string {
	if env.Distant != nil {
		return env.Distant.Name
	}
	return env.Ledger.Path()
}

// Close closes what was opened for the command.
func (env *Env) Close() error {
	if env.Distant != nil {
		return env.Distant.Close()
	}
	return env.Engine.Close()
}

// Distant is a database on another machine, for a command that runs here.
type Distant struct {
	Name  string // as --db has it
	State string // the user's state folder on this machine; "" is none
	// Run runs a command of the catalogue there, and puts what it answers into result. Its errors are those of the command,
	// and unavailable if the other machine cannot be reached.
	Run   func(ctx context.Context, command string, params, result any) error
	Close func() error
}

// Call says what is special about one call of a command; nothing for the zero value.
type Call struct {
	Scheduled bool          // a schedule runs the command: a run that changes nothing leaves no trace
	Patience  time.Duration // longest that a command may wait, since whoever asks abandons longer calls; 0 is any time
	Model     bool          // a model reads the answer, of which its host shows only so much
	// to which a command may tell a person why nothing happens; beside the answer, and nil where nobody sees it
	Aside *terminal.Text
	// to which a command may tell what it does while it does it; nil if the answer is for programs
	Narrator *terminal.Text

	// Ask asks the other machine on which the command line was typed what only that knows; nil: it was typed on this one.
	Ask func(question string) ([]byte, error)

	// Progress, unless it is nil, is told how far long work is, by several goroutines at once; a total of 0 is unknown.
	Progress func(done, total int64, unit string)
}

// Questions that Call.Ask answers with what connect.Look finds.
const (
	Connections     = "connections"
	MendConnections = "mend connections"
)

// Caller is who asks.
type Caller struct {
	Name    string // of the agent; "" is the administrator
	Session string
	Admin   bool // may run commands whose card says rights: admin
	Remote  bool // asks over the network: names no files and no programs of this machine (overnetwork.go)
	Named   bool // by --as, and not by the environment
	// asks in a shell, or on standard input, of this machine, or (Remote) in the console: without a name it sends and
	// reads as the operator
	Shell bool
	Since string // when the agent was added for which the asking program was started; "": it was not started for one
	// id of a process: once it has ended, what the caller took under a lease is unread again; 0: none tells that
	Process int
}

// Asks says who asks, for those who read of it later: an agent, or a person and where; "" is not known.
func (c *Caller) Asks() string {
	switch {
	case c.Name != "" || !c.Shell:
		return c.Name
	case c.Remote:
		return "the operator, in the console"
	}
	return "the operator, in a terminal"
}

// Vocabulary is a family of commands with cards of their own and one way of writing keys.
type Vocabulary struct {
	Name     string
	Cards    fs.FS
	FoldCase bool // keys match without regard to case: BATCH_SIZE is batch_size
	TopLevel bool // `mailroom send`, not `mailroom route send`
	Document bool // a document gives the answers of its commands key for key, so that programs read them
	// Prefix stands before the names of the commands where other vocabularies are served beside this one, which use
	// some of them for something else. On the command line the vocabulary's own name tells them apart.
	Prefix string
}

// IsDocument reports whether programs read the answer of the command, which a document gives key for key.
func (d *Definition) IsDocument() bool { return d.Document || d.vocabulary.Document }

// Definition is one command. It is immutable once the catalogue is made, and safe for concurrent use.
type Definition struct {
	Name  string   // of the command, with '_': agent_add; unique in a catalogue
	Tool  string   // the same without the vocabulary's prefix
	Path  []string // on the command line: agent add
	Words []Word   // further names there, for people
	Traits

	words      string // as Define was given them
	vocabulary *Vocabulary
	handler    handler
	database   func(raw json.RawMessage) string
	batch      func(lines []json.RawMessage) decodedBatch
	known      map[string]KnownValues // of parameters
	foresee    func(ctx context.Context, env Env, raw json.RawMessage) (string, error)

	// Read when they are first asked for: a program that runs one command need not read those of all.
	readParams, readCard sync.Once
	params               []parameter.Param
	card                 *Card
}

// Word is a further name of a command on the command line, for people: `mailroom show ID` is `mailroom mail get_message
// ID`.
type Word struct {
	Path    []string
	Preset  map[string]json.RawMessage // parameters that it sets unless the line does
	Summary string                     // in a sentence, where the command's own does not say it; "" is that
}

// Traits are what a command differs in from most, for which they are zero.
type Traits struct {
	Kind       tracing.Kind // the OpenTelemetry kind of its span; "" is INTERNAL
	NoDatabase bool         // it needs none; its Env.Engine is nil, and so it has no Env.Ledger
	// it makes sense only where its user's files are: no surface offers it to another machine, or to a tool's client
	HereOnly  bool
	ForPlaces bool // though HereOnly, the program of a machine that has joined may ask for it
	AtPlaces  bool // it runs where it is typed wherever the database is: its Env may have one that is Distant
	Document  bool // a document gives its answer key for key, as with all commands of some vocabularies
	BesideAny bool // every agent needs it: as a tool it is there whichever vocabulary is served
	// it makes the database where there is none, or does without; any other command says that there is none
	MakesOne bool
	// it goes on until it is told to stop; Ctrl-C ends it with the status of an interruption all the same
	UntilTold   bool
	ListsAgents bool // it shows whom one can write to: an error for a name that nobody has points to it

	// Last selects the messages that a person may mean by `last`, which is the newest of them; nil selects all.
	Last func(m *orchestrator.Message, caller string) bool

	// Patience is how long its document lets a call of it wait, where it is not known how long whoever asks waits for
	// an answer; 0 is as long as most do.
	Patience time.Duration

	// Confirm says what it does that cannot be undone, {name} being the value of that parameter: on a terminal a person
	// is asked first. With ConfirmWith that is so only where this parameter is given. {database} is the one of the
	// call, {foreseen} what the definition foresees, see Foreseeing.
	Confirm, ConfirmWith string

	// LooksOnly: it looks at things as they are, though it may write on the way. A database that is missing, full or
	// read-only is one of them, so that its span is written only if that is possible at once. A card that lists no
	// table to write says the same.
	LooksOnly bool
}

// handler is the function behind a command, which alone knows the types of its parameters and of its result.
type handler interface {
	run(ctx context.Context, env Env, d *Definition, raw json.RawMessage) (any, error)
	check(d *Definition, raw json.RawMessage) error
	zeroParams() any
	result() reflect.Type
}

// handlerOf is a handler of parameters P with the result R.
type handlerOf[P, R any] func(context.Context, Env, P) (R, error)

func (h handlerOf[P, R]) run(ctx context.Context, env Env, d *Definition, raw json.RawMessage) (any, error) {
	p, err := decodeAs[P](d, raw)
	if err == nil {
		err = d.onlyHere(env.Caller, p)
	}
	if err != nil {
		return nil, err
	}
	return h(ctx, env, p)
}

func (handlerOf[P, R]) check(d *Definition, raw json.RawMessage) error {
	_, err := decodeAs[P](d, raw)
	return err
}

func (handlerOf[P, R]) zeroParams() any {
	var zero P
	return zero
}

func (handlerOf[P, R]) result() reflect.Type { return reflect.TypeFor[R]() }

// Hands reports whether the command hands out what is unread again unless its answer was written.
func (d *Definition) Hands() bool { return d.handler.result().Implements(reflect.TypeFor[Handed]()) }

// decodeAs decodes the parameters of a command.
func decodeAs[P any](d *Definition, raw json.RawMessage) (p P, err error) {
	return p, parameter.Decode(raw, d.Params(), d.vocabulary.FoldCase, &p)
}

// Typed is a definition that still knows its types, as Define returns it.
type Typed[P, R any] struct{ *Definition }

// Define makes a command of a card and a handler. words are how it is called within its vocabulary, as in "agent add",
// and may begin with the vocabulary's own name, which is then part of the command's: "team idle" is `mailroom team
// idle` too. Its name has '_' between them, and its card is the file of that name with .md among the vocabulary's
// cards. A wrong definition (no card, a parameter without a description, an unknown check) panics when its card or
// its parameters are first asked for: it is a mistake in the program, and whoever adds a command to a catalogue has a
// test that asks.
func Define[P, R any](v *Vocabulary, words string, run func(context.Context, Env, P) (R, error)) Typed[P, R] {
	d := &Definition{
		Tool: strings.ReplaceAll(words, " ", "_"), Path: strings.Fields(parameter.Uncamel(words)),
		words: words, vocabulary: v, handler: handlerOf[P, R](run),
	}
	d.Name = v.Prefix + d.Tool
	if !v.TopLevel && d.Path[0] != v.Name {
		d.Path = append([]string{v.Name}, d.Path...)
	}
	return Typed[P, R]{d}
}

// mustBeRight panics if the definition is wrong.
func (d *Definition) mustBeRight(err error) {
	if err != nil {
		panic(fmt.Sprintf("command %s: %v", d.Name, err))
	}
}

func (d *Definition) parseCard() error {
	text, err := fs.ReadFile(d.vocabulary.Cards, d.Tool+".md")
	if err != nil {
		return fmt.Errorf("missing card: %w", err)
	}
	if d.card, err = parseCard(string(text)); err != nil {
		return fmt.Errorf("card: %w", err)
	}
	if want := "orchestrator." + d.vocabulary.Prefix + d.words; d.card.Command != want {
		return fmt.Errorf("card: front matter: command must be %q, but is %q", want, d.card.Command)
	}
	return nil
}

func (d *Definition) parseParams() (err error) {
	if d.params, err = parameter.Of(d.handler.zeroParams()); err != nil {
		return err
	}
	return d.checkNamed()
}

// checkNamed checks the names of parameters that Traits and Knowing have.
func (d *Definition) checkNamed() error {
	names := slices.Collect(maps.Keys(d.known))
	for _, inText := range InConfirm().FindAllString(d.Confirm, -1) {
		if inText != "{foreseen}" && inText != "{database}" {
			names = append(names, strings.Trim(inText, "{}"))
		}
	}
	if d.ConfirmWith != "" {
		names = append(names, d.ConfirmWith)
	}
	for _, name := range names {
		if !slices.ContainsFunc(d.params, func(p parameter.Param) bool { return p.Name == name }) {
			return fmt.Errorf("unknown parameter %s", name)
		}
	}
	return nil
}

// InConfirm finds the names of parameters in Traits.Confirm, {database} and {foreseen}, with their braces.
var InConfirm = pattern.New(`\{[^}]*\}`)

// With sets the traits of the command.
func (t Typed[P, R]) With(traits Traits) Typed[P, R] {
	t.Traits = traits
	return t
}

// Called gives the command a further name on the command line, as in "thread list". preset is what the name says
// already: a JSON object of parameters, or "". summary says in a sentence what it does then; "" leaves that to the
// command's own.
func (t Typed[P, R]) Called(words, preset, summary string) Typed[P, R] {
	w := Word{Path: strings.Fields(words), Summary: summary}
	if preset != "" {
		if err := json.Unmarshal([]byte(preset), &w.Preset); err != nil {
			panic(fmt.Sprintf("command %s: the preset of %s: %v", t.Name, words, err))
		}
	}
	t.Words = append(t.Words, w)
	return t
}

// Foreseeing says what {foreseen} is in Traits.Confirm. It changes nothing.
func (t Typed[P, R]) Foreseeing(foresee func(context.Context, Env, P) (string, error)) Typed[P, R] {
	t.foresee = func(ctx context.Context, env Env, raw json.RawMessage) (string, error) {
		p, err := decodeAs[P](t.Definition, raw)
		if err != nil {
			return "", err
		}
		return foresee(ctx, env, p)
	}
	return t
}

// Foreseen returns what {foreseen} is in Traits.Confirm for these parameters; "" where it does not stand there.
func (d *Definition) Foreseen(ctx context.Context, env Env, raw json.RawMessage) (string, error) {
	if d.foresee == nil {
		return "", nil
	}
	return d.foresee(ctx, env, raw)
}

// WithDatabaseAt lets the parameters say where the database is; "" leaves it to the surface.
func (t Typed[P, R]) WithDatabaseAt(path func(P) string) Typed[P, R] {
	t.database = func(raw json.RawMessage) string {
		p, err := decodeAs[P](t.Definition, raw)
		if err != nil {
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

// Params returns the parameters in the order of their struct. The list is not to be changed.
func (d *Definition) Params() []parameter.Param {
	d.readParams.Do(func() { d.mustBeRight(d.parseParams()) })
	return d.params
}

// Positional returns the parameters that may stand as arguments on the command line, in their order there.
func (d *Definition) Positional() (list []*parameter.Param) {
	for i := range d.Params() {
		if d.Params()[i].Arg != "" {
			list = append(list, &d.Params()[i])
		}
	}
	slices.SortStableFunc(list, func(a, b *parameter.Param) int { return strings.Compare(a.Arg, b.Arg) }) // "rest" sorts behind digits
	return list
}

// Vocabulary returns the vocabulary that the command belongs to.
func (d *Definition) Vocabulary() *Vocabulary { return d.vocabulary }

// Card returns the command's card.
func (d *Definition) Card() *Card {
	d.readCard.Do(func() { d.mustBeRight(d.parseCard()) })
	return d.card
}

// Check validates params as Run would, without running anything.
func (d *Definition) Check(raw json.RawMessage) error { return d.handler.check(d, raw) }

// CommandLine is how the command is called from a shell: by its name for people, if it has one.
func (d *Definition) CommandLine() string { return d.CommandLines()[0] }

// CommandLines are all the ways in which the command is called from a shell.
func (d *Definition) CommandLines() []string {
	lines := []string{"mailroom " + strings.Join(d.Path, " ")}
	for _, w := range d.Words {
		line := "mailroom " + strings.Join(w.Path, " ")
		if w.Preset == nil {
			lines = slices.Insert(lines, 0, line)
		} else {
			lines = append(lines, line)
		}
	}
	return lines
}
