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

// Limits of connections to receivers.
const (
	dialTimeout = 30 * time.Second // per connection, after the name lookup; continues when the attempt has ended
	tlsTimeout  = 20 * time.Second

	// hostConnections allows for agents that share a receiver. Each agent has one attempt at a time, and a slow
	// attempt must not delay the others.
	hostConnections = 64
	idleConnections = 32
	idleOfHost      = 4
	maxHeaders      = 64 << 10 // bytes of a response

	// pingAfter is how long an HTTP/2 connection may be silent before it is tested with a ping. Otherwise requests
	// would go on being sent over a connection that was lost on the way, each until its attempt ends.
	pingAfter = 15 * time.Second

	// idleTimeout is shorter than that of the usual receivers, which is 5 s or more. A request on a connection that
	// the receiver is about to close fails and is not repeated automatically, because the receiver may have read
	// it.
	idleTimeout = 4 * time.Second
)

// connections holds the connections to the receivers of one transport. The zero value is ready for use. A
// connections value must not be copied after the first use.
type connections struct {
	mu      sync.Mutex
	public  *http.Transport // created on first use
	private *http.Transport

	// For tests. Their zero values select the normal behavior.
	resolver *net.Resolver
	tls      *tls.Config
	dialling func(address string) error // called with the address of every connection that passes the check
	idle     time.Duration              // in place of idleTimeout
	patience time.Duration              // in place of answerTime
	bound    time.Duration              // in place of terms.timeout
}

// pool returns the connection pool for attempts that may lead into this machine or a private network, or the pool
// for those that may not. The pools are separate, so that the latter attempts never use a connection of the former.
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
		Proxy:                  nil, // a proxy would dial for us, unchecked
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

// mustBePublic returns an error if an address, "IP:port", leads into this machine or a private network, or may be
// translated into one that does. It checks the address that is dialed, after the name lookup, so earlier name
// server results and the spelling of the address do not matter.
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
		// This also covers forms that embed an IPv4 address or name an interface: no network contains them.
		return refuse("outside the public IPv6 networks")
	}
	return nil
}

// IsRooted reports whether the host of an address is the local machine, on whichever machine it is used.
func (*Webhook) IsRooted(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	host := strings.TrimSuffix(u.Hostname(), ".")
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && ip.Unmap().IsLoopback()
}

// IsPrivate reports whether the host of an address is localhost or an IP address that is not public.
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

// network is a part of the address space that does not belong to the public internet.
type network struct {
	prefix netip.Prefix
	what   string
}

var publicIPv6 = sync.OnceValue(func() netip.Prefix { return netip.MustParsePrefix("2000::/3") })

// specialNetworks lists the networks that cannot be reached over the internet, and the IPv6 networks that embed an
// IPv4 address, which a gateway may translate to any address. Source: the IANA registries of special-purpose
// addresses.
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
