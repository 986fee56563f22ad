// Package commands defines what callers can ask of Mailroom: the definition of a command, the catalogue of all
// commands, and the one function through which every surface runs a command.
//
// A command is defined once, by a Markdown card and a typed handler. Flags, `invoke NAME JSON`, schedules, tools and
// HTTP paths are derived from that definition. No surface refers to a command by name. Source: architecture.md, "A
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

// Env holds what a handler may use.
type Env struct {
	*delivery.Engine // the open database, with its Ledger; nil for a command without a database
	Caller           Caller
	Distant          *Distant // replaces Engine if the database is on another machine
	Catalogue        *Catalogue
	Log              *slog.Logger
	Call             Call
}

// Database returns the name of the database, in the form of --db.
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

// Distant is a database on another machine, used by a command that runs on this one.
type Distant struct {
	Name  string // in the form of --db
	State string // the user's state folder on this machine; "" for none
	// Run runs a command of the catalogue on the other machine and stores the answer in result. It returns the
	// command's errors, and unavailable if the other machine cannot be reached.
	Run   func(ctx context.Context, command string, params, result any) error
	Close func() error
}

// Call holds the special properties of one call of a command.
type Call struct {
	Scheduled bool          // a schedule runs the command; a run that changes nothing leaves no trace
	Patience  time.Duration // how long the command may wait before its caller abandons the call; 0 for no limit
	Model     bool          // a model reads the answer, and its host shows only part of a long one
	// Aside receives explanations to a person of why nothing happens yet. It is separate from the answer, and nil if
	// no person sees it.
	Aside *terminal.Text
	// Narrator receives reports of progress while the command runs. It is nil if programs read the answer.
	Narrator *terminal.Text

	// Ask asks a question of the other machine on which the command line was typed. It is nil if the line was typed
	// here.
	Ask func(question string) ([]byte, error)

	// Progress, unless nil, receives the progress of long work. Several goroutines may call it at once. A total of 0
	// means that the total is unknown.
	Progress func(done, total int64, unit string)
}

// Questions for Call.Ask. The other machine answers them with connect.Look.
const (
	Connections     = "connections"
	MendConnections = "mend connections"
)

// Caller is who runs a command.
type Caller struct {
	Name    string // of the agent; "" for the administrator
	Session string
	Admin   bool // may run commands whose card has rights: admin
	Remote  bool // calls over the network, and may name no files or programs of this machine (overnetwork.go)
	Named   bool // the name was given with --as, not through the environment
	// Shell reports whether the caller uses a shell or standard input on this machine, or (with Remote) the console.
	// Without a name, such a caller sends and reads as the operator.
	Shell bool
	// Since is when the agent was added for which the calling program was started; "" if the program was started for
	// no agent.
	Since string
	// Process is the id of a process. When that process ends, messages that the caller took under a lease become
	// unread again. 0 means that no process is known.
	Process int
}

// Asks describes the caller to people who read about the call later: an agent, or the operator and where the operator
// works. It returns "" if the caller is unknown.
func (c *Caller) Asks() string {
	switch {
	case c.Name != "" || !c.Shell:
		return c.Name
	case c.Remote:
		return "the operator, in the console"
	}
	return "the operator, in a terminal"
}

// Vocabulary is a family of commands that have their own cards and one way of writing keys.
type Vocabulary struct {
	Name     string
	Cards    fs.FS
	FoldCase bool // keys match without regard to case: BATCH_SIZE is batch_size
	TopLevel bool // `mailroom send`, not `mailroom route send`
	Document bool // a document specifies the keys of the answers, which programs read
	// Prefix begins the names of the commands where other vocabularies are served too, because those use some of the
	// same names for something else. On the command line, the name of the vocabulary distinguishes the commands.
	Prefix string
}

// IsDocument reports whether a document specifies the keys of the command's answer, so that programs read it.
func (d *Definition) IsDocument() bool { return d.Document || d.vocabulary.Document }

// Definition is one command. It is immutable once the catalogue is built, and safe for concurrent use.
type Definition struct {
	Name  string   // with '_': agent_add; unique in a catalogue
	Tool  string   // Name without the vocabulary's prefix
	Path  []string // on the command line: agent add
	Words []Word   // further command-line names, for people
	Traits

	words      string // the words given to Define
	vocabulary *Vocabulary
	handler    handler
	database   func(raw json.RawMessage) string
	batch      func(lines []json.RawMessage) decodedBatch
	known      map[string]KnownValues // of parameters
	foresee    func(ctx context.Context, env Env, raw json.RawMessage) (string, error)

	// These are parsed when they are first needed, because a program that runs one command needs only that command's.
	readParams, readCard sync.Once
	params               []parameter.Param
	card                 *Card
}

// Word is a further name of a command on the command line, for people: `mailroom show ID` runs `mailroom mail
// get_message ID`.
type Word struct {
	Path    []string
	Preset  map[string]json.RawMessage // parameters that the name sets unless the command line does
	Summary string                     // one sentence; "" if the summary of the command also fits this name
}

// Traits holds the properties in which a command may differ from most others. Most commands have the zero value.
type Traits struct {
	Kind       tracing.Kind // the OpenTelemetry kind of its span; "" for INTERNAL
	NoDatabase bool         // the command needs no database; its Env.Engine is nil, so it has no Env.Ledger
	// HereOnly reports whether the command makes sense only on the machine with the user's files. No surface offers
	// such a command to another machine or to the client of a tool.
	HereOnly  bool
	ForPlaces bool // despite HereOnly, the program on a machine that has joined may call it
	AtPlaces  bool // the command runs where it is typed, wherever the database is; its Env may have a Distant
	Document  bool // a document specifies the keys of the answer; Vocabulary.Document applies to all commands
	BesideAny bool // every agent needs the command: it is offered as a tool whichever vocabulary is served
	// MakesOne reports whether the command creates a missing database, or works without one. Without a database, any
	// other command returns an error.
	MakesOne bool
	// UntilTold reports whether the command runs until it is stopped. Ctrl-C still ends the command with the exit
	// status of an interruption.
	UntilTold   bool
	ListsAgents bool // the command lists possible recipients; an error for an unknown name refers to it

	// Last selects the messages to which a person may refer as `last`, the newest one. nil selects all messages.
	Last func(m *orchestrator.Message, caller string) bool

	// Patience is how long the command's document allows a call to wait. It applies if the time limit of the caller
	// is unknown. 0 means the usual limit of callers.
	Patience time.Duration

	// Confirm describes the effect that cannot be undone. On a terminal, a person is asked to confirm it first. In
	// the text, {name} is replaced by the value of that parameter, {database} by the database of the call, and
	// {foreseen} by the result of the function set with Foreseeing. If ConfirmWith is set, the question is asked only
	// if that parameter is given.
	Confirm, ConfirmWith string

	// LooksOnly reports whether the command only inspects the current state, although it may write while doing so.
	// Such a command also runs if the database is missing, full or read-only, so its span is written only if that is
	// possible without waiting. The spans of commands whose card lists no table to write are treated the same way.
	LooksOnly bool
}

// handler is the function behind a command. Only the handler knows the types of the parameters and the result.
type handler interface {
	run(ctx context.Context, env Env, d *Definition, raw json.RawMessage) (any, error)
	check(d *Definition, raw json.RawMessage) error
	zeroParams() any
	result() reflect.Type
}

// handlerOf is a handler with parameters P and result R.
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

// Hands reports whether the command hands out messages that become unread again unless its answer is written.
func (d *Definition) Hands() bool { return d.handler.result().Implements(reflect.TypeFor[Handed]()) }

// decodeAs decodes the parameters of a command.
func decodeAs[P any](d *Definition, raw json.RawMessage) (p P, err error) {
	return p, parameter.Decode(raw, d.Params(), d.vocabulary.FoldCase, &p)
}

// Typed is a Definition together with the types of its parameters and result. Define returns it.
type Typed[P, R any] struct{ *Definition }

// Define returns a command built from a card and a handler. words is how the command is called within its vocabulary,
// as in "agent add". It may begin with the vocabulary's own name, which is then part of the command's name: "team
// idle" is called as `mailroom team idle`. The name of the command is words with '_' for each space, and the card is
// the file of that name with .md among the vocabulary's cards. An invalid definition (no card, a parameter without a
// description, an unknown check) panics when its card or its parameters are first used. Such a definition is a
// mistake in the program, and a test of each catalogue finds it.
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

// mustBeRight panics if err, an error in the definition, is not nil.
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

// checkNamed checks that the parameters named by Traits and by Knowing exist.
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

// InConfirm matches the placeholders in Traits.Confirm, with their braces: parameter names, {database} and
// {foreseen}.
var InConfirm = pattern.New(`\{[^}]*\}`)

// With sets the traits of the command.
func (t Typed[P, R]) With(traits Traits) Typed[P, R] {
	t.Traits = traits
	return t
}

// Called adds a further name on the command line, as in "thread list". preset is a JSON object of the parameters that
// the name sets, or "". summary describes in one sentence what the name does; if it is "", the summary of the command
// applies.
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

// Foreseeing sets the function that returns the value of {foreseen} in Traits.Confirm. The function must change
// nothing.
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

// Foreseen returns the value of {foreseen} in Traits.Confirm for these parameters, or "" if Foreseeing was not
// called.
func (d *Definition) Foreseen(ctx context.Context, env Env, raw json.RawMessage) (string, error) {
	if d.foresee == nil {
		return "", nil
	}
	return d.foresee(ctx, env, raw)
}

// WithDatabaseAt sets a function that derives the path of the database from the parameters. If the function returns
// "", the surface chooses the database.
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

// DatabaseAt returns the path of the database that the parameters give, or "" if they give none.
func (d *Definition) DatabaseAt(raw json.RawMessage) string {
	if d.database == nil {
		return ""
	}
	return d.database(raw)
}

// Params returns the parameters in the order of their struct. Callers must not change the list.
func (d *Definition) Params() []parameter.Param {
	d.readParams.Do(func() { d.mustBeRight(d.parseParams()) })
	return d.params
}

// Positional returns the parameters that can be given as arguments on the command line, in their order there.
func (d *Definition) Positional() (list []*parameter.Param) {
	for i := range d.Params() {
		if d.Params()[i].Arg != "" {
			list = append(list, &d.Params()[i])
		}
	}
	// "rest" sorts after digits.
	slices.SortStableFunc(list, func(a, b *parameter.Param) int { return strings.Compare(a.Arg, b.Arg) })
	return list
}

// Vocabulary returns the vocabulary that the command belongs to.
func (d *Definition) Vocabulary() *Vocabulary { return d.vocabulary }

// Card returns the command's card.
func (d *Definition) Card() *Card {
	d.readCard.Do(func() { d.mustBeRight(d.parseCard()) })
	return d.card
}

// Check validates raw as Run would, without running the command.
func (d *Definition) Check(raw json.RawMessage) error { return d.handler.check(d, raw) }

// CommandLine returns how the command is called from a shell: its name for people, if it has one.
func (d *Definition) CommandLine() string { return d.CommandLines()[0] }

// CommandLines returns all the ways in which the command is called from a shell.
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
