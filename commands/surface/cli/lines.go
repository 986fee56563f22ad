package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"mailroom/commands"
	"mailroom/commands/surface"
	"mailroom/orchestrator"
)

// errNotAlone is the answer to a line that was good, in an atomic run in which another line was not.
var errNotAlone = error(orchestrator.Errorf(orchestrator.Conflict, "not run, because another line of the atomic run was rejected"))

// linesPerBatch is the most lines of --stdin that share one transaction.
const linesPerBatch = 1000

// lastLines is how long a run that met a fault of the database goes on answering, from one line to the next: a file is
// answered to its end, and who goes on writing for days learns that the run has ended.
const lastLines = time.Second

// badLines is what a run returns in which some lines were refused.
const badLines = exit(65)

// numbered is one line of standard input.
type numbered struct {
	number int // counts from 1, blank lines too
	raw    json.RawMessage
	err    error // why the line could not be read; raw is not to be used then
}

// runLines runs a command once for every line of standard input and answers each with a line, in order, once its effect
// is on disk. It never waits for more input while lines are there to be run. With atomic all lines are read first, and
// all are run or none.
//
// It is a pipeline: while one batch is written to the database, the next is decoded and the last answered. An
// interruption ends it behind the batch that is being written, which is still answered. After a fault that the next
// lines would meet too, such as a full disk, nothing more is run, and what comes is answered with that.
func (p *Program) runLines(ctx context.Context, env commands.Env, d *commands.Definition, atomic bool) error {
	report, finish := p.progress()
	env.Call.Progress = report
	defer finish()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	lines := make(chan numbered, linesPerBatch)
	stage(cancel, func() { close(lines) }, func() { readLines(ctx, p.In, lines) })
	run := &lineRun{p: p, ctx: ctx, env: env, d: d}
	if atomic {
		return run.atomic(lines)
	}
	decoded, done := make(chan *lineBatch, 1), make(chan *lineBatch, 1)
	ending := make(chan struct{})
	stage(cancel, func() { close(decoded) }, func() {
		for {
			batch := nextBatch(ctx, lines, ending)
			if len(batch) == 0 || !pass(ctx, decoded, run.decode(batch)) {
				return
			}
		}
	})
	answered, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	stage(cancel, func() { close(done) }, func() {
		var fault error
		for b := range decoded {
			if ctx.Err() != nil {
				return
			}
			if fault != nil {
				b.refuse(fault)
			} else if b.run(ctx, env, false); b.stuck() >= 0 {
				fault = b.fault()
				close(ending)
			}
			if !pass(answered, done, b) {
				return
			}
		}
	})
	for b := range done {
		if err := run.answer(b); err != nil {
			return err
		}
	}
	if ctx.Err() != nil && run.worst == nil {
		return ended(ctx)
	}
	return run.end()
}

// stage runs one stage of the pipeline, then end, which tells the next stage that nothing more comes. A panic cancels
// all stages, and does so before end: what was read until then must not pass for all there was.
func stage(cancel context.CancelCauseFunc, end, run func()) {
	go func() {
		defer end()
		defer func() {
			if e := recover(); e != nil {
				cancel(&orchestrator.Error{
					Code: orchestrator.Internal, Message: fmt.Sprintf("panic: %v", e),
					Err: fmt.Errorf("%s", debug.Stack()),
				})
			}
		}()
		run()
	}()
}

// ended is the error of a run that did not come to the end of its input.
func ended(ctx context.Context) error {
	if bug, ok := errors.AsType[*orchestrator.Error](context.Cause(ctx)); ok {
		return bug
	}
	return interrupted(ctx.Err())
}

// pass hands something on to the next stage, unless ctx ends first.
func pass[T any](ctx context.Context, to chan<- T, what T) bool {
	select {
	case to <- what:
		return true
	case <-ctx.Done():
		return false
	}
}

// nextBatch waits for a line, and takes what is there behind it. An empty batch is the end of the input, or of ctx; or,
// once ending is closed, that no line has come for a while.
func nextBatch(ctx context.Context, lines <-chan numbered, ending <-chan struct{}) (batch []numbered) {
	for late := (<-chan time.Time)(nil); len(batch) == 0; {
		select {
		case first, ok := <-lines:
			if !ok {
				return nil
			}
			batch = append(batch, first)
		case <-ending:
			ending, late = nil, time.After(lastLines)
		case <-late:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
	for len(batch) < linesPerBatch {
		select {
		case next, ok := <-lines:
			if !ok {
				return batch
			}
			batch = append(batch, next)
		default:
			return batch // nothing more is there now
		}
	}
	return batch
}

// lineBatch is lines that run together, with one answer or error each.
type lineBatch struct {
	lines   []numbered
	decoded *commands.Batch
	places  []int // in lines, of those that could be read
	answers []commands.Answer
	errs    []error
}

// decode decodes the lines that could be read.
func (r *lineRun) decode(lines []numbered) *lineBatch {
	b := &lineBatch{lines: lines, answers: make([]commands.Answer, len(lines)), errs: make([]error, len(lines))}
	var raws []json.RawMessage
	for i, line := range lines {
		if b.errs[i] = line.err; line.err == nil {
			raws, b.places = append(raws, line.raw), append(b.places, i)
		}
	}
	b.decoded = r.d.DecodeBatch(raws)
	return b
}

// run runs what was decoded; with atomic all of it or nothing, and nothing if a line could not be read.
func (b *lineBatch) run(ctx context.Context, env commands.Env, atomic bool) {
	if len(b.places) == 0 || (atomic && len(b.places) < len(b.lines)) {
		return
	}
	answers, errs := b.decoded.Run(ctx, env, atomic)
	for j, i := range b.places {
		b.answers[i], b.errs[i] = answers[j], errs[j]
	}
}

// refuse answers each line that could be read with an error.
func (b *lineBatch) refuse(err error) {
	for _, i := range b.places {
		b.errs[i] = err
	}
}

// stuck returns the index of the first line that failed for a reason which further lines would meet as well, such as a
// full disk; -1 if there is none.
func (b *lineBatch) stuck() int {
	return slices.IndexFunc(b.errs, func(err error) bool {
		var e *orchestrator.Error
		return noLinesFault(err) && !(errors.As(err, &e) && e.Recipient != "") // a recipient's backlog is no other line's fault
	})
}

// fault returns the error for all further lines, given that stuck found one.
func (b *lineBatch) fault() error {
	at := b.stuck()
	e := &orchestrator.Error{Code: orchestrator.CodeOf(b.errs[at]), Err: b.errs[at]}
	e.Message = fmt.Sprintf("not run, because the run stopped at line %d", b.lines[at].number)
	return e.WithHint("Fix the cause, and then run the failed lines again")
}

// noLinesFault reports whether an error says nothing about the line that met it: the database could not be used, or
// there is a bug.
func noLinesFault(err error) bool {
	switch orchestrator.CodeOf(err) {
	case orchestrator.Busy, orchestrator.Unavailable, orchestrator.Internal:
		return err != nil
	}
	return false
}

// lineRun is one run over the lines of standard input.
type lineRun struct {
	p     *Program
	ctx   context.Context
	env   commands.Env
	d     *commands.Definition
	done  int64 // lines that were answered
	well  int64 // of these, those that went well
	bad   int   // and those that were refused
	worst error // the first error for which no line is to blame; it decides the exit status
}

// answer writes the answers of a batch.
func (r *lineRun) answer(b *lineBatch) error {
	var held bytes.Buffer // one write for all of them
	for i, line := range b.lines {
		if b.errs[i] != nil {
			r.report(&held, line.number, b.errs[i])
		} else if err := r.good(&held, b.answers[i]); err != nil {
			return err
		}
	}
	if _, err := held.WriteTo(r.p.Out); err != nil {
		return notWritten(err)
	}
	r.done += int64(len(b.lines))
	if r.env.Call.Progress != nil {
		r.env.Call.Progress(r.done, 0, "lines")
	}
	return nil
}

// atomic runs all lines together, or none.
func (r *lineRun) atomic(lines <-chan numbered) error {
	var all []numbered
	for batch := nextBatch(r.ctx, lines, nil); len(batch) > 0; batch = nextBatch(r.ctx, lines, nil) {
		all = append(all, batch...)
	}
	if r.ctx.Err() != nil {
		return ended(r.ctx)
	}
	if len(all) == 0 {
		return r.end()
	}
	b := r.decode(all)
	b.run(r.ctx, r.env, true)
	if slices.ContainsFunc(b.errs, func(err error) bool { return err != nil }) {
		for i := range all {
			r.report(r.p.Out, all[i].number, cmp.Or(b.errs[i], errNotAlone))
		}
		return r.end()
	}
	for i := range all {
		if err := r.good(r.p.Out, b.answers[i]); err != nil {
			return err
		}
	}
	return r.end()
}

// good writes the answer of a line that went well to out. People get one sentence at the end for all of them.
func (r *lineRun) good(out io.Writer, answer commands.Answer) error {
	r.well++
	if r.p.text() {
		return nil
	}
	return r.p.hand(r.ctx, r.env, out, answer)
}

// report writes the answer of a line that was refused, with its number: JSON to out, or text for people to standard
// error.
func (r *lineRun) report(out io.Writer, number int, err error) {
	r.bad++
	if r.worst == nil && noLinesFault(err) {
		r.worst = err
	}
	var e *orchestrator.Error
	if !errors.As(err, &e) {
		e = &orchestrator.Error{Code: orchestrator.Internal, Message: err.Error()}
	}
	at := *e // other lines may have the same error
	at.Details = map[string]any{"line": number}
	maps.Copy(at.Details, e.Details)
	if r.env.Engine != nil {
		sayWhere(&at, r.env.Engine.Path())
	}
	if r.p.text() {
		at.Message = fmt.Sprintf("line %d: ", number) + at.Message
	}
	r.p.failure(out, &at)
}

func (r *lineRun) end() error {
	if r.p.text() {
		r.p.people(r.p.Out, r.p.OutTerminal).Printf("Lines that succeeded: %d. Lines that failed: %d.\n", r.well,
			r.bad)
	}
	if r.worst != nil {
		return exit(commands.ExitStatus(r.worst))
	}
	if r.bad > 0 {
		return badLines
	}
	return nil
}

// readLines sends every line of in. A blank line is skipped; one that is too long is an error, and the next line is
// found behind it.
func readLines(ctx context.Context, in io.Reader, lines chan<- numbered) {
	reader := bufio.NewReaderSize(in, 64<<10)
	for number := 1; ; number++ {
		raw, long, err := surface.ReadLine(reader, nil)
		line := numbered{number: number, raw: raw}
		if long {
			line.err = orchestrator.Errorf(orchestrator.InvalidParams, "the line must be at most %d bytes",
				surface.MaxLine)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			line.err = &orchestrator.Error{Code: orchestrator.Unavailable, Message: "cannot read standard input", Err: err}
		}
		if len(bytes.TrimSpace(raw)) > 0 || line.err != nil {
			pass(ctx, lines, line)
		}
		if err != nil || ctx.Err() != nil {
			return
		}
	}
}
