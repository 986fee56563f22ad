package transport_test

import (
	"errors"
	"net/netip"
	"sync/atomic"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/transport"
)

// errDialled ends a connection that has passed the check, because no test dials a public address.
var errDialled = errors.New("would be dialled")

// privateAddresses lists one or two addresses of each network that is not the public internet, mainly its first and
// last.
var privateAddresses = []string{
	"0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255", "127.0.0.1",
	"127.255.255.255",
	"169.254.0.0", "169.254.169.254", "169.254.255.255", "172.16.0.0", "172.31.255.255", "192.0.0.1", "192.0.0.192",
	"192.0.2.1",
	"192.88.99.1", "192.168.0.0", "192.168.255.255", "198.18.0.0", "198.19.255.255", "198.51.100.1", "203.0.113.1",
	"224.0.0.1",
	"239.255.255.255", "240.0.0.1", "255.255.255.254", "255.255.255.255",
	"::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "::8.8.8.8",
	"::ffff:0:8.8.8.8",
	"64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff", "100::1",
	"100:0:0:1::1",
	"2001::1", "2001:0:7f00:1::", "2001:2::1", "2001:10::1", "2001:20::1", "2001:1ff:ffff::1", "2001:db8::1", "2002::1",
	"2002:7f00:1::1",
	"2002:ffff::1", "3fff::1", "3fff:fff::1", "4000::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fdff::1", "fe80::1",
	"febf::1",
	"fec0::1", "feff::1", "ff00::1", "ff02::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
}

// publicAddresses lists public neighbors of those addresses.
var publicAddresses = []string{
	"1.0.0.0", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
	"169.253.255.255",
	"169.255.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.0.3.0", "192.167.255.255", "192.169.0.0",
	"198.17.255.255",
	"198.20.0.0", "198.51.99.255", "203.0.114.0", "223.255.255.255", "::ffff:8.8.8.8",
	"2000::1", "2001:200::1", "2001:db7::1", "2001:db9::1", "2003::1", "2606:4700::1111", "3ffe::1", "3fff:1000::1",
}

// hookAt returns the address of a webhook at an IP address.
func hookAt(ip string) string {
	return "http://" + netip.AddrPortFrom(netip.MustParseAddr(ip), 80).String() + "/"
}

// Every address is checked when it is dialed, unless the agent may have a private one.
func TestWebhookRefusesPrivateAddresses(t *testing.T) {
	t.Parallel()
	var dialled string
	w := transport.NewWebhook(transport.Surroundings{Dialling: func(address string) error {
		dialled = address
		return errDialled
	}})
	try := func(ip string, allow bool) error {
		dialled = ""
		a := orchestrator.Attempt{
			Recipient: "builder", Address: hookAt(ip), Messages: []orchestrator.Message{note("m", `1`)},
			Secret:       w.NewSecret(),
			AllowPrivate: allow,
		}
		return errors.Join(w.Deliver(t.Context(), a)...)
	}
	for _, ip := range privateAddresses {
		err := try(ip, false)
		if orchestrator.CodeOf(err) != orchestrator.PermissionDenied || dialled != "" {
			t.Errorf("%s: %v, dialled %q", ip, err, dialled)
		}
		if err := try(ip, true); !errors.Is(err, errDialled) {
			t.Errorf("%s, allowed: %v", ip, err)
		}
	}
	for _, ip := range publicAddresses {
		if err := try(ip, false); !errors.Is(err, errDialled) {
			t.Errorf("%s: %v", ip, err)
		}
	}
	for _, odd := range []string{"[fe80::1%eth0]:80", "[2606:4700::1111%1]:80", "", "8.8.8.8", "example.com:80",
		"/run/socket", "@x"} {
		if err := transport.MustBePublic(odd); orchestrator.CodeOf(err) != orchestrator.PermissionDenied {
			t.Errorf("%q: %v", odd, err)
		}
	}
}

// The dialed address counts, not its spelling or an earlier result of a name server.
func TestWebhookChecksWhatNamesLeadTo(t *testing.T) {
	t.Parallel()
	loopback, public := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("8.8.8.8")
	var asked atomic.Int32
	names := newNameServer(t, func(name string) []netip.Addr {
		switch name {
		case "both.example.":
			return []netip.Addr{loopback, public}
		case "public.example.":
			return []netip.Addr{public}
		case "rebinding.example.": // public for the first caller, and once more
			if asked.Add(1) <= 2 {
				return []netip.Addr{public}
			}
		}
		return []netip.Addr{loopback}
	})
	var dialled []string
	w := transport.NewWebhook(transport.Surroundings{Resolver: names.resolver(), Dialling: func(address string) error {
		dialled = append(dialled, address)
		return errDialled
	}})
	try := func(host string) error {
		dialled = nil
		address, err := w.Check("http://" + host + "/")
		must(t, err)
		a := orchestrator.Attempt{
			Recipient: "builder", Address: address, Messages: []orchestrator.Message{note("m", `1`)},
			Secret: w.NewSecret(),
		}
		return errors.Join(w.Deliver(t.Context(), a)...)
	}
	for _, host := range []string{
		"localhost", "private.example", "private.example.", "PRIVATE.example:8080", "0x7f.1", "2130706433", "127.1",
		"0177.0.0.1",
		"127.0.0.1.", "0", "１２７.０.０.１", "127。0。0。1", "①②⑦.⓪.⓪.①", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
		"[0:0:0:0:0:0:0:1]",
	} {
		if err := try(host); err == nil || len(dialled) != 0 {
			t.Errorf("%s: %v, dialled %q", host, err, dialled)
		}
	}
	if err := try("public.example"); !errors.Is(err, errDialled) || dialled[0] != "8.8.8.8:80" {
		t.Errorf("a public name: %v, dialled %q", err, dialled)
	}
	if err := try("both.example"); err == nil || len(dialled) != 1 || dialled[0] != "8.8.8.8:80" {
		t.Errorf("a name with two addresses: %v, dialled %q", err, dialled)
	}
	refused := false
	for range 4 {
		err := try("rebinding.example")
		for _, address := range dialled {
			if address != "8.8.8.8:80" {
				t.Errorf("the second answer was dialled: %s", address)
			}
		}
		refused = refused || orchestrator.CodeOf(err) == orchestrator.PermissionDenied
	}
	if !refused {
		t.Error("the name never changed")
	}
}

// An agent without permission does not use a connection that an agent with permission has made.
func TestWebhookKeepsConnectionsApart(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, false, nil)
	w := r.webhook(transport.Surroundings{})
	a, _ := r.attempt(note("m", `1`))
	must(t, errors.Join(w.Deliver(t.Context(), a)...))
	a.AllowPrivate = false
	if err := errors.Join(w.Deliver(t.Context(), a)...); orchestrator.CodeOf(err) != orchestrator.PermissionDenied {
		t.Errorf("without leave: %v", err)
	}
	if n := len(r.all()); n != 1 {
		t.Errorf("%d requests arrived", n)
	}
}

// A proxy would dial for us, unchecked.
func TestWebhookUsesNoProxy(t *testing.T) {
	proxy := newReceiver(t, false, nil)
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"} {
		t.Setenv(name, proxy.server.URL)
	}
	w := transport.NewWebhook(transport.Surroundings{Dialling: func(address string) error {
		if address != "8.8.8.8:80" {
			t.Errorf("dialled %s", address)
		}
		return errDialled
	}})
	a, _ := proxy.attempt(note("m", `1`))
	a.Address = hookAt("8.8.8.8")
	if err := errors.Join(w.Deliver(t.Context(), a)...); !errors.Is(err, errDialled) {
		t.Error(err)
	}
}

// An address is recognized as private before anything is dialed, as far as it shows that itself.
func TestWebhookIsPrivate(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"http://127.0.0.1:9/": true, "http://localhost/": true, "https://a.localhost./x": true,
		"http://[::1]:80/": true,
		"http://10.1.2.3/": true, "http://[::ffff:127.0.0.1]/": true, "http://169.254.169.254/latest": true,
		"http://[fd00::1]/":    true,
		"https://example.com/": false, "http://8.8.8.8/": false, "http://[2606:4700::1]/": false,
		"http://localhost.example.com/": false,
	} {
		if got := new(transport.Webhook).IsPrivate(address); got != want {
			t.Errorf("%s: %v, want %v", address, got, want)
		}
	}
}
