package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"mailroom/commands"
	"mailroom/commands/surface"
	"mailroom/commands/surface/surfacetest"
)

// badMessages are invalid messages, each with the code and the ID of the answer.
var badMessages = []struct {
	text, id string
	code     int
}{
	{`{bad json`, `null`, -32700},
	{`{"jsonrpc":"2.0","id":9,"method":"ping"`, `9`, -32700}, // it is incomplete
	{`{"jsonrpc":"2.0","id":9,"method":"ping"} x`, `9`, -32700},
	{`{"jsonrpc":"2.0","id":9,"method":"ping"}{"jsonrpc":"2.0","id":8,"method":"ping"}`, `9`, -32700},
	{`{"jsonrpc":"2.0","id":"nine","method":"pi` + "\t" + `ng"}`, `"nine"`, -32700},
	{"\x00\x01", `null`, -32700},
	{"\ufeff\ufeff{}", `null`, -32700}, // one mark is removed
	{`5`, `null`, -32600},
	{`"ping"`, `null`, -32600},
	{`null`, `null`, -32600},
	{`[]`, `null`, -32600},
	{`[{"jsonrpc":"2.0","id":9,"method":"ping"}]`, `null`, -32600},
	{`{}`, `null`, -32600},
	{`{"jsonrpc":"2.0"}`, `null`, -32600},
	{`{"jsonrpc":"2.0","id":9}`, `9`, -32600},
	{`{"jsonrpc":"2.0","id":9,"params":{"name":"x"}}`, `9`, -32600},
	{`{"jsonrpc":"2.0","params":{"id":1},"id":9}`, `9`, -32600},
	{`{"jsonrpc":"2.0","id":9,"Method":"ping"}`, `9`, -32600},
	{`{"jsonrpc":"2.0","id":9,"method":5}`, `9`, -32600},
	{`{"jsonrpc":"2.0","id":9,"method":["ping"]}`, `9`, -32600},
	{`{"jsonrpc":"1.0","id":9,"method":"ping"}`, `9`, -32600},
	{`{"id":9,"method":"ping"}`, `9`, -32600},
	{`{"jsonrpc":2,"id":"a","method":"ping"}`, `"a"`, -32600},
	{`{"jsonrpc":"2.0","id":7.5,"method":"ping"}`, `7.5`, -32600},
	{`{"jsonrpc":"2.0","id":7.5,"method":"ping","ID":8}`, `7.5`, -32600},
	{`{"jsonrpc":"2.0","id":1e999,"method":"ping"}`, `1e999`, -32600},
	{`{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, `9007199254740993`, -32600},
	{`{"jsonrpc":"2.0","id":null,"method":"ping"}`, `null`, -32600},
	{`{"jsonrpc":"2.0","id":true,"method":"ping"}`, `null`, -32600},
	{`{"jsonrpc":"2.0","id":[1],"method":"ping"}`, `null`, -32600},
	{`{"jsonrpc":"2.0","id":{"id":1},"method":"ping"}`, `null`, -32600},
	{`{"jsonrpc":"2.0","id":9,"method":"ping","params":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`,
		`9`, -32600},
	{`{"jsonrpc":"2.0","id":9,"method":"notifications/initialized"}`, `9`, -32600},
}

// answerOf returns the ID and the code of a JSON-RPC answer.
func answerOf(t *testing.T, line string) (id string, code int) {
	t.Helper()
	var a struct {
		ID    json.RawMessage
		Error struct{ Code int }
	}
	if err := json.Unmarshal([]byte(line), &a); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return string(a.ID), a.Error.Code
}

// TestBadLines checks that an invalid line gets a JSON-RPC error, with its ID if that can be read, and has no other
// effect on its client.
func TestBadLines(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "a")
	s := rawly(t, stdioServer(e.Env, "a", "relay"), "a")
	s.say("\ufeff" + hello + "\r")
	if got := s.next(); !strings.Contains(got, `"id":0`) || !strings.Contains(got, `"serverInfo"`) {
		t.Fatalf("behind a byte order mark: %s", got)
	}
	long := strings.Repeat("x", surface.MaxLine)
	tooLong := badMessages[:0:0]
	for text, id := range map[string]string{
		long: `null`, `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"text":"` + long + `"}}`: `9`,
		`{"method":"tools/call","params":{"id":8,"text":"\"id\":7,` + long +
			`"},"jsonrpc":"2.0","id":"last"}`: `"last"`,
		"\ufeff" + `{"params":{"text":"` + long + long + `"},"id":9}`: `9`,
		`{"params":{"text":"` + long:                                  `null`, strings.Repeat(" ", surface.MaxLine) + `{"id":9}`: `9`,
	} {
		tooLong = append(tooLong, struct {
			text, id string
			code     int
		}{text, id, -32600})
	}
	for _, bad := range append(tooLong, badMessages...) {
		s.say(bad.text)
		if id, code := answerOf(t, s.next()); id != bad.id || code != bad.code {
			t.Errorf("%.200q is answered with %d to %s; want %d to %s", bad.text, code, id, bad.code, bad.id)
		}
		for _, blank := range []string{"", " \t", "\r", "\ufeff"} { // is ignored
			s.say(blank)
		}
	}
	for _, silent := range []string{ // these need no answer
		`{"jsonrpc":"2.0","method":"ping"}`, `{"jsonrpc":"2.0","method":"notifications/nothing"}`,
		`{"jsonrpc":"2.0","method":"tools/call","params":7}`,
		`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":"x","error":{"code":-1,"message":"no"}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled"}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[1]}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7.5}}`,
	} {
		s.say(silent)
	}
	s.say("\ufeff" + `{"jsonrpc":"2.0","id":5.0,"method":"tools/list"}`)
	if got := s.next(); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":5,`) || !strings.Contains(got, "send_message") {
		t.Errorf("afterwards: %s", got)
	}
}

// TestLastLineWithoutItsEnd checks that piped input is answered completely, even if the last line has no line ending
// and the lines before it are invalid.
func TestLastLineWithoutItsEnd(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "a")
	var out bytes.Buffer
	in := strings.NewReader("{\n\n" + hello)
	if err := NewServer(e.Env, "v1").offering(false).serveStream(t.Context(),
		commands.Caller{Name: "a", Session: "default"}, in, &out); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, `-32700`) ||
		!strings.Contains(got, `"serverInfo"`) {
		t.Errorf("it says %s", got)
	}
}

// TestBadRequestsOverHTTP checks that an invalid request gets a JSON-RPC error with the ID of the request.
func TestBadRequestsOverHTTP(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "a")
	token := e.Token("a", false)
	check := func(body string, status int, id string, code int) {
		t.Helper()
		for _, version := range []string{"", "2025-11-25", modernVersion} {
			r := e.message(t.Context(), token, "/mcp", body)
			r.Header.Set(versionHeader, version)
			if version == "" {
				r.Header.Del(versionHeader)
			}
			got, text := e.answerTo(r)
			if gotID, gotCode := answerOf(t, text); got != status || gotID != id || gotCode != code {
				t.Errorf("%.200q, version %q: %d, %d to %s; want %d, %d to %s", body, version, got, gotCode, gotID,
					status, code, id)
			}
		}
	}
	for _, bad := range badMessages {
		check(bad.text, http.StatusBadRequest, bad.id, bad.code)
	}
	check(``, http.StatusBadRequest, `null`, -32700)
	for id, version := range map[string]string{`7`: "", `"x"`: "2025-11-25"} {
		r := e.message(t.Context(), token, "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"zork/list"}`, id))
		r.Header.Set(versionHeader, version)
		if version == "" {
			r.Header.Del(versionHeader)
		}
		status, text := e.answerTo(r)
		if gotID, code := answerOf(t, text); status != http.StatusOK || gotID != id || code != -32601 {
			t.Errorf("an unknown method: %d %s", status, text)
		}
	}
	for body, status := range map[string]int{
		"\ufeff" + listTools: http.StatusOK,
		"\ufeff" + `{"jsonrpc":"2.0","method":"notifications/initialized"}`: http.StatusAccepted,
		`{"jsonrpc":"2.0","method":"no/such"}`:                              http.StatusBadRequest,
		`{"jsonrpc":"2.0","method":"tools/list"}`:                           http.StatusBadRequest,
		`{"jsonrpc":"2.0","id":1,"result":{}}`:                              http.StatusAccepted,
	} {
		if got, text := e.post(token, "/mcp", body); got != status {
			t.Errorf("%q: %d %s; want %d", body, got, text, status)
		}
	}
	answer, err := http.DefaultClient.Do(e.message(t.Context(), token, "/mcp", `{"jsonrpc":"2.0","id":9}`))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	surfacetest.Equal(t, "the type of an answer", answer.Header.Get("Content-Type"), "application/json")
}
