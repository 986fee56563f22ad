package transport_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/push"
	"mailroom/orchestrator/transport"
)

// A push service that never responds costs no more than the attempt's time limit, or the request's own.
func TestPushHangs(t *testing.T) {
	t.Parallel()
	asked, over := make(chan struct{}, 2), make(chan struct{})
	p := newPushService(t, func(_ http.ResponseWriter, r *http.Request, _ *pushRequest) {
		asked <- struct{}{}
		select {
		case <-r.Context().Done():
		case <-over:
		}
	})
	t.Cleanup(func() { close(over) })
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("the time is up")
	go func() {
		<-asked
		cancel(enough)
	}()
	a, _ := p.attempt(pushing(t, question("q-1", 8)))
	if err := errors.Join(p.push(transport.Surroundings{}).Deliver(ctx, a)...); !errors.Is(err, enough) {
		t.Errorf("%v; want what ended the context", err)
	}
	err := errors.Join(p.push(transport.Surroundings{Bound: time.Millisecond}).Deliver(t.Context(), a)...)
	if err == nil || !strings.Contains(err.Error(), "took longer than 1ms") ||
		strings.Contains(err.Error(), "the-secret") {
		t.Errorf("%v; want what bounds a request", err)
	}
}

// An endless or meaningless response neither fills the memory nor changes the meaning of its status.
func TestPushStrangeAnswers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer func(w http.ResponseWriter)
		want   string // "" is delivered
	}{
		"a long body": {func(w http.ResponseWriter) {
			w.WriteHeader(201)
			io.WriteString(w, strings.Repeat("x", 1<<20))
		}, ""},
		"a body without end": {func(w http.ResponseWriter) {
			w.WriteHeader(500)
			for {
				if _, err := io.WriteString(w, strings.Repeat("x", 1<<10)); err != nil {
					return
				}
			}
		}, "answered 500"},
		"long headers": {func(w http.ResponseWriter) {
			w.Header().Set("X", strings.Repeat("x", 1<<20))
			w.WriteHeader(201)
		}, "no answer from example.com"},
		"breaks off": {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, "no answer from example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPushService(t, func(w http.ResponseWriter, _ *http.Request, _ *pushRequest) { test.answer(w) })
			a, report := p.attempt(pushing(t, question("q-1", 8)))
			err := errors.Join(p.push(transport.Surroundings{}).Deliver(t.Context(), a)...)
			if test.want == "" && err != nil || test.want != "" &&
				(err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%v; want %q", err, test.want)
			}
			if text := fmt.Sprint(err); len(text) > 600 || len(*report) > 6<<10 ||
				strings.Contains(text, "the-secret") {
				t.Errorf("%d bytes %.200q, %d reported", len(text), text, len(*report))
			}
		})
	}
}

// The push services of browsers are never private. Hosts added by hand may be private if that is allowed, but only
// at the given port.
func TestPushPrivateAddresses(t *testing.T) {
	t.Parallel()
	p := newPushService(t, nil, "fcm.googleapis.com.", "web.push.apple.com.", "push.example.com.")
	var dialled atomic.Int32
	pushed := p.push(transport.Surroundings{Dialling: func(string) error {
		dialled.Add(1)
		return nil
	}})
	try := func(endpoint string, allow bool, hosts ...string) error {
		a, _ := p.attempt(pushing(t, question("q-1", 8)))
		s := p.secret
		s.Endpoint, s.AllowPrivate, s.Hosts = endpoint, allow, hosts
		a.Secret, a.AllowPrivate = asText(t, s), true // an agent's permission does not apply to devices
		return errors.Join(pushed.Deliver(t.Context(), a)...)
	}
	own := p.secret.Hosts[0]
	must(t, try(p.secret.Endpoint, true, own))
	if n := dialled.Load(); n != 1 {
		t.Fatalf("%d connections", n)
	}
	for _, err := range []error{
		try(p.secret.Endpoint, false, own),
		try("https://fcm.googleapis.com/x", true, "fcm.googleapis.com"),
		try("https://web.push.apple.com/x", true),
		try("https://push.example.com/x", false, "push.example.com"),
	} {
		if orchestrator.CodeOf(err) != orchestrator.PermissionDenied ||
			!strings.Contains(err.Error(), "signal.allow_private") || strings.Contains(err.Error(), "the-secret") {
			t.Errorf("%v", err)
		}
	}
	for _, ip := range privateAddresses {
		host := netip.MustParseAddr(ip).Unmap().String()
		if strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		if err := try("https://"+host+"/x", false, host); orchestrator.CodeOf(err) != orchestrator.PermissionDenied {
			t.Errorf("%s: %v", ip, err)
		}
	}
	for _, err := range []error{try(p.secret.Endpoint, true), try(p.secret.Endpoint, true, "example.com"),
		try("https://push.example.com:8443/x", true, "push.example.com")} {
		if orchestrator.CodeOf(err) != orchestrator.InvalidParams {
			t.Errorf("%v", err)
		}
	}
	if n, m := dialled.Load(), len(p.all()); n != 1 || m != 1 {
		t.Errorf("%d connections, %d requests", n, m)
	}
}

// A push service's name that resolves to another address the second time is not followed there.
func TestPushRebinding(t *testing.T) {
	t.Parallel()
	p := newPushService(t, nil)
	loopback, public := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("8.8.8.8")
	var asked atomic.Int32
	names := newNameServer(t, func(string) []netip.Addr {
		if asked.Add(1) <= 2 { // public for the first caller, and once more
			return []netip.Addr{public}
		}
		return []netip.Addr{loopback}
	})
	var dialled []string
	pushed := transport.NewPush(transport.Surroundings{Resolver: names.resolver(),
		Dialling: func(address string) error {
			dialled = append(dialled, address)
			return errDialled
		}})
	refused := false
	for range 4 {
		a, _ := p.attempt(pushing(t, question("q-1", 8)))
		s := p.secret
		s.Endpoint = "https://updates.push.services.mozilla.com/wpush/v2/x"
		a.Secret = asText(t, s)
		err := errors.Join(pushed.Deliver(t.Context(), a)...)
		if !errors.Is(err, errDialled) && orchestrator.CodeOf(err) != orchestrator.PermissionDenied {
			t.Error(err)
		}
		refused = refused || orchestrator.CodeOf(err) == orchestrator.PermissionDenied
	}
	for _, address := range dialled {
		if address != "8.8.8.8:443" {
			t.Errorf("dialled %s", address)
		}
	}
	if !refused || len(dialled) == 0 {
		t.Errorf("refused: %v, dialled %q", refused, dialled)
	}
}

// Nothing is sent with an invalid subscription, and no error shows its content.
func TestPushBadSubscriptions(t *testing.T) {
	t.Parallel()
	p, other := newPushService(t, nil), newPushService(t, nil)
	var dialled atomic.Int32
	pushed := p.push(transport.Surroundings{Dialling: func(string) error {
		dialled.Add(1)
		return nil
	}})
	change := func(do func(s *push.Secret)) string {
		s := p.secret
		do(&s)
		return asText(t, s)
	}
	at := func(endpoint string) string {
		return change(func(s *push.Secret) { s.Endpoint = endpoint })
	}
	for name, secret := range map[string]string{
		"none": "", "no JSON": "{", "empty": "{}", "no endpoint": at(""),
		"http":        at("http://" + p.secret.Hosts[0] + "/the-secret"),
		"a user name": at("https://the-secret@" + p.secret.Hosts[0] + "/"),
		"a fragment":  at(p.secret.Endpoint + "#x"), "this machine": at("https://127.0.0.1/the-secret"),
		"the link": at("https://169.254.169.254/the-secret"),
		"IPv6":     at("https://[::1]/the-secret"), "localhost": at("https://localhost/the-secret"),
		"a number":     at("https://2130706433/the-secret"),
		"another host": at("https://evil.example/the-secret"),
		"a suffix":     at("https://fcm.googleapis.com.evil.example/the-secret"),
		"a prefix":     at("https://evilpush.apple.com/the-secret"),
		"another port": at("https://fcm.googleapis.com:8443/the-secret"), "no URL": at("https://%zz/the-secret"),
		"a topic":            at("https://ntfy.sh/the-secret"),
		"no key":             change(func(s *push.Secret) { s.P256dh = "" }),
		"a key that is none": change(func(s *push.Secret) { s.P256dh = "the-secret" }),
		"a point off the curve": change(func(s *push.Secret) {
			s.P256dh = text64(append([]byte{4},
				make([]byte, 64)...))
		}),
		"no auth":              change(func(s *push.Secret) { s.Auth = "" }),
		"a short auth":         change(func(s *push.Secret) { s.Auth = text64(make([]byte, 15)) }),
		"no VAPID key":         change(func(s *push.Secret) { s.VAPIDPrivate = "" }),
		"a VAPID key of zeros": change(func(s *push.Secret) { s.VAPIDPrivate = text64(make([]byte, 32)) }),
		"a VAPID key in hex":   change(func(s *push.Secret) { s.VAPIDPrivate = "the secret" }),
		"another's VAPID key":  change(func(s *push.Secret) { s.VAPIDPublic = other.secret.VAPIDPublic }),
		"a mail address":       change(func(s *push.Secret) { s.Subscriber = "the-secret@example.com" }),
	} {
		a, _ := p.attempt(pushing(t, question("q-1", 8)))
		a.Secret = secret
		err := errors.Join(pushed.Deliver(t.Context(), a)...)
		if err == nil || errors.Is(err, orchestrator.ErrGone) || strings.Contains(err.Error(), "the-secret") ||
			strings.Contains(err.Error(), p.secret.Auth) ||
			strings.Contains(err.Error(), p.secret.VAPIDPrivate) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n, m := dialled.Load(), len(p.all()); n != 0 || m != 0 {
		t.Errorf("%d connections, %d requests", n, m)
	}
}
