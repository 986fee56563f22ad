package web

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"mailroom/orchestrator/daemons"
	"mailroom/orchestrator/ledger"
)

// ConsoleOfDaemon returns the address of a daemon on this machine that serves the console, or "" if there is none. It
// contacts nobody if the database is not trusted, since somebody else may have written the address.
func ConsoleOfDaemon(ctx context.Context, l *ledger.Ledger) (string, error) {
	if why, err := l.Untrusted(ctx); why != "" || err != nil {
		return "", err
	}
	list, err := daemons.List(ctx, l)
	for _, d := range list {
		if d.Host == l.Host() && d.Listening != "" {
			if address := consoleAt(ctx, l, d.Listening); address != "" {
				return address, nil
			}
		}
	}
	return "", err
}

// consoleAt checks whether a daemon of this user that serves the console of this database listens at an address of
// this machine. It returns the address under which a browser reaches the daemon, or "". It sends no secrets, so it
// need not verify a certificate.
func consoleAt(ctx context.Context, l *ledger.Ledger, listening string) string {
	at := ownAddress(listening)
	if at == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	reached := ""
	asking := httptrace.WithClientTrace(ctx,
		&httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reached = i.Conn.RemoteAddr().String() }})
	request, err := http.NewRequestWithContext(asking, http.MethodGet, at.String()+proofPath, nil)
	if err != nil {
		return ""
	}
	challenge := rand.Text()
	request.Header.Set(challengeHeader, challenge)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	answer, err := transport.RoundTrip(request) // unlike a Client, follows no redirects
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	var given proof
	if json.NewDecoder(io.LimitReader(answer.Body, 4096)).Decode(&given) != nil ||
		!daemons.Ours(ctx, l, challenge, reached, given.Proof) {
		return ""
	}
	if answer.TLS != nil { // a browser requires a name in the certificate
		cert := answer.TLS.PeerCertificates[0]
		if names := cert.DNSNames; cert.VerifyHostname(at.Hostname()) != nil && len(names) > 0 &&
			!strings.Contains(names[0], "*") && leadsHere(ctx, names[0]) {
			at.Host = net.JoinHostPort(names[0], at.Port())
		}
	}
	return at.String()
}

// ownAddress parses the address that a daemon has recorded. It returns nil if the address leads to another machine,
// or has more than a scheme, a host and a port.
func ownAddress(listening string) *url.URL {
	at, err := url.Parse(listening)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Port() == "" ||
		listening != at.Scheme+"://"+at.Host {
		return nil
	}
	ip, err := netip.ParseAddr(at.Hostname())
	switch {
	case err != nil || !ip.IsUnspecified() && !isOwn(ip):
		return nil
	case ip.IsUnspecified():
		at.Host = net.JoinHostPort("127.0.0.1", at.Port())
	}
	return at
}

// isOwn reports whether an address belongs to this machine.
func isOwn(ip netip.Addr) bool {
	own, err := net.InterfaceAddrs()
	return ip.IsLoopback() || err == nil && slices.ContainsFunc(own, func(a net.Addr) bool {
		network, err := netip.ParsePrefix(a.String())
		return err == nil && network.Addr() == ip.Unmap().WithZone("")
	})
}

// leadsHere reports whether a name resolves only to addresses of this machine.
func leadsHere(ctx context.Context, name string) bool {
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	return err == nil && len(found) > 0 && !slices.ContainsFunc(found, func(ip netip.Addr) bool { return !isOwn(ip) })
}
