package daemon

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"mailroom/commands/surface/phone"
	"mailroom/commands/surface/surfacetest"
)

// TestPhoneIsApart checks that the phone app and the endpoints serve none of each other's paths.
func TestPhoneIsApart(t *testing.T) {
	t.Parallel()
	f := surfacetest.New(t, "ann")
	if err := listen(f, "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	app, err := phone.Listen(t.Context(), f.Router.Ledger, f.Env.Log, phone.Options{Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(app.Close)
	token := f.Token("ann", true)
	behind := surfacetest.On(t, f.Router)
	behind.Address = app.Address
	for _, path := range []string{"/v1/commands/status", "/v1/openapi.json", "/v1/events", "/mcp", "/mcp/relay",
		"/metrics", "/readyz", "/healthz"} {
		for _, method := range []string{"GET", "POST"} {
			if status, _, body := behind.Request(method, path, "", surfacetest.Bearer(token)); status != 404 {
				t.Errorf("%s %s where phones ask: %d %s", method, path, status, body)
			}
		}
	}
	for _, path := range []string{"/", "/pair", "/app.js", "/sw.js", "/api/pair", "/api/device", "/api/signals",
		"/api/subscription", "/api/questions/q-1/answer", "/api/once/q-1/0/x"} {
		for _, method := range []string{"GET", "POST", "PUT"} {
			if status, _, body := f.Request(method, path, "", surfacetest.Bearer(token)); status != 404 {
				t.Errorf("%s %s where agents ask: %d %s", method, path, status, body)
			}
		}
	}
}

// TestPhoneTLS checks that, with a certificate, phones are served over TLS under the name in the setting.
func TestPhoneTLS(t *testing.T) {
	t.Parallel()
	cert, key, client := surfacetest.Certificate(t, "phone.example")
	t.Cleanup(client.CloseIdleConnections)
	f := surfacetest.New(t)
	if _, err := f.Router.SetSetting(t.Context(), "signal.url", "https://phone.example"); err != nil {
		t.Fatal(err)
	}
	app, err := phone.Listen(t.Context(), f.Router.Ledger, f.Env.Log,
		phone.Options{Address: "0.0.0.0:0", Cert: cert, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(app.Close)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(app.Address, "https://"))
	if err != nil {
		t.Fatal(app.Address, err)
	}
	for host, want := range map[string]int{"phone.example": 200, "phone.example:" + port: 200, "127.0.0.1": 403,
		"evil.example": 403} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "https://127.0.0.1:"+port+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != want || res.Header.Get("Content-Security-Policy") == "" {
			t.Errorf("as %s: %d %s, %v", host, res.StatusCode, body, err)
		}
	}
	if strings.Contains(f.Logged(), "not encrypted") {
		t.Errorf("a listener with a certificate warns: %s", f.Logged())
	}
	if res, err := http.Get("http://127.0.0.1:" + port + "/"); err == nil {
		res.Body.Close()
		if res.StatusCode == 200 {
			t.Error("without TLS the app is served, too")
		}
	}
}
