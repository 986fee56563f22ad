package mcp

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"mailroom/commands"
	"mailroom/commands/surface"
	"mailroom/commands/surface/surfacetest"
)

// TestBadLines: a line that is no message is answered as JSON-RPC asks, and costs its client nothing else.
func TestBadLines(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "a")
	var out bytes.Buffer
	in := strings.Join([]string{
		`{bad json`, `5`, `[]`, `[{"jsonrpc":"2.0","id":9,"method":"ping"}]`, `{"jsonrpc":"2.0"}`, ``,
		`{"jsonrpc":"2.0","id":7.5,"method":"ping"}`, `{"jsonrpc":"2.0","id":null,"method":"ping"}`, strings.Repeat("x", surface.MaxLine+1),
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
	}, "\n") + "\n"
	s := NewServer(e.Env, "v1").offering(false)
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
		case strings.Contains(line, `"id":7.5`) && strings.Contains(line, `"code":-32600`):
			code = "7.5"
		case strings.Contains(line, `"id":1`) && strings.Contains(line, `"serverInfo"`):
			answered = true
			continue
		}
		codes = append(codes, code)
	}
	if got := strings.Join(codes, " "); got != "-32700 -32600 -32600 -32600 -32600 7.5 -32600 -32600" {
		t.Errorf("the bad lines were answered with %q:\n%s", got, out.String())
	}
	if !answered {
		t.Errorf("the good line was not answered:\n%s", out.String())
	}
}

// TestBadRequestsOverHTTP: what is wrong with a request is an answer of JSON-RPC to it, under the id that it came with.
func TestBadRequestsOverHTTP(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "a")
	token := e.Token("a", false)
	message := `{"jsonrpc":"2.0","id":%s,"method":"zork/list"}`
	for body, want := range map[string]string{
		fmt.Sprintf(message, `7`):                           `200 "id":7 "code":-32601`,
		fmt.Sprintf(message, `"x"`):                         `200 "id":"x" "code":-32601`,
		fmt.Sprintf(message, `7.5`):                         `400 "id":7.5 "code":-32600`,
		fmt.Sprintf(message, `1e999`):                       `400 "id":1e999 "code":-32600`,
		fmt.Sprintf(message, `9007199254740993`):            `400 "id":9007199254740993 "code":-32600`,
		fmt.Sprintf(message, `null`):                        `400 "id":null "code":-32600`,
		fmt.Sprintf(message, `[1]`):                         `400 "id":null "code":-32600`,
		`[{"jsonrpc":"2.0","id":7.5,"method":"ping"}]`:      `400 "id":null "code":-32600`,
		`[{"jsonrpc":"2.0","id":7,"method":"ping"}]`:        `400 "id":null "code":-32600`,
		`{"jsonrpc":"2.0","id":7.5,"method":"ping","ID":8}`: `400 "id":7.5 "code":-32600`,
		`{"jsonrpc":"2.0","id":7.5,"method":"ping"} x`:      `400 "id":null "code":-32700`,
	} {
		r, err := http.NewRequestWithContext(t.Context(), "POST", e.Address+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		surfacetest.Bearer(token)(r)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		read, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		got := fmt.Sprintf("%d %s", answer.StatusCode, read)
		for _, part := range strings.Fields(want) {
			if err != nil || !strings.Contains(got, part) || answer.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: %s %s, %v; want %s", body, answer.Header.Get("Content-Type"), got, err, want)
				break
			}
		}
	}
}
