package transport

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"mailroom/orchestrator"
)

// The bounds of connections to receivers.
const (
	dialTimeout = 30 * time.Second // of a connection, its name looked up; it goes on when the attempt has ended
	tlsTimeout  = 20 * time.Second

	// hostConnections is for agents that share a receiver: each has one attempt at a time, and a slow one must not make
	// the others wait.
	hostConnections = 64
	idleConnections = 32
	idleOfHost      = 4
	maxHeaders      = 64 << 10 // bytes of an answer

	// pingAfter is how long an HTTP/2 connection may be silent before it must show that it still leads anywhere:
	// requests would go on being sent into one that was lost on the way, each until its attempt ends.
	pingAfter = 15 * time.Second

	// idleTimeout is shorter than that of the usual receivers, 5 s and more: a request on a connection that the
	// receiver is about to close fails, and is not repeated by itself, since nobody knows how far it came.
	idleTimeout = 4 * time.Second
)

// connections holds the connections to the receivers of one transport. The zero value is ready for use, and must not be
// copied after the first use.
type connections struct {
	mu      sync.Mutex
	public  *http.Transport // made when they are first needed
	private *http.Transport

	// For tests. Their zero values are what is used otherwise.
	resolver *net.Resolver
	tls      *tls.Config
	dialling func(address string) error // called with the address of every connection that the check lets pass
	idle     time.Duration              // in place of idleTimeout
	patience time.Duration              // in place of answerTime
	bound    time.Duration              // in place of terms.timeout
}

// pool returns the connections of attempts that may lead into this machine or a private network, or of those that may
// not: what one has dialled the other must not use.
func (c *connections) pool(allowPrivate bool) *http.Transport {
	c.mu.Lock()
	defer c.mu.Unlock()
	pool := &c.public
	if allowPrivate {
		pool = &c.private
	}
	if *pool == nil {
		*pool = c.newPool(allowPrivate)
	}
	return *pool
}

func (c *connections) newPool(allowPrivate bool) *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, Resolver: c.resolver}
	dialer.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
		if !allowPrivate {
			if err := mustBePublic(address); err != nil {
				return err
			}
		}
		if c.dialling != nil {
			return c.dialling(address)
		}
		return nil
	}
	return &http.Transport{
		Proxy:                  nil, // a proxy would dial in our place, unchecked
		DialContext:            dialer.DialContext,
		TLSClientConfig:        c.tls.Clone(),
		TLSHandshakeTimeout:    tlsTimeout,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter},
		DisableCompression:     true,
		MaxIdleConns:           idleConnections,
		MaxIdleConnsPerHost:    idleOfHost,
		MaxConnsPerHost:        hostConnections,
		IdleConnTimeout:        cmp.Or(c.idle, idleTimeout),
		MaxResponseHeaderBytes: maxHeaders,
	}
}

// mustBePublic refuses to dial an address, "IP:port", that leads into this machine or a private network, or may be
// turned into one that does. It sees the address that is dialled, after the name was looked up: whatever a name server
// said before, and however the address was spelled, does not matter.
func mustBePublic(address string) error {
	refuse := func(what string) error {
		return orchestrator.Errorf(orchestrator.PermissionDenied,
			"%s is %s; only public addresses are allowed", address, what)
	}
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return refuse("not a valid IP address with a port")
	}
	ip := at.Addr()
	for _, n := range specialNetworks() {
		if n.prefix.Contains(ip) {
			return refuse(n.what)
		}
	}
	if ip.Is6() && !publicIPv6().Contains(ip) {
		// also what wraps an IPv4 address, or names an interface: no network has it
		return refuse("outside the public IPv6 networks")
	}
	return nil
}

// IsRooted reports whether the host of an address is the machine itself, whichever looks.
func (*Webhook) IsRooted(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	host := strings.TrimSuffix(u.Hostname(), ".")
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && ip.Unmap().IsLoopback()
}

// IsPrivate reports whether the host of an address is an IP address that would not be dialled, or localhost.
func (*Webhook) IsPrivate(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	host := strings.TrimSuffix(u.Hostname(), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && mustBePublic(netip.AddrPortFrom(ip.Unmap(), 1).String()) != nil
}

// network is a part of the address space that is not the public internet.
type network struct {
	prefix netip.Prefix
	what   string
}

var publicIPv6 = sync.OnceValue(func() netip.Prefix { return netip.MustParsePrefix("2000::/3") })

// specialNetworks are those that nobody reaches over the internet, and those of IPv6 which carry an IPv4 address
// inside, where a gateway may unpack any address. Source: the IANA registries of special-purpose addresses.
var specialNetworks = sync.OnceValue(func() (list []network) {
	for _, n := range []struct{ prefix, what string }{
		{"0.0.0.0/8", "an address of \"this network\" (0.0.0.0/8)"},
		{"10.0.0.0/8", "a private address"},
		{"100.64.0.0/10", "an address behind a provider's NAT (100.64.0.0/10)"},
		{"127.0.0.0/8", "a loopback address"},
		{"169.254.0.0/16", "a link-local address"},
		{"172.16.0.0/12", "a private address"},
		{"192.0.0.0/24", "reserved for IETF protocols"},
		{"192.0.2.0/24", "a documentation address"},
		{"192.88.99.0/24", "a 6to4 relay"},
		{"192.168.0.0/16", "a private address"},
		{"198.18.0.0/15", "a benchmarking address"},
		{"198.51.100.0/24", "a documentation address"},
		{"203.0.113.0/24", "a documentation address"},
		{"224.0.0.0/4", "a multicast address"},
		{"255.255.255.255/32", "the broadcast address"},
		{"240.0.0.0/4", "a reserved address"},

		{"::/128", "the unspecified address"},
		{"::1/128", "a loopback address"},
		{"::/96", "an IPv4-compatible address"},
		{"64:ff9b::/96", "a NAT64 address"},
		{"64:ff9b:1::/48", "a NAT64 address"},
		{"100::/64", "a discard-only address"},
		{"2001::/32", "a Teredo address"},
		{"2001:2::/48", "a benchmarking address"},
		{"2001::/23", "reserved for IETF protocols"},
		{"2001:db8::/32", "a documentation address"},
		{"2002::/16", "a 6to4 address"},
		{"3fff::/20", "a documentation address"},
		{"fc00::/7", "a unique local address"},
		{"fe80::/10", "a link-local address"},
		{"fec0::/10", "a site-local address"},
		{"ff00::/8", "a multicast address"},
	} {
		list = append(list, network{netip.MustParsePrefix(n.prefix), n.what})
	}
	return list
})
