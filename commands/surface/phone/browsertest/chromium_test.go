package browsertest

import (
	"testing"

	"github.com/SherClockHolmes/webpush-go"
)

// TestChromium checks that a page subscribes to a receiver of the test, whose pushes the test passes to the service
// worker.
func TestChromium(t *testing.T) {
	t.Parallel()
	ctx := Start(t, ChromiumPrograms...)
	push := NewPushService(ctx, t)
	s := newSite(ctx, t, push)
	chromium := StartChromium(ctx, t)
	receiver := NewReceiver(ctx, t, push)
	page, worker := chromium.NewPage(receiver)
	subscription := s.subscribe(page, "chromium")
	if want := (webpush.Subscription{Endpoint: receiver.Endpoint, Keys: webpush.Keys{P256dh: receiver.P256dh, Auth: receiver.Auth}}); subscription != want {
		t.Fatalf("subscription %+v; want %+v", subscription, want)
	}
	s.push(subscription, "hello")
	worker.Push(s.url, receiver.Next())
	if got := worker.Shown(); got.Title != "hello" || got.Body != "body" || len(got.Actions) != 2 {
		t.Errorf("notification %+v", got)
	}
	page.Eval(`navigator.serviceWorker.ready.then(w => w.getNotifications()).then(list => list.forEach(n => n.close()))`, nil)
	page.Quiet()
	if got := worker.All(); len(got) != 1 {
		t.Errorf("notifications %+v", got)
	}
}
