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

// errNotAlone is the error for a valid line of an atomic run in which another line was rejected.
var errNotAlone = error(orchestrator.Errorf(orchestrator.Conflict, "not run, because another line of the atomic run was rejected"))

// linesPerBatch is the maximum number of --stdin lines that share one transaction.
const linesPerBatch = 1000

// lastLines is how long a run waits for another line after a database fault. All remaining lines of a file are still
// answered, while a process that writes lines for days learns that the run has ended.
const lastLines = time.Second

// badLines is the exit status of a run in which some lines were rejected.
const badLines = exit(65)

// numbered is one line of standard input.
type numbered struct {
	number int // counts from 1, including blank lines
	raw    json.RawMessage
	err    error // read error of the line; if set, raw is invalid
}

// runLines runs a command once for each line of standard input. It answers each line, in order, once the effect of
// the line is on disk. It never waits for more input while there are lines to run. With atomic, it reads all lines
// first and runs all of them or none.
//
// The lines pass through a pipeline: while one batch is written to the database, the next one is decoded and the
// previous one is answered. After an interruption, the batch that is being written is completed and answered, and the
// run ends. After a fault that would also affect the following lines, such as a full disk, no more lines run, and
// each following line is answered with that fault.
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

// stage runs one stage of the pipeline and then calls end, which signals the end of the data to the next stage. A
// panic cancels all stages before end is called, so that the next stage does not mistake partial data for all of it.
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

// ended returns the error of a run that did not reach the end of its input.
func ended(ctx context.Context) error {
	if bug, ok := errors.AsType[*orchestrator.Error](context.Cause(ctx)); ok {
		return bug
	}
	return interrupted(ctx.Err())
}

// pass sends a value to the next stage and reports whether it did so before ctx ended.
func pass[T any](ctx context.Context, to chan<- T, what T) bool {
	select {
	case to <- what:
		return true
	case <-ctx.Done():
		return false
	}
}

// nextBatch waits for a line and returns it with all further lines that are available. An empty batch means that the
// input or ctx has ended, or, once ending is closed, that no line came within lastLines.
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
			return batch // no more lines are available now
		}
	}
	return batch
}

// lineBatch holds lines that run together, with one answer or error for each.
type lineBatch struct {
	lines   []numbered
	decoded *commands.Batch
	places  []int // indexes in lines of the lines without a read error
	answers []commands.Answer
	errs    []error
}

// decode decodes the lines that have no read error.
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

// run runs the decoded lines. With atomic, it runs all of them or none, and none if a line has a read error.
func (b *lineBatch) run(ctx context.Context, env commands.Env, atomic bool) {
	if len(b.places) == 0 || (atomic && len(b.places) < len(b.lines)) {
		return
	}
	answers, errs := b.decoded.Run(ctx, env, atomic)
	for j, i := range b.places {
		b.answers[i], b.errs[i] = answers[j], errs[j]
	}
}

// refuse sets err as the error of each line that has no read error.
func (b *lineBatch) refuse(err error) {
	for _, i := range b.places {
		b.errs[i] = err
	}
}

// stuck returns the index of the first line that failed for a reason that also affects further lines, such as a full
// disk, or -1 if there is none.
func (b *lineBatch) stuck() int {
	return slices.IndexFunc(b.errs, func(err error) bool {
		var e *orchestrator.Error
		// A full backlog affects only the lines with that recipient.
		return noLinesFault(err) && !(errors.As(err, &e) && e.Recipient != "")
	})
}

// fault returns the error for all further lines. It requires that stuck found a line.
func (b *lineBatch) fault() error {
	at := b.stuck()
	e := &orchestrator.Error{Code: orchestrator.CodeOf(b.errs[at]), Err: b.errs[at]}
	e.Message = fmt.Sprintf("not run, because the run stopped at line %d", b.lines[at].number)
	return e.WithHint("Fix the cause, and then run the failed lines again")
}

// noLinesFault reports whether an error is unrelated to the content of the line: the database could not be used, or
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
	done  int64 // answered lines
	well  int64 // lines that succeeded
	bad   int   // lines that were rejected
	worst error // first error unrelated to a line's content; it sets the exit status
}

// answer writes the answers of a batch.
func (r *lineRun) answer(b *lineBatch) error {
	var held bytes.Buffer // collects the answers for a single write
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

// good writes the answer of a successful line to out. With text output, it writes nothing; end prints a summary.
func (r *lineRun) good(out io.Writer, answer commands.Answer) error {
	r.well++
	if r.p.text() {
		return nil
	}
	return r.p.hand(r.ctx, r.env, out, answer)
}

// report writes the answer of a rejected line, with its number: JSON to out, or text for people to standard error.
func (r *lineRun) report(out io.Writer, number int, err error) {
	r.bad++
	if r.worst == nil && noLinesFault(err) {
		r.worst = err
	}
	var e *orchestrator.Error
	if !errors.As(err, &e) {
		e = &orchestrator.Error{Code: orchestrator.Internal, Message: err.Error()}
	}
	at := *e // a copy: other lines may share the error
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

// readLines sends every line of in to lines. It skips blank lines. A line that is too long yields an error, and
// reading continues with the next line.
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
