package web_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"mailroom/commands/surface/web"
)

// TestBehindAProxy checks that a request from a proxy on this machine does not count as local, as shown by its host
// name or by any proxy header, whatever its value.
func TestBehindAProxy(t *testing.T) {
	t.Parallel()
	f := newFort(t, web.Options{Hosts: []string{"mail.example"}}, "ann")
	token := bearer(f.Token("ann", false))
	changes := map[string]func(*http.Request){
		"its name":  func(r *http.Request) { r.Host = "mail.example" },
		"pretended": set("X-Forwarded-For", "127.0.0.1"),
		"in small":  func(r *http.Request) { r.Header["x-real-ip"] = []string{"203.0.113.9"} },
	}
	for _, name := range []string{"X-Forwarded-For", "Forwarded", "X-Real-IP", "Via", "X-Forwarded-Host",
		"CF-Connecting-IP", "X-Forwarded-Proto", "True-Client-IP", "X-Client-IP"} {
		changes[name] = set(name, "203.0.113.9")
		changes[name+", empty"] = set(name, "")
	}
	for _, path := range []string{"/metrics", "/readyz"} {
		if status, _, body := f.Request("GET", path, "",
			set("User-Agent", "Prometheus/3.5.0", "X-Prometheus-Scrape-Timeout-Seconds", "10")); status != 200 {
			t.Errorf("GET %s from this machine: %d %.200s", path, status, body)
		}
		for name, change := range changes {
			if status, _, body := f.Request("GET", path, "", change); status != 401 {
				t.Errorf("GET %s by %s: %d %.200s; want 401", path, name, status, body)
			}
			if status, _, body := f.Request("GET", path, "", both(change, token)); status != 200 {
				t.Errorf("GET %s by %s with a token: %d %.200s", path, name, status, body)
			}
		}
	}
}

// TestNamesOfInvitations checks that programs can join under an unknown host name from an invitation, while pages in
// browsers are refused.
func TestNamesOfInvitations(t *testing.T) {
	t.Parallel()
	f := newFort(t, web.Options{}, "ann")
	called := func(r *http.Request) { r.Host = "host.docker.internal:9464" }
	status, _, body := f.Request("POST", "/v1/join", `{"agent":"ann","code":"ABCDEFGHIJKLMNOPQRSTUVWXYZ"}`, called)
	if status != http.StatusUnauthorized || !strings.Contains(body, "not valid") {
		t.Errorf("a wrong code is answered with %d: %s", status, body)
	}
	if status, _, body := f.Request("POST", "/v1/commands/get_messages", `{}`, both(called, bearer(f.Token("ann", false)))); status != 403 {
		t.Errorf("a command is answered with %d: %s", status, body)
	}
}

// TestThroughAReverseProxy checks the same with running proxies, each of which uses the daemon's own name.
func TestThroughAReverseProxy(t *testing.T) {
	t.Parallel()
	f := newFort(t, web.Options{}, "ann")
	daemon, err := url.Parse(f.Address)
	if err != nil {
		t.Fatal(err)
	}
	plain := httputil.NewSingleHostReverseProxy(daemon)
	for name, proxy := range map[string]*httputil.ReverseProxy{
		"as it comes": plain,
		"that says whom it serves": {Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(daemon)
			r.SetXForwarded()
		}},
		"that says only that it is one": {Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(daemon)
			r.Out.Header.Set("Via", "1.1 gateway")
		}},
		"that says who asked": {Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(daemon)
			r.Out.Header.Set("X-Real-IP", "203.0.113.9")
		}},
	} {
		front := httptest.NewServer(proxy)
		t.Cleanup(front.Close)
		for path, want := range map[string]int{"/metrics": 401, "/readyz": 401, "/healthz": 200} {
			if got := statusOf(t, front.URL+path, ""); got != want {
				t.Errorf("GET %s through a proxy %s: %d; want %d", path, name, got, want)
			}
			if got := statusOf(t, front.URL+path, f.Token("ann", false)); got != 200 {
				t.Errorf("GET %s through a proxy %s with a token: %d", path, name, got)
			}
		}
	}
}

// statusOf requests a URL, with a token unless that is "", and returns the status.
func statusOf(t *testing.T, url, token string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		bearer(token)(r)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return answer.StatusCode
}
