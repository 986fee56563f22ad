package web_test

import (
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"testing"

	"mailroom/commands/surface/surfacetest"
	"mailroom/commands/surface/web"
	"mailroom/orchestrator"
)

// TestTLS checks that, with a certificate, the endpoints are encrypted and can be reached under the name from --host.
func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key, client := surfacetest.Certificate(t, "mail.example")
	f := newFort(t, web.Options{Address: "0.0.0.0:0", Cert: cert, Key: key, Hosts: []string{"mail.example"}}, "ann",
		"bob")
	_, port, err := net.SplitHostPort(strings.TrimPrefix(f.Address, "https://"))
	if err != nil || !strings.HasPrefix(f.Address, "https://") {
		t.Fatalf("address %s: %v", f.Address, err)
	}
	ask := func(host, token string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			"https://127.0.0.1:"+port+"/v1/commands/agent_list", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode
	}
	token := f.Token("ann", false)
	for host, want := range map[string]int{"mail.example": 200, "mail.example:" + port: 200, "192.0.2.1": 200,
		"evil.example": 403} {
		if got := ask(host, token); got != want {
			t.Errorf("as %s: %d; want %d", host, got, want)
		}
	}
	if got := ask("mail.example", "wrong"); got != 401 {
		t.Errorf("without a token: %d", got)
	}
	res, err := client.Get("https://127.0.0.1:" + port + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 401 {
		t.Errorf("/metrics beyond loopback without a token: %d", res.StatusCode)
	}
	if _, err := http.Get(f.Address + "/healthz"); err == nil {
		t.Error("a client that does not trust the certificate got an answer")
	}
	if answer := raw(t, "http://127.0.0.1:"+port,
		"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); strings.Contains(answer, "200 OK") {
		t.Errorf("without TLS: %q", answer)
	}
	if strings.Contains(f.Logged(), "not encrypted") {
		t.Error("a daemon with a certificate warns of unencrypted messages")
	}
	old := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true,
		MaxVersion: tls.VersionTLS11}}}
	if _, err := old.Get("https://127.0.0.1:" + port + "/healthz"); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
}

// TestUnencryptedBeyondLoopback checks that the log has a warning for an unencrypted address beyond loopback only.
func TestUnencryptedBeyondLoopback(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]bool{"0.0.0.0:0": true, ":0": true, "127.0.0.1:0": false,
		"localhost:0": false} {
		f := newFort(t, web.Options{Address: listen})
		if got := strings.Contains(f.Logged(), "not encrypted"); got != want {
			t.Errorf("listening on %s warns: %t; want %t", listen, got, want)
		}
	}
	cert, key, _ := surfacetest.Certificate(t, "mail.example")
	e := surfacetest.New(t)
	for _, o := range []web.Options{
		{Cert: cert}, {Key: key}, {Cert: cert, Key: cert}, {Cert: key, Key: key}, {Cert: "/nosuch", Key: key},
	} {
		o.Address = "127.0.0.1:0"
		if _, err := web.Listen(t.Context(), e.Env, o); orchestrator.CodeOf(err) != orchestrator.InvalidParams {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
