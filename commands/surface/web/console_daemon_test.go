package web

import (
	"testing"

	"mailroom/orchestrator/orchestratortest/want"
)

// TestOwnAddress checks that a recorded address is accepted only if it belongs to this machine and has only a port.
func TestOwnAddress(t *testing.T) {
	t.Parallel()
	for listening, at := range map[string]string{
		"http://127.0.0.1:8080": "http://127.0.0.1:8080", "https://127.9.9.9:1": "https://127.9.9.9:1",
		"http://[::1]:8080":   "http://[::1]:8080",
		"http://0.0.0.0:8080": "http://127.0.0.1:8080", "https://[::]:8080": "https://127.0.0.1:8080",
		"http://[::ffff:127.0.0.1]:80": "http://[::ffff:127.0.0.1]:80",
		"":                             "", "http://127.0.0.1": "", "127.0.0.1:8080": "", "http://127.0.0.1:8080/": "",
		"http://127.0.0.1:8080/phish": "", "http://127.0.0.1:8080?q": "",
		"http://127.0.0.1:8080#f": "", "http://u@127.0.0.1:8080": "", "http://u:p@127.0.0.1:8080": "",
		"http://localhost:8080": "", "http://example.com:80": "",
		"http://192.0.2.1:80": "", "http://[2001:db8::1]:80": "", "ftp://127.0.0.1:80": "", "javascript:alert(1)": "",
		"http://127.0.0.1:8080@example.com": "",
		"http://127.0.0.1:x":                "", "http://127.1:80": "", "http://0x7f000001:80": "", "http:127.0.0.1:80": "",
		"HTTP://127.0.0.1:80": "",
	} {
		got := ""
		if url := ownAddress(listening); url != nil {
			got = url.String()
		}
		want.Equal(t, listening, got, at)
	}
}

// TestLeadsHere checks that a name in a certificate is used for a browser only if it resolves to this machine.
func TestLeadsHere(t *testing.T) {
	t.Parallel()
	want.Equal(t, "localhost", leadsHere(t.Context(), "localhost"), true)
	want.Equal(t, "nowhere.invalid", leadsHere(t.Context(), "nowhere.invalid"), false)
	want.Equal(t, "192.0.2.1", leadsHere(t.Context(), "192.0.2.1"), false)
}
