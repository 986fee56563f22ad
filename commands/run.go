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

// Answer is the answer of a command that succeeded. As JSON it is one object: success and action first, then the keys
// of the result.
type Answer struct {
	Action string
	Result any

	span *tracing.Span // of the command's run
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

// Texter is a result with a text form for people.
type Texter interface{ Text(w *terminal.Text) }

// Opener is the result of a question whose answer may still arrive. Open reports whether the answer is outstanding.
type Opener interface{ Open() bool }

// ToolTexter is a result with a text for MCP clients, which show that text to a model. Programs read the structured
// result beside it. The text is not escaped for a terminal.
type ToolTexter interface{ ToolText() string }

// Pieced is a result whose JSON object may be too long to be held in memory twice. Pieces returns the object in
// pieces. The first piece contains at least one member. Callers must not change the pieces.
type Pieced interface{ Pieces() ([][]byte, error) }

// Pieces returns the answer as JSON, in one piece unless the result is Pieced.
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

// WithLists returns a result with an empty list in place of each nil list among its own keys, so that readers always
// find a list.
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

var listsOfTypes sync.Map // reflect.Type to [][]int

// listsOf returns the indexes, in the form of FieldByIndex, of the fields of a struct type that are lists among its
// own keys.
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

// Named is a result with an action other than the command's name, such as the result of a dispatcher.
type Named interface{ ActionName() string }

// Exiter is a result that sets the exit status of the program, such as that of a doctor that found a problem.
type Exiter interface{ ExitStatus() int }

// Run decodes the parameters strictly, checks the caller's rights, and runs the handler within a span. Its errors
// have a code. An error without a code, or a panic of the handler, is a bug and becomes an internal error with the
// trace id.
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

// announceNewName returns a function to call after a command has run. The function informs a person that the command
// registered the caller's name, because the name may be mistyped.
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

// permit returns an error if the database does not exist, if only administrators may run the command, or if the
// caller acts for an agent whose name now belongs to another agent.
func (d *Definition) permit(ctx context.Context, env Env) error {
	if env.Engine != nil {
		if !d.MakesOne && !d.LooksOnly && env.Ledger.NoneYet() {
			if err := env.Ledger.Look(ctx, func(*store.Conn) error { return nil }); err != nil {
				return err
			}
		}
		err := env.Ledger.CheckSuccession(ctx, env.Caller.Name, env.Caller.Since)
		if orchestrator.CodeOf(err) == orchestrator.PermissionDenied { // the command itself reports any other error
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

// guarded runs a handler within the catalogue's Guard, and turns a panic of the handler into an error.
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

// withTrace turns an error without a code into an internal one that names the trace. Interruptions, timeouts and
// errors about a file become unavailable instead, because they are not bugs.
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

// Bug returns the error that reports a bug to the caller. The log and the trace have more under the trace id.
func Bug(err error, traceID string) error {
	return &orchestrator.Error{
		Code: orchestrator.Internal, Message: "a bug in Mailroom", Err: err,
		Hint:    "Report the bug with the trace ID " + traceID,
		Details: map[string]any{"trace_id": traceID},
	}
}

// decodedBatch runs a command with parameters that are already decoded.
type decodedBatch func(ctx context.Context, env Env, atomic bool) ([]Answer, []error)

// WithBatch gives a command a second handler, which runs many calls at once, in one transaction if possible. prepare
// converts the parameters of one call. The results and errors have one element per call.
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

// Batch is many calls of one command, decoded but not yet run.
type Batch struct {
	d   *Definition
	n   int
	run decodedBatch
}

// DecodeBatch decodes the parameters of many calls. Run reports those that are invalid.
func (d *Definition) DecodeBatch(lines []json.RawMessage) *Batch {
	return &Batch{d: d, n: len(lines), run: d.batch(lines)}
}

// Run runs all calls of the batch under one span. It must be called once. If atomic is true and the parameters of one
// call are invalid, nothing runs, and the other calls have neither an answer nor an error.
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

// ActAs returns the agent that acts: the agent that the parameters name or, if they name none, the caller. A caller
// without a name in a shell acts as the operator. A caller with a name cannot act for another agent.
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

// ReadAs returns the agent for which a command reads, by the rules of ActAs. In a shell, where a name may be
// mistyped, an unknown name is the error unknown_recipient. Over MCP and HTTP, the first call of a program may be a
// command that only reads, and registers its name.
func ReadAs(ctx context.Context, env Env, named string) (string, error) {
	name, err := ActAs(env.Caller, named)
	if err != nil || !env.Caller.Shell || env.Call.Model {
		return name, err
	}
	return name, agents.MustKnow(ctx, env.Ledger, name)
}
