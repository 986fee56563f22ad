package cli

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"

	"mailroom/orchestrator"
)

// filter is an output for lines of JSON. It applies a jq expression to each value and prints the results: strings
// without quotes, other values as lines of JSON. It runs the program jq, because a jq library would add a fifth to
// the startup time of every command.
type filter struct {
	out        io.Writer
	jq         string // path of the program
	expression string
	line       []byte // incomplete line
}

// filtered returns an output that applies a jq expression to each line of JSON and writes the results to out. It
// returns an error if jq is not installed or the expression is invalid.
func filtered(out io.Writer, expression string) (*filter, error) {
	jq, err := exec.LookPath("jq")
	if err != nil {
		return nil, orchestrator.Errorf(orchestrator.Unavailable, "jq is not in PATH").
			WithHint("Install jq, or use `--json` and filter the answer with another program")
	}
	f := &filter{out: out, jq: jq, expression: expression}
	if _, err := f.run(nil); err != nil { // empty input: jq only compiles the expression
		return nil, orchestrator.Errorf(orchestrator.InvalidParams, "--jq: %v", err)
	}
	return f, nil
}

// Write accepts part of a line, or several lines. It returns an error if the expression or a write to out fails.
func (f *filter) Write(b []byte) (int, error) {
	f.line = append(f.line, b...)
	for {
		line, rest, ended := bytes.Cut(f.line, []byte("\n"))
		if !ended {
			return len(b), nil
		}
		f.line = rest
		printed, err := f.run(line)
		if err != nil {
			return 0, &orchestrator.Error{Code: orchestrator.InvalidParams, Message: "the command ran, but --jq failed on its answer", Err: err,
				Hint: "If the command sends or changes something, do not run it again. The answer was: " + string(line)}
		}
		if _, err := f.out.Write(printed); err != nil {
			return 0, err
		}
	}
}

// run returns the output of the expression for a value.
func (f *filter) run(value []byte) ([]byte, error) {
	var printed, told bytes.Buffer
	// The space keeps the argument from beginning with a dash.
	cmd := exec.Command(f.jq, "--raw-output", "--compact-output", " "+f.expression)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(value), &printed, &told
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(told.Bytes()))
	}
	return printed.Bytes(), nil
}
