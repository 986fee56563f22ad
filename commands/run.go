package commands

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"sync"

	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// Answer is what a command that succeeded says. As JSON it is one object: success and action first, then the result's
// own keys.
type Answer struct {
	Action string
	Result any

	span *tracing.Span // of its run
}

// MarshalJSON implements json.Marshaler.
func (a Answer) MarshalJSON() ([]byte, error) {
	body, err := orchestrator.JSON(WithLists(a.Result))
	if err != nil {
		return nil, err
	}
	head, err := a.head()
	return joinObjects(head, body), err
}

func (a Answer) head() ([]byte, error) {
	action, err := orchestrator.JSON(a.Action)
	return slices.Concat([]byte(`{"success":true,"action":`), action, []byte("}")), err
}

// Texter is a result that has a form for people of its own.
type Texter interface{ Text(w *terminal.Text) }

// Opener is the result of a question for an answer that may still come: then it is open.
type Opener interface{ Open() bool }

// ToolTexter is a result with a text for the clients of MCP, which show a model that text; programs read the structured
// result beside it. It is not made harmless for a terminal.
type ToolTexter interface{ ToolText() string }

// Pieced is a result whose JSON object may be so long that it is not to be in memory twice. Pieces returns it in
// pieces. The first has at least one of its members. They must not be changed.
type Pieced interface{ Pieces() ([][]byte, error) }

// Pieces returns the answer as JSON, in one piece unless its result is Pieced.
func (a Answer) Pieces() ([][]byte, error) {
	long, ok := a.Result.(Pieced)
	if !ok {
		whole, err := a.MarshalJSON()
		return [][]byte{whole}, err
	}
	pieces, err := long.Pieces()
	if err != nil {
		return nil, err
	}
	head, err := a.head()
	return slices.Concat([][]byte{joinObjects(head, pieces[0])}, pieces[1:]), err
}

// WithLists puts an empty list in place of every missing one among a result's own keys: who reads it finds a list.
func WithLists(result any) any {
	v := reflect.ValueOf(result)
	if _, ownForm := result.(json.Marshaler); ownForm || v.Kind() != reflect.Struct {
		return result
	}
	isMissing := func(list []int) bool { return v.FieldByIndex(list).IsNil() }
	lists := listsOf(v.Type())
	if !slices.ContainsFunc(lists, isMissing) {
		return result
	}
	filled := reflect.New(v.Type()).Elem()
	filled.Set(v)
	for _, list := range lists {
		if isMissing(list) {
			field := filled.FieldByIndex(list)
			field.Set(reflect.MakeSlice(field.Type(), 0, 0))
		}
	}
	return filled.Interface()
}

var listsOfTypes sync.Map // of reflect.Type to [][]int

// listsOf returns the indexes of the fields of a struct type that are lists among its own keys, as FieldByIndex takes
// them.
func listsOf(t reflect.Type) (lists [][]int) {
	if known, ok := listsOfTypes.Load(t); ok {
		return known.([][]int)
	}
	for i := range t.NumField() {
		field := t.Field(i)
		switch {
		case !field.IsExported():
		case field.Anonymous && field.Type.Kind() == reflect.Struct:
			for _, below := range listsOf(field.Type) {
				lists = append(lists, append([]int{i}, below...))
			}
		case field.Type.Kind() == reflect.Slice && !field.Type.Implements(reflect.TypeFor[json.Marshaler]()):
			lists = append(lists, []int{i})
		}
	}
	listsOfTypes.Store(t, lists)
	return lists
}

// Named is a result that answers under another action than its command's: a dispatcher's.
type Named interface{ ActionName() string }

// Exiter is a result whose answer ends the program with an exit status of its own: a doctor's that found a problem.
type Exiter interface{ ExitStatus() int }

// Run decodes the parameters strictly, checks the caller's right, and runs the handler within a span. Its errors carry
// a code; one without is a bug, reported as internal with the trace id. A panic of the handler is such a bug.
func (d *Definition) Run(ctx context.Context, env Env, raw json.RawMessage) (Answer, error) {
	if err := d.permit(ctx, env); err != nil {
		return Answer{}, err
	}
	welcome := announceNewName(ctx, env)
	ctx, span := d.begin(ctx, env)
	var taken []Taken
	result, err := d.guarded(ctx, env,
		func() (any, error) { return d.run(context.WithValue(ctx, takenKey{}, &taken), env, raw) })
	d.end(ctx, env, span, err)
	welcome()
	if err != nil {
		for _, t := range taken {
			Settle(ctx, env, Answer{Action: d.Name, Result: t, span: span}, false)
		}
		return Answer{}, withTrace(err, span)
	}
	answer := Answer{Action: d.Name, Result: result, span: span}
	if named, ok := result.(Named); ok {
		answer.Action = named.ActionName()
	}
	return answer, nil
}

// announceNewName returns a function to call once a command has run. It tells a person that the command has made the
// caller's name known, since the name may be mistyped.
func announceNewName(ctx context.Context, env Env) func() {
	name := env.Caller.Name
	if env.Engine == nil || env.Call.Narrator == nil || name == "" {
		return func() {}
	}
	registered := func() (itself, known bool) {
		conf, err := env.Ledger.Configuration(ctx)
		if err != nil || conf.Agents[name] == nil {
			return false, err != nil
		}
		return conf.Agents[name].RegisteredBy == name, true
	}
	if _, known := registered(); known {
		return func() {}
	}
	return func() {
		if itself, _ := registered(); itself {
			env.Call.Narrator.Printf("Added the new agent %s. If the name is a typo, run `mailroom agent remove %s`.\n", name, name)
		}
	}
}

// permit refuses a command where there is no database, one that only administrators may run, and a caller that acts for
// an agent whose name another has now.
func (d *Definition) permit(ctx context.Context, env Env) error {
	if env.Engine != nil {
		if !d.MakesOne && !d.LooksOnly && env.Ledger.NoneYet() {
			if err := env.Ledger.Look(ctx, func(*store.Conn) error { return nil }); err != nil {
				return err
			}
		}
		err := env.Ledger.CheckSuccession(ctx, env.Caller.Name, env.Caller.Since)
		if orchestrator.CodeOf(err) == orchestrator.PermissionDenied { // of any other error the command itself tells
			return err
		}
	}
	if env.Caller.Admin {
		return nil
	}
	if d.Card().Rights != "self" {
		return orchestrator.Errorf(orchestrator.PermissionDenied, "only administrators can run %s", d.Name)
	}
	return nil
}

func (d *Definition) begin(ctx context.Context, env Env) (context.Context, *tracing.Span) {
	ctx, span := tracing.Start(ledger.WithIdentity(ctx, env.Caller.Name), d.Name)
	span.Kind, span.Caller, span.Scheduled = cmp.Or(d.Kind, tracing.Internal), env.Caller.Name, env.Call.Scheduled
	if env.Caller.Name == "" && env.Caller.Remote { // a session of the console
		span.Caller = orchestrator.Operator
	}
	span.Set(tracing.AttrSystem, "mailroom")
	span.Set(tracing.AttrOperation, d.Name)
	if env.Engine != nil {
		span.Begin(env.Ledger.Now())
	}
	return ctx, span
}

func (d *Definition) end(ctx context.Context, env Env, span *tracing.Span, err error) {
	if env.Engine == nil {
		return
	}
	env.Ledger.EndSpan(ctx, span, err, func() bool { return d.LooksOnly || d.Card().OnlyReads() })
}

// guarded runs a handler, turns its panic into an error and asks the catalogue's Guard.
func (d *Definition) guarded(ctx context.Context, env Env, run func() (any, error)) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			result, err = nil, fmt.Errorf("panic in %s: %v\n%s", d.Name, p, debug.Stack())
		}
	}()
	if c := env.Catalogue; c != nil && c.Guard != nil && env.Engine != nil {
		release := c.Guard(d, env.Ledger)
		defer func() {
			if gerr := release(); gerr != nil && err == nil {
				result, err = nil, gerr
			}
		}()
	}
	return run()
}

// withTrace makes an error without a code an internal one, and says under which trace to look for it, unless it is
// about a file: what is wrong there is no bug.
func withTrace(err error, span *tracing.Span) error {
	if own, ok := errors.AsType[*orchestrator.Error](err); ok && own.Code != orchestrator.Internal {
		return err
	}
	switch {
	case errors.Is(err, context.Canceled):
		return &orchestrator.Error{Code: orchestrator.Unavailable, Message: "interrupted", Err: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &orchestrator.Error{Code: orchestrator.Unavailable,
			Message: "not finished within the caller's time limit", Err: err}
	}
	isFile := errors.As(err, new(*fs.PathError)) || errors.As(err, new(*os.LinkError))
	if isFile && !errors.Is(err, fs.ErrClosed) {
		return &orchestrator.Error{Code: orchestrator.Unavailable, Message: "cannot use a file", Err: err,
			Hint: "Check the path, its permissions, and the free disk space"}
	}
	return Bug(err, span.TraceID)
}

// Bug returns the error for whoever met a bug, which err tells of; the log or the trace has more under the trace id.
func Bug(err error, traceID string) error {
	return &orchestrator.Error{
		Code: orchestrator.Internal, Message: "a bug in Mailroom", Err: err,
		Hint:    "Report the bug with the trace ID " + traceID,
		Details: map[string]any{"trace_id": traceID},
	}
}

// decodedBatch runs a command on parameters that were decoded before.
type decodedBatch func(ctx context.Context, env Env, atomic bool) ([]Answer, []error)

// WithBatch gives a command a second handler for many calls at once, in one transaction where that can be. prepare
// makes what it takes of the parameters of a call. Results and errors have one element per call.
func WithBatch[P, R, D any](t Typed[P, R], prepare func(*P, Caller) (D, error),
	run func(ctx context.Context, env Env, calls []D, atomic bool) ([]R, []error)) Typed[P, R] {
	t.batch = func(lines []json.RawMessage) decodedBatch {
		ps, errs := make([]P, len(lines)), make([]error, len(lines))
		for i, raw := range lines {
			ps[i], errs[i] = decodeAs[P](t.Definition, raw)
		}
		return func(ctx context.Context, env Env, atomic bool) ([]Answer, []error) {
			answers := make([]Answer, len(ps))
			var calls []D
			var places []int
			for i := range ps {
				if errs[i] != nil {
					continue
				}
				call, err := prepare(&ps[i], env.Caller)
				if errs[i] = err; err == nil {
					calls, places = append(calls, call), append(places, i)
				}
			}
			if len(calls) == 0 || (atomic && len(calls) < len(ps)) {
				return answers, errs
			}
			results, failures := run(ctx, env, calls, atomic)
			for j, i := range places {
				if errs[i] = failures[j]; errs[i] == nil {
					answers[i] = Answer{Action: t.Name, Result: results[j]}
				}
			}
			return answers, errs
		}
	}
	return t
}

// TakesBatch reports whether DecodeBatch can be called.
func (d *Definition) TakesBatch() bool { return d.batch != nil }

// Batch is many calls of one command, decoded and not run yet.
type Batch struct {
	d   *Definition
	n   int
	run decodedBatch
}

// DecodeBatch decodes the params of many calls. Bad ones are reported by Run.
func (d *Definition) DecodeBatch(lines []json.RawMessage) *Batch {
	return &Batch{d: d, n: len(lines), run: d.batch(lines)}
}

// Run is Definition.Run for all calls of the batch, under one span. Call it once. With atomic, one bad params means
// that nothing is done; the good ones then have neither an answer nor an error of their own.
func (b *Batch) Run(ctx context.Context, env Env, atomic bool) ([]Answer, []error) {
	d := b.d
	answers, errs := make([]Answer, b.n), make([]error, b.n)
	if err := d.permit(ctx, env); err != nil {
		return answers, slices.Repeat([]error{err}, b.n)
	}
	ctx, span := d.begin(ctx, env)
	span.Set(tracing.AttrBatchCount, b.n)
	_, err := d.guarded(ctx, env, func() (any, error) {
		answers, errs = b.run(ctx, env, atomic)
		return nil, nil
	})
	failed := err
	for i := range errs {
		if err != nil {
			errs[i] = err
		}
		if errs[i] != nil {
			failed = errs[i]
			errs[i] = withTrace(errs[i], span)
		}
	}
	d.end(ctx, env, span, failed)
	return answers, errs
}

// ActAs returns who acts: the agent that the parameters name, or the caller itself when they name none; in a shell
// without a name that is the operator. A caller with a name cannot act for another.
func ActAs(caller Caller, named string) (string, error) {
	switch {
	case named == "" && caller.Name == "" && caller.Shell:
		return orchestrator.Operator, nil
	case named == "" && caller.Name == "":
		return "", orchestrator.Errorf(orchestrator.InvalidParams, "no agent is named").
			WithHint("Name the agent in the parameters, with --as, or in MAILROOM_AGENT")
	case named == "":
		return caller.Name, nil
	case caller.Name != "" && named != caller.Name:
		return "", orchestrator.Errorf(orchestrator.PermissionDenied, "%s cannot act for %s", caller.Name, named).
			WithHint("Leave out the name; you are the agent %s", caller.Name)
	}
	return named, nil
}

// ReadAs is ActAs for a command that only reads. Over MCP and HTTP a program's first call may be one, and makes its
// name known; on the command line, where a name may be mistyped, an unknown one is an error, unknown_recipient.
func ReadAs(ctx context.Context, env Env, named string) (string, error) {
	name, err := ActAs(env.Caller, named)
	if err != nil || !env.Caller.Shell || env.Call.Model {
		return name, err
	}
	return name, agents.MustKnow(ctx, env.Ledger, name)
}
