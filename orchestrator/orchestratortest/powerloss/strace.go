package powerloss

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// call is one system call of one thread. The kernel performs it at some moment between the step that begins it and
// the step that ends it.
type call struct {
	thread int
	name   string
	args   []string // as strace writes them, with strings still in quotes
	result string   // "" until the call has returned
	line   int      // the line of the log in which the call begins
}

// number returns the result of the call, or -1 for an error.
func (c *call) number() int {
	n, rest := 0, c.result
	if at := strings.IndexAny(rest, "< "); at >= 0 {
		rest = rest[:at]
	}
	n, err := strconv.Atoi(rest)
	if err != nil {
		return -1
	}
	return n
}

// step is the beginning or the end of a call.
type step struct {
	*call
	leaves bool
}

// parseLog parses the output of strace -f. It returns the beginnings and the ends of calls in the order in which they
// happened. It skips lines about signals and ends of threads.
func parseLog(log []byte) (steps []step, err error) {
	under := map[int]*call{}
	for line := 1; len(log) > 0; line++ {
		text := log
		if at := bytes.IndexByte(log, '\n'); at >= 0 {
			text, log = log[:at], log[at+1:]
		} else {
			log = nil
		}
		found, err := parseLine(line, string(text), under)
		if err != nil {
			return nil, fmt.Errorf("line %d of the log: %w: %.100s ... %s", line, err, text,
				text[max(0, len(text)-100):])
		}
		steps = append(steps, found...)
	}
	return steps, nil
}

// parseLine parses one line of the log: the beginning of a call, the end of a call, or both if no other line is
// between them. under holds the calls that have not returned, by thread.
func parseLine(line int, text string, under map[int]*call) ([]step, error) {
	first, text, found := strings.Cut(text, " ")
	thread, err := strconv.Atoi(first)
	if !found || err != nil {
		return nil, fmt.Errorf("no thread")
	}
	text = strings.TrimLeft(text, " ")
	switch {
	case strings.HasPrefix(text, "---"), strings.HasPrefix(text, "+++"), strings.HasPrefix(text, "???"):
		return nil, nil
	case strings.HasPrefix(text, "<... "):
		return parseEnd(text, thread, under)
	}
	name, rest, found := strings.Cut(text, "(")
	if !found || under[thread] != nil {
		return nil, fmt.Errorf("no call")
	}
	c := &call{thread: thread, name: name, line: line}
	rest, unfinished := strings.CutSuffix(rest, " <unfinished ...>")
	if !unfinished { // the process ended in the meantime, and the call never returns
		rest, unfinished = strings.CutSuffix(rest, " <detached ...>")
	}
	end := 0
	if c.args, end, err = splitArgs(rest); err != nil {
		return nil, err
	}
	if unfinished {
		under[thread] = c
		return []step{{c, false}}, nil
	}
	if strings.HasSuffix(rest[end:], " = ?") {
		return []step{{c, false}}, nil
	}
	c.result, err = resultOf(rest[end:])
	return []step{{c, false}, {c, true}}, err
}

// parseEnd parses the end of a call whose beginning is in an earlier line: "<... openat resumed>) = 3</path>".
func parseEnd(text string, thread int, under map[int]*call) ([]step, error) {
	name, rest, found := strings.Cut(strings.TrimPrefix(text, "<... "), " resumed>")
	c := under[thread]
	delete(under, thread)
	if name == "???" || strings.HasSuffix(rest, " = ?") {
		return nil, nil // the thread ended during the call, which may have had any effect
	}
	if c == nil || !found || name != c.name {
		return nil, fmt.Errorf("the end of a call that did not begin")
	}
	var err error
	c.result, err = resultOf(rest)
	return []step{{c, true}}, err
}

// resultOf parses the text after the arguments: ") = 3</path>".
func resultOf(text string) (string, error) {
	at := strings.LastIndex(text, " = ")
	if at < 0 {
		return "", fmt.Errorf("no result")
	}
	return strings.TrimSuffix(strings.TrimSpace(text[at+3:]), " (DELAYED)"), nil
}

// splitArgs splits arguments at the commas outside strings and brackets, and returns the position of their end.
func splitArgs(text string) (args []string, end int, err error) {
	depth, start, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		ch := text[i]
		switch {
		case quoted:
			// Skip a long string in one step.
			step := strings.IndexAny(text[i:], `"\`)
			if step < 0 {
				return nil, 0, fmt.Errorf("a text without end")
			}
			if i += step; text[i] == '\\' {
				i++
			} else {
				quoted = false
			}
		case ch == '"':
			quoted = true
		case ch == '[' || ch == '{' || ch == '(':
			depth++
		case ch == ')' && depth == 0:
			return append(args, strings.TrimSpace(text[start:i])), i, nil
		case ch == ']' || ch == '}' || ch == ')':
			depth--
		case ch == ',' && depth == 0:
			args, start = append(args, strings.TrimSpace(text[start:i])), i+1
		}
	}
	return append(args, strings.TrimSpace(text[start:])), len(text), nil
}

// unquote returns the bytes of a string in the format of strace, with C's escapes. It returns an error if strace
// shortened the string.
func unquote(text string) ([]byte, error) {
	inner, found := strings.CutPrefix(text, `"`)
	if !found || !strings.HasSuffix(inner, `"`) {
		return nil, fmt.Errorf("not a whole text: %.80s", text)
	}
	inner = inner[:len(inner)-1]
	out := make([]byte, 0, len(inner))
	for {
		at := strings.IndexByte(inner, '\\')
		if at < 0 || at+1 >= len(inner) {
			return append(out, inner...), nil
		}
		out = append(out, inner[:at]...)
		ch, n := escape(inner[at+1:])
		if n == 0 {
			return nil, fmt.Errorf("an unknown escape: %.10s", inner[at:])
		}
		out, inner = append(out, ch), inner[at+1+n:]
	}
}

// escape decodes the escape sequence after a backslash, and returns its length.
func escape(text string) (ch byte, n int) {
	if at := strings.IndexByte(`nrtvf"\`, text[0]); at >= 0 {
		return "\n\r\t\v\f\"\\"[at], 1
	}
	value := 0
	for n < len(text) && n < 3 && text[n] >= '0' && text[n] <= '7' {
		value, n = value*8+int(text[n]-'0'), n+1
	}
	return byte(value), n
}

// descriptor splits 5</path> into the number and the path of the open file.
func descriptor(text string) (fd int, path string, ok bool) {
	digits, rest, found := strings.Cut(text, "<")
	if !found {
		fd, err := strconv.Atoi(text)
		return fd, "", err == nil
	}
	fd, err := strconv.Atoi(digits)
	path = strings.TrimSuffix(rest, "(deleted)")
	return fd, strings.TrimSuffix(path, ">"), err == nil
}
