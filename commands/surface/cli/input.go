package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	urfave "github.com/urfave/cli/v2"

	"mailroom/commands/parameter"
	"mailroom/orchestrator"
	"mailroom/orchestrator/jsonfault"
)

// maxInput is the maximum size of one value, in bytes. The decoder has lower limits and reports them.
const maxInput = 8 << 20

// jsonText reads a JSON value: the text itself, the file of @FILE, or standard input for -. If the parameter accepts
// a text or an object, a value that does not begin with a brace and is not a JSON string is the text.
func (p *Program) jsonText(ctx context.Context, param *parameter.Param, text string) (json.RawMessage, error) {
	name, content := param.Name, []byte(text)
	var err error
	switch {
	case text == "-":
		content, err = p.standardInput(ctx)
	case len(text) > 0 && text[0] == '@':
		content, err = p.readFile(text[1:])
	}
	if err != nil {
		return nil, unread(ctx, name, err)
	}
	content = bytes.TrimSpace(content) // positions in errors count from the first non-space byte
	if len(content) == 0 && param.TextOrObject {
		return orchestrator.JSON("") // the command decides about an empty text
	}
	if len(content) == 0 {
		return nil, badValue(name, errors.New("the value is empty"), "Give a JSON value")
	}
	if param.TextOrObject && content[0] != '{' && (content[0] != '"' || !json.Valid(content)) {
		if !utf8.Valid(content) {
			return nil, notUTF8(param)
		}
		return orchestrator.JSON(string(content))
	}
	if hint, err := jsonfault.Of(content); err != nil {
		if param.Object && content[0] != '{' {
			hint = `Give a JSON object: '{"key": ...}'`
		}
		return nil, badValue(name, err, hint)
	}
	return content, nil
}

// plainText reads a text argument: the text itself or, for -, standard input without trailing line endings. If
// asTyped is set, even - is the text itself.
func plainText(ctx context.Context, p *Program, param *parameter.Param, text string,
	asTyped bool) (json.RawMessage, error) {
	if text == "-" && !asTyped {
		return p.textFrom(ctx, param, text, errNoInput)
	}
	if strings.HasSuffix(text, " -") && !asTyped {
		return nil, badValue(param.Name, errors.New("nothing was sent: the text contains `-` and other words. To read standard input, give only `-` as the text"),
			"If the text ends with a dash, write -- before the text")
	}
	if path, is := strings.CutPrefix(text, "@"); is && !asTyped {
		if p.isFile(path) {
			return nil, badValue(param.Name, fmt.Errorf("nothing was sent: %s is a file", path),
				"To send the text of the file, use `--file "+orchestrator.ShellWord(path)+"`. To send "+orchestrator.ShellWord(text)+" itself, write -- before it")
		}
	}
	if text == "" {
		return nil, badValue(param.Name, errors.New("the text is empty"), "To send an empty text, give it as JSON: --"+
			param.Flag()+` '""'`)
	}
	if !utf8.ValidString(text) {
		return nil, notUTF8(param)
	}
	return orchestrator.JSON(text)
}

// textFrom reads a text from a file, or from standard input if path is -. It removes trailing line endings. nothing
// is the error to return for an empty text.
func (p *Program) textFrom(ctx context.Context, param *parameter.Param, path string, nothing error) (json.RawMessage, error) {
	var content []byte
	var err error
	if path == "-" {
		content, err = p.standardInput(ctx)
	} else {
		content, err = p.readFile(path)
	}
	if err != nil {
		return nil, unread(ctx, param.Name, err)
	}
	text := strings.TrimRight(string(content), "\r\n")
	switch {
	case text == "":
		return nil, badValue(param.Name, nothing, "")
	case !utf8.ValidString(text):
		return nil, notUTF8(param)
	}
	return orchestrator.JSON(text)
}

// errNoInput is the error for an empty text from standard input.
var errNoInput = errors.New("standard input is empty")

// fileFlag is the flag that names a file with the text of a command.
const fileFlag = "file"

// textOfFile stores the text of the --file flag in the text parameter. Standard input is read only on request: a text
// that was omitted by mistake would otherwise consume the rest of a script or a loop.
func (p *Program) textOfFile(c *urfave.Context, text *parameter.Param, values map[string]json.RawMessage) (err error) {
	if _, given := values[text.Name]; given {
		return orchestrator.InvalidParam(text.Name, "given twice, as --%s and as an argument", fileFlag)
	}
	path := c.String(fileFlag)
	nothing := fmt.Errorf("%s is empty", path)
	if path == "-" {
		nothing = errNoInput
	}
	values[text.Name], err = p.textFrom(c.Context, text, path, nothing)
	return err
}

// interrupted returns the error of a command that was told to stop.
func interrupted(err error) error {
	return &orchestrator.Error{Code: orchestrator.Unavailable, Message: "interrupted", Err: err}
}

// unread returns the error for a value that could not be read, or whose reading was interrupted.
func unread(ctx context.Context, name string, err error) error {
	if ctx.Err() != nil {
		return interrupted(err)
	}
	return badValue(name, err, "")
}

// badValue returns the error for a parameter with an invalid or unreadable value.
func badValue(name string, err error, hint string) error {
	return &orchestrator.Error{
		Code: orchestrator.InvalidParams, Message: name, Err: err, Hint: hint,
		Details: map[string]any{"parameter": name},
	}
}

// standardInput reads all of standard input, once per program run. Waiting for input ends with ctx.
func (p *Program) standardInput(ctx context.Context) ([]byte, error) {
	if p.inputTaken {
		return nil, fmt.Errorf("standard input can be used for only one parameter")
	}
	p.inputTaken = true
	return inTime(ctx, func() ([]byte, error) { return readBounded(p.In) })
}

// typed waits for a line from standard input, until ctx ends.
func typed(ctx context.Context, p *Program) (string, error) {
	return inTime(ctx, func() (string, error) { return bufio.NewReader(p.In).ReadString('\n') })
}

// inTime returns the result of read, or the error of ctx if ctx ends first.
func inTime[T any](ctx context.Context, read func() (T, error)) (content T, err error) {
	type outcome struct {
		content T
		err     error
	}
	done := make(chan outcome, 1)
	go func() {
		defer func() {
			if e := recover(); e != nil {
				done <- outcome{err: fmt.Errorf("panic: %v", e)}
			}
		}()
		content, err := read()
		done <- outcome{content, err}
	}()
	select {
	case o := <-done:
		return o.content, o.err
	case <-ctx.Done():
		return content, ctx.Err()
	}
}

// isFile reports whether a file exists on the machine where the command line was typed.
func (p *Program) isFile(path string) bool {
	if p.there != nil {
		return p.there.Exists(path)
	}
	_, err := os.Stat(path)
	return err == nil
}

// readFile reads a file on the machine where the command line was typed.
func (p *Program) readFile(path string) ([]byte, error) {
	if p.there != nil {
		content, err := p.there.ReadFile(path)
		if err != nil {
			return nil, err
		}
		return readBounded(bytes.NewReader(content))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readBounded(f)
}

// readBounded reads one value of at most maxInput bytes and removes its byte order mark.
func readBounded(r io.Reader) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(r, maxInput+1))
	if err == nil && len(content) > maxInput {
		err = fmt.Errorf("must be at most %d bytes", maxInput)
	}
	if err == nil && parameter.IsUTF16(content) {
		err = errors.New("must be UTF-8, but is UTF-16")
	}
	return orchestrator.WithoutMark(content), err
}
