package browsertest

import (
	"net/http"
	"testing"

	"github.com/SherClockHolmes/webpush-go"

	"mailroom/orchestrator/orchestratortest/helper"
)

// TestFirefox checks that pages subscribe separately, that a push becomes a notification, that a button reaches the
// service worker, and that a modified push shows nothing.
func TestFirefox(t *testing.T) {
	helper.Long(t)
	if testing.Short() {
		t.Skip("`make test-long` drives Firefox")
	}
	t.Parallel()
	ctx := Start(t, FirefoxPrograms...)
	desktop, push := NewDesktop(ctx, t), NewPushService(ctx, t)
	s := newSite(ctx, t, push)
	firefox := StartFirefox(ctx, t, desktop, push)
	first, second := s.subscribe(firefox.NewPage(), "first"), s.subscribe(firefox.NewPage(), "second")
	if first.Endpoint == second.Endpoint {
		t.Fatalf("two tabs share the subscription %s", first.Endpoint)
	}
	push.On(func(p *Push) int {
		p.Body[len(p.Body)-1] ^= 1
		return http.StatusCreated
	})
	if got := s.push(first, "changed"); got != http.StatusCreated {
		t.Fatalf("status %d", got)
	}
	if got := push.Received(); got.Code != 101 {
		t.Errorf("receipt of a changed push: %+v", got)
	}
	push.On(nil)
	for to, name := range map[*webpush.Subscription]string{&first: "to the first", &second: "to the second"} {
		if got := s.push(*to, name); got != http.StatusCreated {
			t.Fatalf("status %d", got)
		}
		n := desktop.Shown()
		if n.Summary != name || n.Body != "body" {
			t.Errorf("notification %+v; want %s", n, name)
		}
		if got := push.Received(); got.Code != 100 {
			t.Errorf("receipt of a push: %+v", got)
		}
		desktop.Press(n, "No")
		if got, err := s.pressed.next(ctx, nil); err != nil || got != "1" {
			t.Errorf("pressed %q: %v", got, err)
		}
	}
	if got := desktop.All(); len(got) != 2 {
		t.Errorf("%d things were done with notifications; want 2: %+v", len(got), got)
	}
}
