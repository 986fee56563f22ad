package surface

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
)

// certificate makes one for a name, and returns its files and a client that trusts it.
func certificate(t *testing.T, name string) (cert, key string, client *http.Client) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	made, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	cert, key = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made})
	if err := os.WriteFile(cert, certPEM, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), 0o600); err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	return cert, key, &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: name}}}
}

// With a certificate the endpoints are encrypted, and reached by the name that --host gives.
func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key, client := certificate(t, "mail.example")
	f := newFort(t, webOptions{listen: "0.0.0.0:0", cert: cert, key: key, hosts: []string{"mail.example"}}, "ann", "bob")
	_, port, err := net.SplitHostPort(strings.TrimPrefix(f.address, "https://"))
	if err != nil || !strings.HasPrefix(f.address, "https://") {
		t.Fatalf("address %s: %v", f.address, err)
	}
	ask := func(host, token string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://127.0.0.1:"+port+"/v1/commands/agent_list", nil)
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
	token := f.token("ann", false)
	for host, want := range map[string]int{"mail.example": 200, "mail.example:" + port: 200, "192.0.2.1": 200, "evil.example": 403} {
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
	if _, err := http.Get(f.address + "/healthz"); err == nil {
		t.Error("a client that does not trust the certificate got an answer")
	}
	if answer := (&endpoints{t, f.router, "127.0.0.1:" + port}).raw("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); strings.Contains(answer, "200 OK") {
		t.Errorf("without TLS: %q", answer)
	}
	if strings.Contains(f.logged(), "unencrypted") {
		t.Error("a daemon with a certificate warns of unencrypted messages")
	}
	old := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11}}}
	if _, err := old.Get("https://127.0.0.1:" + port + "/healthz"); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
}

// Beyond loopback and without a certificate the log warns; on loopback it does not.
func TestUnencryptedBeyondLoopback(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]bool{"0.0.0.0:0": true, ":0": true, "127.0.0.1:0": false, "localhost:0": false} {
		f := newFort(t, webOptions{listen: listen})
		if got := strings.Contains(f.logged(), "unencrypted"); got != want {
			t.Errorf("listening on %s warns: %t; want %t", listen, got, want)
		}
	}
	cert, key, _ := certificate(t, "mail.example")
	r := openRouter(t, filepath.Join(t.TempDir(), "mailroom.db"), nil)
	for _, o := range []webOptions{
		{cert: cert}, {key: key}, {cert: cert, key: cert}, {cert: key, key: key}, {cert: "/nosuch", key: key},
	} {
		o.listen = "127.0.0.1:0"
		if _, err := listenOn(t, r, o); orchestrator.CodeOf(err) != orchestrator.InvalidParams {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
