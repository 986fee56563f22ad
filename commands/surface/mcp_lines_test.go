package surface

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"mailroom/commands"
)

// TestBadLines: a line that is no message is answered as JSON-RPC asks, and costs its client nothing else.
func TestBadLines(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "a")
	var out bytes.Buffer
	in := strings.Join([]string{
		`{bad json`, `5`, `[]`, `[{"jsonrpc":"2.0","id":9,"method":"ping"}]`, `{"jsonrpc":"2.0"}`, ``, strings.Repeat("x", maxLine+1),
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
	}, "\n") + "\n"
	s := newToolServer(envOf(e.router)).server("v1", false)
	if err := serveStream(t.Context(), slog.New(slog.DiscardHandler), s, commands.Caller{Name: "a", Session: "default"}, strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	var codes []string
	answered := false
	for line := range strings.Lines(out.String()) {
		code := ""
		switch {
		case strings.Contains(line, `"id":null`) && strings.Contains(line, `"code":-32700`):
			code = "-32700"
		case strings.Contains(line, `"id":null`) && strings.Contains(line, `"code":-32600`):
			code = "-32600"
		case strings.Contains(line, `"id":1`) && strings.Contains(line, `"serverInfo"`):
			answered = true
			continue
		}
		codes = append(codes, code)
	}
	if got := strings.Join(codes, " "); got != "-32700 -32600 -32600 -32600 -32600 -32600" {
		t.Errorf("the bad lines were answered with %q:\n%s", got, out.String())
	}
	if !answered {
		t.Errorf("the good line was not answered:\n%s", out.String())
	}
}
