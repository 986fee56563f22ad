package surface

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"mailroom/commands"
	"mailroom/orchestrator"
)

// linesPerBatch is the most lines of --stdin that share one transaction.
const linesPerBatch = 500

// maxLine bounds one line; the decoder has a tighter bound, and says so.
const maxLine = 4 << 20

// badLines is the exit status of a run in which some lines were refused.
const badLines = exit(65)

// numbered is one line of standard input.
type numbered struct {
	number int
	raw    json.RawMessage
	err    error // the line could not be read
}

// runLines runs a command once for every line of standard input and answers each with a line, in order, once its effect
// is on disk. It never waits for more input while lines are there to be run. With atomic all lines are read first, and
// all are run or none.
func (p *Program) runLines(ctx context.Context, env commands.Env, d *commands.Definition, atomic bool, out *printer) error {
	ctx, finish := p.progress(ctx, out)
	defer finish()
	lines := make(chan numbered, linesPerBatch)
	go func() {
		defer close(lines)
		defer func() {
			if e := recover(); e != nil {
				pass(ctx, lines, numbered{err: fmt.Errorf("panic while reading standard input: %v", e)})
			}
		}()
		readLines(ctx, p.In, lines)
	}()
	run := &lineRun{p: p, ctx: ctx, env: env, d: d, out: out}
	if atomic {
		return run.atomic(lines)
	}
	for {
		batch, err := nextBatch(ctx, lines)
		if err != nil {
			return err
		}
		if len(batch) == 0 {
			return run.end()
		}
		if err := run.some(batch); err != nil {
			return err
		}
	}
}

// nextBatch waits for a line, and takes what is there behind it. An empty batch is the end of the input.
func nextBatch(ctx context.Context, lines <-chan numbered) (batch []numbered, err error) {
	select {
	case first, ok := <-lines:
		if !ok {
			return nil, nil
		}
		batch = append(batch, first)
	case <-ctx.Done():
		return nil, interrupted(ctx.Err())
	}
	for len(batch) < linesPerBatch {
		select {
		case next, ok := <-lines:
			if !ok {
				return batch, nil
			}
			batch = append(batch, next)
		default:
			return batch, nil // nothing more is there now
		}
	}
	return batch, nil
}

// lineRun is one run over the lines of standard input.
type lineRun struct {
	p     *Program
	ctx   context.Context
	env   commands.Env
	d     *commands.Definition
	out   *printer
	done  int64
	well  int64
	bad   int
	worst error // not a line's fault, but the database's or a bug: it ends the run
}

// some runs one batch and writes its answers.
func (r *lineRun) some(batch []numbered) error {
	answers, errs := r.run(batch, false)
	for i, line := range batch {
		if errs[i] != nil {
			r.report(line.number, errs[i])
		} else if err := r.good(answers[i]); err != nil {
			return err
		}
	}
	if r.worst != nil {
		return r.end() // the rest would meet the same
	}
	r.done += int64(len(batch))
	commands.Progress(r.ctx, r.done, 0, "lines")
	return nil
}

// run runs the lines that could be read.
func (r *lineRun) run(batch []numbered, atomic bool) ([]commands.Answer, []error) {
	answers, errs := make([]commands.Answer, len(batch)), make([]error, len(batch))
	var raws []json.RawMessage
	var places []int
	for i, line := range batch {
		if errs[i] = line.err; line.err == nil {
			raws, places = append(raws, line.raw), append(places, i)
		}
	}
	if len(raws) == 0 || (atomic && len(raws) < len(batch)) {
		return answers, errs
	}
	got, failures := r.d.RunBatch(r.ctx, r.env, raws, atomic)
	for j, i := range places {
		answers[i], errs[i] = got[j], failures[j]
	}
	return answers, errs
}

// atomic runs all lines together, or none.
func (r *lineRun) atomic(lines <-chan numbered) error {
	var all []numbered
	for {
		batch, err := nextBatch(r.ctx, lines)
		if err != nil {
			return err
		}
		if len(batch) == 0 {
			break
		}
		all = append(all, batch...)
	}
	answers, errs := r.run(all, true)
	for i := range all {
		if errs[i] != nil {
			r.report(all[i].number, errs[i])
		}
	}
	if r.bad > 0 {
		return r.end()
	}
	for i := range all {
		if err := r.good(answers[i]); err != nil {
			return err
		}
	}
	return r.end()
}

// good writes the answer of a line that went well. People get one sentence at the end for all of them.
func (r *lineRun) good(answer commands.Answer) error {
	r.well++
	if r.out.text {
		return nil
	}
	return hand(r.ctx, r.env, r.out, answer)
}

// report writes the answer of a line that was refused, with its number.
func (r *lineRun) report(number int, err error) {
	r.bad++
	switch orchestrator.CodeOf(err) {
	case orchestrator.Busy, orchestrator.Unavailable, orchestrator.Internal:
		if r.worst == nil {
			r.worst = err
		}
	}
	var e *orchestrator.Error
	if !errors.As(err, &e) {
		e = &orchestrator.Error{Code: orchestrator.Internal, Message: err.Error()}
	}
	at := *e
	at.Details = map[string]any{"line": number}
	for key, value := range e.Details {
		at.Details[key] = value
	}
	if r.out.text {
		at.Message = fmt.Sprintf("line %d: ", number) + at.Message
	}
	r.out.failure(&at)
}

func (r *lineRun) end() error {
	if r.out.text {
		r.p.people(r.p.Out, r.p.OutTerminal).Printf("Lines that went well: %d. Lines that were refused: %d.\n", r.well, r.bad)
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
		raw, long, err := readLine(reader)
		line := numbered{number: number, raw: raw}
		if long {
			line.err = orchestrator.Errorf(orchestrator.InvalidParams, "the line has more than %d bytes", maxLine)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			line.err = &orchestrator.Error{Code: orchestrator.Unavailable, Message: "reading standard input", Err: err}
		}
		if len(bytes.TrimSpace(raw)) > 0 || line.err != nil {
			pass(ctx, lines, line)
		}
		if err != nil || ctx.Err() != nil {
			return
		}
	}
}

// pass hands a line on, unless nobody takes lines any more.
func pass(ctx context.Context, lines chan<- numbered, line numbered) {
	select {
	case lines <- line:
	case <-ctx.Done():
	}
}

// readLine reads one line without its end. long is true when it was longer than maxLine; the excess is thrown away.
func readLine(r *bufio.Reader) (line []byte, long bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) <= maxLine {
			line = append(line, part...)
		} else {
			long = true
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimRight(line, "\r\n"), long, err
		}
	}
}
