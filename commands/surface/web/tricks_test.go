package web_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"mailroom/commands/surface/web"
)

// trick is a request that ann sends, and its expected result.
type trick struct {
	method, path, body string
	change             func(*http.Request)
	status             int
	code               string
}

const goodSend = `{"recipient":"bob","message_type":"note"}`

// tricks returns requests that no honest client sends, and some honest ones.
func tricks(port string) []trick {
	return slices.Concat(hostTricks(port), pathTricks(), methodTricks(), headerTricks(), bodyTricks())
}

func hostTricks(port string) []trick {
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	return []trick{
		{"POST", "/v1/commands/send", goodSend, nil, 200, ""},
		{"POST", "/v1/commands/SEND", goodSend,
			set("Sec-Fetch-Site", "same-origin", "Origin", "http://127.0.0.1:"+port), 200, ""},
		{"POST", "/v1/commands/send", goodSend,
			set("X-Forwarded-For", "10.1.2.3", "X-Mailroom-Agent", "bob", "X-Forwarded-User", "bob"), 200, ""},
		{"POST", "/v1/commands/send", goodSend, host("mail.example"), 200, ""},
		{"POST", "/v1/commands/send", goodSend, host("MAIL.example:443"), 200, ""},
		{"POST", "/v1/commands/send", goodSend, host("LocalHost:1"), 200, ""},
		{"POST", "/v1/commands/send", goodSend, host("evil.example"), 403, "permission_denied"},
		{"POST", "/v1/commands/send", goodSend, host("evil.example:" + port), 403, "permission_denied"},
		{"POST", "/v1/commands/send", goodSend, host("127.0.0.1.evil.example"), 403, "permission_denied"},
		{"POST", "/v1/commands/send", goodSend, host("127.0.0.1:80@evil.example"), 403, "permission_denied"},
		{"POST", "/v1/commands/send", goodSend, host("localhost:evil"), 403, "permission_denied"},
		{"POST", "/v1/commands/send", goodSend, host("mail.example.evil.example"), 403, "permission_denied"},
		{"POST", "/v1/commands/send", goodSend, host("mail.example."), 403, "permission_denied"},
		{"POST", "/v1/commands/send", goodSend, host("192.0.2.1"), 403, "permission_denied"},
		{"POST", "/v1/commands/send", goodSend, host("[[::1"), 403, "permission_denied"},
		{"POST", "/v1/commands/send", goodSend, host("]127.0.0.1["), 403, "permission_denied"},
		{"POST", "/v1/commands/send", goodSend, set("Origin", "null"), 403, "permission_denied"},
		{"POST", "/v1/commands/send", goodSend, set("Origin", "http://evil.example"), 403, "permission_denied"},
		{"POST", "/v1/commands/send", goodSend, set("Origin", "http://127.0.0.1:1"), 403, "permission_denied"},
		{"POST", "/v1/commands/send", goodSend,
			set("Origin", "http://127.0.0.1:"+port, "Origin", "http://evil.example"), 403, "permission_denied"},
		{"POST", "/v1/commands/send", goodSend, set("Origin", ""), 403, "permission_denied"},
		{"POST", "/v1/commands/send", goodSend, set("Sec-Fetch-Site", "cross-site"), 403, "permission_denied"},
		{"POST", "/v1/commands/send", goodSend, set("Sec-Fetch-Site", "same-site"), 403, "permission_denied"},
		{"GET", "/v1/events", "", set("Sec-Fetch-Site", "cross-site"), 403, "permission_denied"},
		{"GET", "/metrics", "", set("Sec-Fetch-Site", "cross-site"), 403, "permission_denied"},
		{"GET", "/readyz", "", set("Sec-Fetch-Site", "none", "Sec-Fetch-Site", "cross-site"), 403, "permission_denied"},
	}
}

func pathTricks() []trick {
	return []trick{
		{"POST", "/mcp/..", goodSend, nil, 404, "not_found"}, {"POST", "/mcp//relay", goodSend, nil, 404, "not_found"},
		{"POST", "/mcp/%2e%2e/", goodSend, nil, 404, "not_found"},
		{"POST", "/mcp/%2e%2e/healthz", goodSend, nil, 404, "not_found"},
		{"POST", "/mcp%2frelay", goodSend, nil, 404, "not_found"},
		{"POST", "/mcp/nosuch", goodSend, nil, 404, "not_found"},
		{"POST", "/mcp/relay/", goodSend, nil, 404, "not_found"},
		{"POST", "/mcp/RELAY", goodSend, nil, 404, "not_found"}, {"POST", "/mcp/", goodSend, nil, 404, "not_found"},
		{"GET", "/v1/commands/../healthz", "", nil, 404, "not_found"},
		{"GET", "/v1/commands/../../healthz", "", nil, 404, "not_found"},
		{"POST", "/v1/commands/", goodSend, nil, 404, "not_found"},
		{"POST", "/v1/commands/send/", goodSend, nil, 404, "not_found"},
		{"POST", "/v1//commands/send", goodSend, nil, 404, "not_found"},
		{"POST", "/./v1/commands/send", goodSend, nil, 404, "not_found"},
		{"POST", "//evil.example/..", goodSend, nil, 404, "not_found"},
		{"POST", "/v1/commands/agent%2fadd", goodSend, nil, 404, "unknown_command"},
		{"POST", "/v1/commands/sen%00d", goodSend, nil, 404, "unknown_command"},
		{"POST", "/v1/commands/sendd", goodSend, nil, 404, "unknown_command"},
		{"POST", "/v1/commands/" + strings.Repeat("x", 5000), goodSend, nil, 404, "unknown_command"},
		{"POST", "/v1/commands/%2e%2e", goodSend, nil, 404, "not_found"},
	}
}

func methodTricks() []trick {
	return []trick{
		{"GET", "/v1/commands/send", "", nil, 405, "invalid_params"},
		{"PUT", "/v1/commands/send", goodSend, nil, 405, "invalid_params"},
		{"HEAD", "/v1/commands/send", "", nil, 405, ""}, {"POST", "/v1/events", goodSend, nil, 405, "invalid_params"},
		{"DELETE", "/v1/openapi.json", "", nil, 405, "invalid_params"},
		{"POST", "/healthz", goodSend, nil, 405, "invalid_params"},
		{"PATCH", "/metrics", goodSend, nil, 405, "invalid_params"},
		{"TRACE", "/v1/commands/send", "", nil, 405, "invalid_params"},
		{"QUITEALONGMETHOD", "/v1/commands/send", "", nil, 405, "invalid_params"},
	}
}

func headerTricks() []trick {
	return []trick{
		{"POST", "/v1/commands/send", goodSend, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") },
			415, "invalid_params"},
		{"POST", "/v1/commands/send", goodSend, func(r *http.Request) { r.Header.Del("Content-Type") }, 415,
			"invalid_params"},
		{"POST", "/v1/commands/send", goodSend,
			func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }, 415,
			"invalid_params"},
		{"POST", "/v1/commands/send", goodSend, set("Content-Encoding", "gzip"), 415, "invalid_params"},
		{"POST", "/v1/commands/send", "\x1f\x8b\x08\x00", nil, 400, "invalid_params"},
		{"POST", "/v1/commands/send?session=a&session=b", goodSend, nil, 400, "invalid_params"},
		{"POST", "/v1/commands/send?session=%zz", goodSend, nil, 400, "invalid_params"},
		{"POST", "/v1/commands/send?session=..%2fx", goodSend, nil, 400, "invalid_params"},
		{"POST", "/v1/commands/send?session=%00", goodSend, nil, 400, "invalid_params"},
	}
}

func bodyTricks() []trick {
	deep := `{"recipient":"bob","message_type":"note","payload":` + strings.Repeat("[", 100_000) +
		strings.Repeat("]", 100_000) + `}`
	return []trick{
		{"POST", "/v1/commands/send", `{"recipient":"bob","recipient":"ann","message_type":"note"}`, nil, 400,
			"invalid_params"},
		{"POST", "/v1/commands/send", `{"recipient":"bob","RECIPIENT":"ann","message_type":"note"}`, nil, 400,
			"invalid_params"},
		{"POST", "/v1/commands/send", `{"recipient":"bob\u0000","message_type":"note"}`, nil, 400, "invalid_params"},
		{"POST", "/v1/commands/send", "{\"recipient\":\"bob\x00\",\"message_type\":\"note\"}", nil, 400,
			"invalid_params"},
		{"POST", "/v1/commands/send", "{\"recipient\":\"b\xffb\",\"message_type\":\"note\"}", nil, 400,
			"invalid_params"},
		{"POST", "/v1/commands/send", goodSend + goodSend, nil, 400, "invalid_params"},
		{"POST", "/v1/commands/send", `[` + goodSend + `]`, nil, 400, "invalid_params"},
		{"POST", "/v1/commands/send", `{"recipient":"bob","message_type":"note","priority":1e999}`, nil, 400,
			"invalid_params"},
		{"POST", "/v1/commands/send", `{"recipient":"bob","message_type":"note","priority":` +
			strings.Repeat("9", 100_000) + `}`, nil, 400, "invalid_params"},
		{"POST", "/v1/commands/send", deep, nil, 400, "invalid_params"},
		{"POST", "/v1/commands/send", "\ufeff" + goodSend, nil, 200, ""},
		{"POST", "/v1/commands/send", "\ufeff\ufeff" + goodSend, nil, 400, "invalid_params"},
		{"POST", "/v1/commands/send", `{"recipient":"bob","message_type":"note","__proto__":{"admin":true}}`, nil, 400,
			"invalid_params"},
	}
}

// TestTricks checks headers, paths, methods and bodies that no honest client sends.
func TestTricks(t *testing.T) {
	t.Parallel()
	f := newFort(t, web.Options{Hosts: []string{"mail.example"}}, "ann", "bob")
	token := f.Token("ann", false)
	port := f.Address[strings.LastIndex(f.Address, ":")+1:]
	for _, row := range tricks(port) {
		status, _, body := f.Request(row.method, row.path, row.body, both(bearer(token), orNothing(row.change)))
		code, hint := failure(body)
		if status != row.status || code != row.code {
			t.Errorf("%s %s %.80q: %d %.300s; want %d %s", row.method, row.path, row.body, status, body, row.status,
				row.code)
		}
		if (status == 404 || status == 405 || status == 415) && hint == "" && row.method != "HEAD" {
			t.Errorf("%s %s: no hint in %s", row.method, row.path, body)
		}
	}
}

func orNothing(change func(*http.Request)) func(*http.Request) {
	if change == nil {
		return func(*http.Request) {}
	}
	return change
}
