package browsertest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/SherClockHolmes/webpush-go"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site is an application server for the fixture in testdata.
type site struct {
	t               *testing.T
	ctx             context.Context
	url             string
	private, public string // VAPID keys
	client          *http.Client
	subscribed      feed[webpush.Subscription]
	names, pressed  feed[string]
}

func newSite(ctx context.Context, t *testing.T, push *PushService) *site {
	t.Helper()
	s := &site{t: t, ctx: ctx, client: push.tls.Client()}
	var err error
	if s.private, s.public, err = webpush.GenerateVAPIDKeys(); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServer(http.Dir("testdata")))
	mux.HandleFunc("GET /key", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, s.public) })
	mux.HandleFunc("POST /subscription", func(w http.ResponseWriter, r *http.Request) {
		var subscription webpush.Subscription
		if json.NewDecoder(r.Body).Decode(&subscription) == nil {
			s.names.add(r.FormValue("name"))
			s.subscribed.add(subscription)
		}
	})
	mux.HandleFunc("POST /pressed", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.pressed.add(string(body))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// push sends a text and returns the status of the answer.
func (s *site) push(to webpush.Subscription, text string) int {
	s.t.Helper()
	res, err := webpush.SendNotificationWithContext(s.ctx, []byte(text), &to, &webpush.Options{
		HTTPClient: s.client, Subscriber: "https://mailroom.example", VAPIDPrivateKey: s.private, VAPIDPublicKey: s.public, TTL: 60,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode
}

// subscribe makes a page subscribe.
func (s *site) subscribe(p *Page, name string) webpush.Subscription {
	s.t.Helper()
	p.Open(s.url + "/index.html")
	p.Type("Name", name)
	p.Eval(`(() => {
		const button = document.getElementById("subscribe");
		button.scrollIntoView = () => { // moves away once it has been looked at, once
			delete button.scrollIntoView;
			queueMicrotask(() => (button.style.marginTop = "300px"));
		};
	})()`, nil)
	p.Click("Subscribe")
	p.Until(`document.getElementById("state").textContent !== "new"`)
	var state string
	if p.Eval(`document.getElementById("state").textContent`, &state); state != "subscribed" {
		s.t.Fatal(state)
	}
	if got, err := s.names.next(s.ctx, nil); err != nil || got != name {
		s.t.Fatalf("typed %q: %v; want %q", got, err, name)
	}
	subscription, err := s.subscribed.next(s.ctx, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return subscription
}

// TestReceiver checks that data encrypted by another implementation can be decrypted, and modified data cannot.
func TestReceiver(t *testing.T) {
	t.Parallel()
	ctx := Start(t)
	push := NewPushService(ctx, t)
	s := newSite(ctx, t, push)
	r := NewReceiver(ctx, t, push)
	to := webpush.Subscription{Endpoint: r.Endpoint, Keys: webpush.Keys{P256dh: r.P256dh, Auth: r.Auth}}
	if got := s.push(to, "hello"); got != http.StatusCreated {
		t.Fatalf("status %d", got)
	}
	if got := r.Next(); string(got) != "hello" {
		t.Errorf("read %q", got)
	}
	sealed := push.Next().Body
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 1
		if _, err := r.open(changed); err == nil && (i < 16 || i >= 20) { // 16 to 19 are the size of a record
			t.Errorf("byte %d was changed and nobody saw", i)
		}
		if _, err := r.open(sealed[:i]); err == nil {
			t.Errorf("cut to %d bytes and nobody saw", i)
		}
	}
	push.On(func(*Push) int { return http.StatusTooManyRequests })
	if got := s.push(to, "refused"); got != http.StatusTooManyRequests {
		t.Errorf("status %d", got)
	}
	push.On(nil)
	to.Endpoint += "0"
	if got := s.push(to, "nobody"); got != http.StatusGone {
		t.Errorf("status %d of an unknown endpoint", got)
	}
}
