package mcp

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// modernCall returns a request of a version without sessions. params are the parameters besides _meta, each followed
// by a comma.
func modernCall(id, version, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":%s,`+
		`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`, id, method, params, version)
}

const (
	newest    = `"` + modernVersion + `"`
	sendToB   = `"name":"send_message","arguments":{"target":"b","message_type":"STATUS","message":"x"},`
	listTools = `{"jsonrpc":"2.0","id":5,"method":"tools/list"}`
)

// TestVersions checks that a request of an unsupported version is refused at any time, and that each era has its own
// handshake.
func TestVersions(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "a", "b")
	unspoken := func(version string) string { return modernCall("5", version, "tools/call", sendToB) }
	const supported = `"supported":["2026-07-28","2025-11-25","2025-06-18","2024-11-05"]`
	for _, before := range [][]string{
		{}, {hello}, {modernCall("0", newest, "tools/list", "")}, {modernCall("0", newest, "server/discover", "")},
		{modernCall("0", newest, "tools/list", ""), hello},
		{hello, modernCall("0", newest, "tools/list", "")}, {unspoken(`"1900-01-01"`)},
	} {
		initialized, modernToo := false, false
		for _, line := range before {
			initialized, modernToo = initialized || line == hello, modernToo || strings.Contains(line, modernVersion)
		}
		listed := `"send_message"`
		if !initialized {
			listed = `"code":-32600`
		}
		for _, c := range []struct{ line, want string }{
			{unspoken(`"1900-01-01"`),
				`"code":-32022,` + `"message":"unsupported protocol version","data":{` + supported +
					`,"requested":"1900-01-01"}`},
			{unspoken(`"2099-01-01"`), `"requested":"2099-01-01"`},
			{unspoken(`"2025-03-26"`), `"code":-32022`}, // requires batches
			{unspoken(`""`), `"code":-32602`},
			{unspoken(`7`), `"code":-32602`},
			{modernCall("5", `"1900-01-01"`, "server/discover", ""), `"code":-32022`},
			{modernCall("5", `"1900-01-01"`, "initialize", ""), `"code":-32022`},
			{modernCall("5", newest, "ping", ""), `"code":-32601`},
			{modernCall("5", newest, "tools/list", ""), `"send_message"`},
			{listTools, listed},
			{modernCall("5", newest, "server/discover", ""), supported[len(`"supported":`):]},
		} {
			s := rawly(t, stdioServer(e.Env, "a", "relay"), "a")
			for _, line := range before {
				s.say(line)
				if got := s.next(); !strings.Contains(got, `"result"`) && !strings.Contains(line, "1900") {
					t.Errorf("after %q, to %s: %s", before, line, got)
				}
			}
			s.say(c.line)
			if got := s.next(); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":5,`) || !strings.Contains(got, c.want) {
				t.Errorf("after %q, to %s: %s; want %s", before, c.line, got, c.want)
			}
		}
		if !initialized {
			s := rawly(t, stdioServer(e.Env, "a", "relay"), "a")
			for _, line := range append(before, hello, listTools) {
				s.say(line)
				if got := s.next(); !strings.Contains(got, `"result"`) && !strings.Contains(line, "1900") {
					t.Errorf("an initialize after %q, to %s: %s", before, line, got)
				}
			}
		}
	}
	if got := e.value(`SELECT count(*) FROM agent_message`); got != "0" {
		t.Errorf("%s messages were sent by what was refused", got)
	}
}

// TestAgreedVersions checks the version that the server agrees to for each version in initialize.
func TestAgreedVersions(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "a")
	token := e.Token("a", false)
	for asked, agreed := range map[string]string{
		"2025-11-25": "2025-11-25", "2025-06-18": "2025-06-18", "2024-11-05": "2024-11-05",
		"2025-03-26": "2024-11-05", // requires batches
		"1900-01-01": "2025-11-25", "2099-01-01": "2025-11-25", modernVersion: "2025-11-25",
	} {
		asks := strings.Replace(hello, "2025-11-25", asked, 1)
		s := rawly(t, stdioServer(e.Env, "a", "relay"), "a")
		s.say(asks)
		r := e.message(t.Context(), token, "/mcp", asks)
		r.Header.Del(versionHeader)
		_, overHTTP := e.answerTo(r)
		for way, got := range map[string]string{"stdio": s.next(), "HTTP": overHTTP} {
			if !strings.Contains(got, `"protocolVersion":"`+agreed+`"`) {
				t.Errorf("%s over %s: %s; want %s", asked, way, got, agreed)
			}
			if promised := strings.Contains(got, `"subscribe":true`); promised != (way == "stdio") {
				t.Errorf("subscriptions are promised over %s: %t", way, promised)
			}
		}
	}
}

// modernRequest returns an HTTP request with the headers that repeat data of its body. change may break them.
func (e *endpoints) modernRequest(token, body, method, name string, change func(http.Header)) *http.Request {
	e.T.Helper()
	r := e.message(e.T.Context(), token, "/mcp/relay", body)
	r.Header.Set(versionHeader, modernVersion)
	r.Header.Set("Mcp-Method", method)
	if name != "" {
		r.Header.Set(nameHeader, name)
	}
	if change != nil {
		change(r.Header)
	}
	return r
}

// TestHeaders checks that the headers of the newest protocol version must match the message, whatever their encoding.
func TestHeaders(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "a", "b")
	token := e.Token("a", false)
	list := modernCall("5", newest, "tools/list", "")
	call := modernCall("5", newest, "tools/call", sendToB)
	read := modernCall("5", newest, "resources/read", `"uri":"mailroom://inbox/a",`)
	set := func(name string, values ...string) func(http.Header) {
		return func(h http.Header) {
			h.Del(name)
			for _, value := range values {
				h.Add(name, value)
			}
		}
	}
	for _, c := range []struct {
		body, method, name string
		change             func(http.Header)
		status             int
		want               string
	}{
		{list, "tools/list", "", nil, 200, `"send_message"`},
		{call, "tools/call", "send_message", nil, 200, `messageId`},
		{call, "tools/call", "=?base64?c2VuZF9tZXNzYWdl?=", nil, 200, `messageId`},
		{read, "resources/read", "=?base64?bWFpbHJvb206Ly9pbmJveC9h?=", nil, 200, `contents`},
		{call, "tools/call", "=?base64?Z2V0X21lc3NhZ2Vz?=", nil, 400, `"code":-32020`}, // get_messages
		{call, "tools/call", "=?base64?c2VuZF9tZXNzYWdl", nil, 400, `"code":-32020`},
		{call, "tools/call", "=?BASE64?c2VuZF9tZXNzYWdl?=", nil, 400, `"code":-32020`},
		{call, "tools/call", "=?base64?!?=", nil, 400, `must be valid Base64`},
		{call, "tools/call", "=?base64??=", nil, 400, `"code":-32020`},
		{call, "tools/call", "send_m\u00e9ssage", nil, 400, `"code":-32020`},
		{call, "tools/call", "", nil, 400, `"code":-32020`},
		{call, "tools/list", "send_message", nil, 400, `"code":-32020`},
		{call, "tools/call", "", set(nameHeader, "send_message", "get_messages"), 400, `Mcp-Name must occur once, but occurs 2 times`},
		// the value must be encoded again
		{strings.Replace(call, `"send_message"`, `"=?base64?eA==?="`, 1), "tools/call", "=?base64?eA==?=", nil, 400,
			`"code":-32020`},
		{list, "tools/list", "", set("Mcp-Method", "tools/list", "tools/call"), 400, `"code":-32020`},
		{list, "tools/list", "", set(versionHeader, "1900-01-01"), 400,
			`"code":-32022,"message":"unsupported protocol version","data":{"supported":["2026-07-28"`},
		{list, "tools/list", "", set(versionHeader, "2099-01-01"), 400, `"requested":"2099-01-01"`},
		{list, "tools/list", "", set(versionHeader, "2025-03-26"), 400, `"code":-32022`},
		{list, "tools/list", "", set(versionHeader, "x"), 400, `"code":-32022`},
		{list, "tools/list", "", set(versionHeader, "2025-11-25"), 400, `"code":-32020`},
		{list, "tools/list", "", set(versionHeader, modernVersion, "2025-11-25"), 400, `"code":-32020`},
		{list, "tools/list", "", set(versionHeader), 400, `"code":-32020`},
		{modernCall("5", `"1900-01-01"`, "tools/list", ""), "tools/list", "", set(versionHeader), 400, `"code":-32022`},
		{modernCall("5", `"1900-01-01"`, "tools/list", ""), "tools/list", "", nil, 400, `"code":-32020`},
		{modernCall("5", `7`, "tools/list", ""), "tools/list", "", nil, 400, `"code":-32602`},
		{listTools, "tools/list", "", set(versionHeader, "1900-01-01"), 400, `"code":-32022`},
		{`{"jsonrpc":"2.0","id":5,"method":"tools/list","params":{}}`, "tools/list", "", nil, 400, `"code":-32602`},
		{modernCall("5", newest, "no/such", ""), "no/such", "", nil, 404, `"code":-32601`},
	} {
		status, got := e.answerTo(e.modernRequest(token, c.body, c.method, c.name, c.change))
		if status != c.status || !strings.Contains(got, c.want) || !strings.Contains(got, `"id":5`) {
			t.Errorf("%s %q, %.200s: %d %s; want %d %s", c.method, c.name, c.body, status, got, c.status, c.want)
		}
	}
	if status, got := e.answerTo(e.modernRequest(token, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "",
		"", set(versionHeader, "1900-01-01"))); status != 400 || !strings.Contains(got, `-32022`) {
		t.Errorf("a notification of a version that is not spoken: %d %s", status, got)
	}
}
