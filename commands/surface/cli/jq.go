package cli

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"

	"mailroom/orchestrator"
)

// filter is an output of JSON, a value a line, that prints what an expression of jq makes of each: a text as it is,
// anything else as a line of JSON. It runs the program jq: a library for it would add a fifth to the start of every
// command.
type filter struct {
	out        io.Writer
	jq         string // path of the program
	expression string
	line       []byte // that has not ended yet
}

// filtered returns an output that puts each line of JSON through an expression of jq before it goes to out. Error: jq is
// not there, or the expression is none.
func filtered(out io.Writer, expression string) (*filter, error) {
	jq, err := exec.LookPath("jq")
	if err != nil {
		return nil, orchestrator.Errorf(orchestrator.Unavailable, "jq is not in PATH").
			WithHint("Install jq, or use `--json` and filter the answer with another program")
	}
	f := &filter{out: out, jq: jq, expression: expression}
	if _, err := f.run(nil); err != nil { // nothing goes in: only the expression is read
		return nil, orchestrator.Errorf(orchestrator.InvalidParams, "--jq: %v", err)
	}
	return f, nil
}

// Write takes a part of a line, or several lines. Error: the expression fails, or out does.
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

// run returns what the expression makes of a value.
func (f *filter) run(value []byte) ([]byte, error) {
	var printed, told bytes.Buffer
	cmd := exec.Command(f.jq, "--raw-output", "--compact-output", " "+f.expression) // which begins with no dash
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(value), &printed, &told
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(told.Bytes()))
	}
	return printed.Bytes(), nil
}
