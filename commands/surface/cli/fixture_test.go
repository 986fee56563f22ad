package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"mailroom/commands"
	"mailroom/commands/parameter"
	"mailroom/commands/surface/surfacetest"
	"mailroom/orchestrator"
)

// tryParams has a parameter of each kind, in each spelling.
type tryParams struct {
	Word    string            `json:"word,omitempty" desc:"one of some" check:"oneof=red|green|blue" arg:"1"`
	Rest    []string          `json:"REST,omitempty" desc:"further words" arg:"rest"`
	Thread  string            `json:"threadId,omitempty" desc:"a thread"`
	Size    int               `json:"BATCH_SIZE,omitempty" desc:"a size" check:"min=-9,max=1000" default:"10"`
	Ratio   float64           `json:"ratio,omitempty" desc:"a ratio"`
	Yes     bool              `json:"yes,omitempty" desc:"a switch"`
	Groups  []string          `json:"group,omitempty" desc:"groups"`
	Payload json.RawMessage   `json:"payload,omitempty" desc:"any value"`
	Wait    parameter.Seconds `json:"timeout,omitempty" desc:"a time" default:"30"`
}

// echo is a result with the parameters of the call.
type echo struct {
	Got tryParams `json:"got"`
}

// lineParams holds the parameters of a batch command.
type lineParams struct {
	Text string `json:"text" flag:"said" desc:"a text; the word bug panics, busy is refused"`
}

type lineResult struct {
	Text string `json:"text"`

	back *[]string
}

func (r lineResult) Settle(_ context.Context, _ commands.Env, written bool) error {
	if r.back != nil && !written {
		*r.back = append(*r.back, r.Text)
	}
	return nil
}

// program is a program without a database, on streams of the test.
type program struct {
	*Program
	out, err *bytes.Buffer
	back     []string // texts of answers that were taken back
	batches  []int    // sizes of the batches that ran
}

func newProgram(in string) *program {
	t := &program{out: &bytes.Buffer{}, err: &bytes.Buffer{}}
	try := commands.Define(surfacetest.Vocabulary("try", "try"), "try",
		func(_ context.Context, _ commands.Env, p tryParams) (echo, error) {
			return echo{p}, nil
		}).With(commands.Traits{NoDatabase: true, Document: true})
	line := func(text string) (lineResult, error) {
		switch text {
		case "bug":
			panic("boom")
		case "busy":
			return lineResult{}, orchestrator.Errorf(orchestrator.Busy, "locked")
		case "interrupt":
			return lineResult{}, orchestrator.Errorf(orchestrator.InvalidParams, "no message can interrupt here")
		case "full":
			e := orchestrator.Errorf(orchestrator.Unavailable, "b has 9 undelivered messages, its limit")
			e.Recipient = "b"
			return lineResult{}, e
		}
		return lineResult{text, &t.back}, nil
	}
	one := commands.Define(surfacetest.Vocabulary("many_lines", "many lines"), "many lines",
		func(ctx context.Context, _ commands.Env, p lineParams) (lineResult, error) {
			if p.Text == "stopped" {
				return lineResult{}, context.Cause(ctx)
			}
			return line(p.Text)
		}).With(commands.Traits{NoDatabase: true, Document: true})
	asItIs := func(p *lineParams, _ commands.Caller) (lineParams, error) { return *p, nil }
	lines := commands.WithBatch(one, asItIs,
		func(_ context.Context, _ commands.Env, ps []lineParams, _ bool) ([]lineResult, []error) {
			t.batches = append(t.batches, len(ps))
			results, errs := make([]lineResult, len(ps)), make([]error, len(ps))
			for i, p := range ps {
				results[i], errs[i] = line(p.Text)
			}
			return results, errs
		})
	t.Program = &Program{
		Config: Config{Catalogue: commands.NewCatalogue([]*commands.Definition{try.Definition, lines.Definition}),
			Version: "v1"},
		In: strings.NewReader(in), Out: t.out, Err: t.err, Getenv: func(name string) string {
			if name == outputVariable && !t.OutTerminal {
				return "json" // tests read most answers
			}
			return ""
		},
	}
	return t
}

// run runs one command line and returns its exit status.
func (t *program) run(words ...string) int {
	return t.Run(context.Background(), append([]string{"mailroom"}, words...))
}

// broken is a writer that fails after some bytes.
type broken struct{ left int }

func (b *broken) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

// stuck is a reader that returns its text and then panics or fails.
type stuck struct {
	text  string
	fault any
}

func (s *stuck) Read(p []byte) (int, error) {
	if n := copy(p, s.text); n > 0 {
		s.text = s.text[n:]
		return n, nil
	}
	if err, ok := s.fault.(error); ok {
		return 0, err
	}
	panic(s.fault)
}

var errDisk = errors.New("disk gone")
