package listener

import (
	"net/http/httptest"
	"testing"

	"mailroom/orchestrator"
)

// TestBearerOf checks that a request must have exactly one Authorization header with a bearer token, and the error
// otherwise.
func TestBearerOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		headers []string
		secret  string
		refusal string
	}{
		{[]string{"Bearer secret"}, "secret", ""},
		{[]string{"bearer  secret "}, "secret", ""},
		{nil, "", "the request has no Authorization header"},
		{[]string{"Bearer a", "Bearer b"}, "", "the request must have one Authorization header, but has 2"},
		{[]string{"Basic c2VjcmV0"}, "", "the Authorization header has no bearer token"},
	} {
		r := httptest.NewRequest("POST", "/v1/commands/wait", nil)
		for _, h := range c.headers {
			r.Header.Add("Authorization", h)
		}
		secret, err := BearerOf(r, "a hint")
		refusal := ""
		if err != nil {
			refusal = err.(*orchestrator.Error).Message
		}
		if secret != c.secret || refusal != c.refusal {
			t.Errorf("%q: %q, %q; want %q, %q", c.headers, secret, refusal, c.secret, c.refusal)
		}
	}
}
