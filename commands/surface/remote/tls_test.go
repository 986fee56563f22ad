package remote

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator/certificate"
	"mailroom/orchestrator/orchestratortest/want"
)

// TestPinned checks that only the key identifies the other side, regardless of the clocks.
func TestPinned(t *testing.T) {
	t.Parallel()
	own, err := certificate.Own(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(own.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	connect := func(pin string, apart time.Duration) error {
		here, there := net.Pipe()
		defer here.Close()
		go tls.Server(there, &tls.Config{Certificates: []tls.Certificate{own}}).Handshake()
		config := pinned(pin)
		config.Time = func() time.Time { return time.Now().Add(apart) }
		return tls.Client(here, config).Handshake()
	}
	for _, apart := range []time.Duration{0, 24 * time.Hour, -24 * time.Hour, -20 * 365 * 24 * time.Hour} {
		want.Equal(t, "error at "+apart.String(), connect(certificate.Pin(cert), apart), nil)
	}
	want.Equal(t, "another key is refused", errors.Is(connect(strings.Repeat("A", 43), 0), errOtherKey), true)
}

// TestNewerVersion checks that lines of a newer version are read without their unknown fields.
func TestNewerVersion(t *testing.T) {
	t.Parallel()
	in := newReader(strings.NewReader(`{"request":{"args":["status"],"colours":"all"},"later":[1]}` + "\n" + `{"status":3,"later":{}}` + "\n"))
	var first told
	want.Equal(t, "error", in.next(&first), nil)
	want.Equal(t, "line", strings.Join(first.Request.Args, " "), "status")
	var last wanted
	want.Equal(t, "error", in.next(&last), nil)
	want.Equal(t, "status", *last.Status, 3)
}
