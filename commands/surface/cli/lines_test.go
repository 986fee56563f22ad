package cli

import (
	"context"
	"io"
	"strconv"
	"strings"
	"testing"

	"mailroom/commands"
	"mailroom/commands/surface"
	"mailroom/commands/surface/surfacetest"
	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/orchestratortest/enginetest"
)

func TestLinesAnswerInOrder(t *testing.T) {
	t.Parallel()
	p := newProgram(strings.Join([]string{
		`{"text":"a"}`, ``, `{"text":1}`, `  `, `{"TEXT":"b"}` + "\r", `{"text":`, `{"text":"c"}`,
	}, "\n")) // the last line has no line ending
	if status := p.run("many", "lines", "--stdin"); status != 65 {
		t.Errorf("exit status %d; want 65", status)
	}
	surfacetest.Equal(t, "the output", p.out.String(), `{"success":true,"action":"many_lines","text":"a"}
{"success":false,"error":"invalid_params","message":"text: must be a string, but is 1","line":3,"parameter":"text"}
{"success":true,"action":"many_lines","text":"b"}
{"success":false,"error":"invalid_params","message":"the parameters must be valid JSON: unexpected end","line":6}
{"success":true,"action":"many_lines","text":"c"}
`)
}

func TestAtomicLinesAreAllOrNothing(t *testing.T) {
	t.Parallel()
	p := newProgram(`{"text":"a"}` + "\n" + `{"txet":"b"}`)
	if status := p.run("many", "lines", "--stdin", "--atomic"); status != 65 || len(p.batches) > 0 {
		t.Errorf("exit status %d, %d batches ran", status, len(p.batches))
	}
	surfacetest.Equal(t, "the output", p.out.String(),
		`{"success":false,"error":"conflict","message":"not run, because another line of the atomic run was rejected","line":1}`+"\n"+
			`{"success":false,"error":"invalid_params","message":"unknown parameter \"txet\"","hint":"Did you mean text?","line":2,"parameter":"txet"}`+"\n")
	p = newProgram(strings.Repeat(`{"text":"a"}`+"\n", 3*linesPerBatch))
	if status := p.run("many", "lines", "--stdin", "--atomic"); status != 0 || len(p.batches) != 1 ||
		p.batches[0] != 3*linesPerBatch {
		t.Errorf("exit status %d, batches of %v lines; want one of all", status, p.batches)
	}
}

func TestLinesRunInBatches(t *testing.T) {
	t.Parallel()
	const lines = 5*linesPerBatch + 7
	p := newProgram(strings.Repeat(`{"text":"a"}`+"\n", lines))
	if status := p.run("many", "lines", "--stdin"); status != 0 {
		t.Errorf("exit status %d", status)
	}
	sum := 0
	for _, n := range p.batches {
		sum += n
		if n > linesPerBatch {
			t.Errorf("a batch has %d lines", n)
		}
	}
	if got := strings.Count(p.out.String(), "\n"); sum != lines || got != lines {
		t.Errorf("%d lines ran, %d were answered; want %d", sum, got, lines)
	}
}

// TestLinesEndWithWhatIsNoLinesFault checks that a bug, a locked database and a failing input end the run with their
// own exit status.
func TestLinesEndWithWhatIsNoLinesFault(t *testing.T) {
	t.Parallel()
	good := `{"text":"a"}` + "\n"
	for name, test := range map[string]struct {
		in     io.Reader
		status int
	}{
		"bug":            {strings.NewReader(good + `{"text":"bug"}`), 70},
		"busy":           {strings.NewReader(good + `{"text":"busy"}`), 75},
		"broken input":   {&stuck{good, errDisk}, 75},
		"panicking read": {&stuck{good, "boom"}, 70},
	} {
		for _, atomic := range []bool{false, true} {
			p := newProgram("")
			p.In = test.in
			if s, ok := test.in.(*strings.Reader); ok {
				s.Seek(0, io.SeekStart)
			} else {
				s := *test.in.(*stuck)
				s.text = good
				p.In = &s
			}
			if status := p.run("many", "lines", "--stdin",
				"--atomic="+strconv.FormatBool(atomic)); status != test.status {
				t.Errorf("%s, atomic %t: exit status %d; want %d: %s", name, atomic, status, test.status, p.out)
			}
		}
	}
}

func TestALineThatIsTooLongIsOneBadLine(t *testing.T) {
	t.Parallel()
	p := newProgram(`{"text":"` + strings.Repeat("a", surface.MaxLine) + `"}` + "\n" + `{"text":"b"}`)
	if status := p.run("many", "lines", "--stdin"); status != 65 {
		t.Errorf("exit status %d; want 65", status)
	}
	if out := p.out.String(); !strings.Contains(out, `"line":1`) || !strings.Contains(out, `"text":"b"`) {
		t.Errorf("the output is %.500s", out)
	}
}

func TestLinesEndWithTheirContext(t *testing.T) {
	t.Parallel()
	in, _ := io.Pipe() // nobody ever writes
	p := newProgram("")
	p.In = in
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if status := p.Run(ctx, []string{"mailroom", "many", "lines", "--stdin"}); status != 75 {
		t.Errorf("exit status %d; want 75", status)
	}
	p = newProgram("")
	p.In = in
	if status := p.Run(ctx, []string{"mailroom", "try", "--payload", "-"}); status != 75 ||
		!strings.Contains(p.out.String(), "interrupted") {
		t.Errorf("exit status %d: %s", status, p.out)
	}
}

func TestAnswersThatAreNotWrittenAreTakenBack(t *testing.T) {
	t.Parallel()
	p := newProgram("")
	p.Out = &broken{}
	if status := p.run("many", "lines", "--said", "a"); status != 75 || strings.Join(p.back, " ") != "a" {
		t.Errorf("exit status %d, taken back %v", status, p.back)
	}
	if !strings.Contains(p.err.String(), "cannot write the answer") {
		t.Errorf("standard error says %q", p.err)
	}
	p = newProgram(`{"text":"a"}` + "\n" + `{"text":"b"}` + "\n")
	p.Out = &broken{left: 60}
	if status := p.run("many", "lines", "--stdin", "--atomic"); status != 75 || strings.Join(p.back, " ") != "b" {
		t.Errorf("lines: exit status %d, taken back %v", status, p.back)
	}
}

// TestEveryLineIsAnsweredAfterAFault checks that no line runs after a line that failed because of the database, such
// as on a full disk, and that every line gets one answer, in order, with its number.
func TestEveryLineIsAnsweredAfterAFault(t *testing.T) {
	t.Parallel()
	const lines, bad = 5 * linesPerBatch, linesPerBatch / 2
	p := newProgram(strings.Repeat(`{"text":"a"}`+"\n", bad-1) + `{"text":"busy"}` + "\n" +
		strings.Repeat(`{"text":"b"}`+"\n", lines-bad))
	if status := p.run("many", "lines", "--stdin"); status != 75 {
		t.Errorf("exit status %d; want 75", status)
	}
	ran := 0
	for _, n := range p.batches {
		ran += n
	}
	answers := strings.Split(strings.TrimSuffix(p.out.String(), "\n"), "\n")
	if len(answers) != lines || ran > 2*linesPerBatch {
		t.Fatalf("%d lines are answered and %d ran; want %d and at most two batches", len(answers), ran, lines)
	}
	surfacetest.Equal(t, "the answer to the line", answers[bad-1],
		`{"success":false,"error":"busy","message":"locked","line":500}`)
	surfacetest.Equal(t, "the answer to the last line", answers[lines-1],
		`{"success":false,"error":"busy","message":"not run, because the run stopped at line 500: locked","hint":"Fix the cause, and then run the failed lines again","line":5000}`)
}

// TestABacklogIsNoOtherLinesFault checks that a recipient with a full backlog affects only its own lines.
func TestABacklogIsNoOtherLinesFault(t *testing.T) {
	t.Parallel()
	const lines = 3 * linesPerBatch
	p := newProgram(`{"text":"full"}` + "\n" + strings.Repeat(`{"text":"a"}`+"\n", lines-1))
	if status := p.run("many", "lines", "--stdin"); status != 75 {
		t.Errorf("exit status %d; want 75", status)
	}
	if well := strings.Count(p.out.String(), `"success":true`); well != lines-1 {
		t.Errorf("%d lines went well; want all but the first of %d", well, lines)
	}
}

// TestLinesOfAWriterThatStaysEndAfterAFault checks that the run ends for a writer that keeps the input open.
func TestLinesOfAWriterThatStaysEndAfterAFault(t *testing.T) {
	t.Parallel()
	in, write := io.Pipe()
	p := newProgram("")
	p.In = in
	go func() { _, _ = io.WriteString(write, `{"text":"busy"}`+"\n"+`{"text":"a"}`+"\n") }() // without closing it
	if status := p.run("many", "lines", "--stdin"); status != 75 || strings.Count(p.out.String(), "\n") != 2 {
		t.Errorf("exit status %d; want 75, and two answers: %s", status, p.out)
	}
	_ = in.Close() // ends the reader that waits for more
}

// TestLinesWithOneError checks that an error shared by several lines names the database once in each answer.
func TestLinesWithOneError(t *testing.T) {
	t.Parallel()
	p := newProgram("")
	p.output = "json"
	r := &lineRun{p: p.Program,
		env: commands.Env{Engine: surfacetest.OpenRouter(t, ledger.Options{Path: enginetest.Place(t)})}}
	err := orchestrator.Errorf(orchestrator.NotFound, "gone").WithHint("Look")
	r.report(p.out, 1, err)
	r.report(p.out, 2, err)
	if out := p.out.String(); strings.Count(out, "\n") != 2 || strings.Count(out, "(looked in ") != 2 ||
		err.Hint != "Look" || err.Details != nil {
		t.Errorf("%s%+v", out, err)
	}
}
