package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"mailroom/commands/surface/web"
	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
)

// eventStream is a client of GET /v1/events.
type eventStream struct {
	res   *http.Response
	lines *bufio.Scanner
	stop  context.CancelFunc
}

// stream opens a stream. after is the Last-Event-ID, or "".
func (e *fort) stream(token, after string) *eventStream {
	e.T.Helper()
	ctx, stop := context.WithCancel(e.T.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.Address+"/v1/events", nil)
	if err != nil {
		e.T.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if after != "" {
		req.Header.Set("Last-Event-ID", after)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		e.T.Fatal(err)
	}
	e.T.Cleanup(func() {
		stop()
		res.Body.Close()
	})
	if res.StatusCode != 200 {
		e.T.Fatalf("GET /v1/events: %s", res.Status)
	}
	s := &eventStream{res: res, lines: bufio.NewScanner(res.Body), stop: stop}
	s.lines.Buffer(nil, 1<<20)
	return s
}

// comment reads the first line of a stream, which shows that it has begun.
func (s *eventStream) comment(t *testing.T) {
	t.Helper()
	if !s.lines.Scan() || !strings.HasPrefix(s.lines.Text(), ": from ") {
		t.Fatalf("the stream begins with %q", s.lines.Text())
	}
}

// streamed is one event as received.
type streamed struct {
	id, name string
	messages.Event
}

// next reads one event. ok is false if the stream has ended.
func (s *eventStream) next() (e streamed, ok bool) {
	for s.lines.Scan() {
		key, value, _ := strings.Cut(s.lines.Text(), ": ")
		switch key {
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			ok = json.Unmarshal([]byte(value), &e.Event) == nil
		case "":
			if ok {
				return e, true
			}
		}
	}
	return e, false
}

// send sends one message and returns its ID.
func (e *fort) send(from, to string) string {
	e.T.Helper()
	sent, err := messages.Send(e.T.Context(), e.Router.Ledger,
		orchestrator.Draft{Sender: from, Recipient: to, Type: "note"})
	if err != nil {
		e.T.Fatal(err)
	}
	return sent.MessageID
}

// TestEventsConcern checks that an agent gets the events of its own messages, and an administrator all events.
func TestEventsConcern(t *testing.T) {
	t.Parallel()
	f := newFort(t, web.Options{}, "ann", "bob", "cid")
	streams := map[string]*eventStream{
		"ann": f.stream(f.Token("ann", false), ""), "bob": f.stream(f.Token("bob", false), "0"),
		"cid": f.stream(f.Token("cid", true), ""),
	}
	for _, s := range streams {
		s.comment(t)
	}
	first, second, third, last := f.send("ann", "bob"), f.send("bob", "cid"), f.send("cid", "cid"), f.send("bob", "ann")
	if _, err := enginetest.Plain(t,
		f.Router.Path()).Exec(`INSERT INTO message_trace (message_id, at, event) VALUES (?1, ?2, ?3)`, last,
		orchestrator.Stamp(time.Now()), "odd\ndata: oops"); err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{"ann": {first, last}, "bob": {first, second, last}, "cid": {first, second, third, last}}
	for who, ids := range want {
		for _, id := range ids {
			e, ok := streams[who].next()
			if !ok || e.MessageID != id || e.Event.Event != "created" || e.name != "created" ||
				e.id != strconv.FormatInt(e.ID, 10) {
				t.Errorf("%s sees %+v (%t); want created of %s", who, e, ok, id)
			}
		}
		if who == "cid" { // hand-written trace rows end no line of the stream
			if e, ok := streams[who].next(); !ok || e.name != "odd data: oops" {
				t.Errorf("an odd name of an event comes as %+v (%t)", e, ok)
			}
		}
	}
}

// traffic sends messages, every other one from ann, delivers occasionally, and returns the IDs of ann's messages.
func (f *fort) traffic(t *testing.T, letters int) (ids []string) {
	for i := range letters {
		from := []string{"ann", "eve"}[i%2]
		sent, err := messages.Send(t.Context(), f.Router.Ledger,
			orchestrator.Draft{Sender: from, Recipient: "bob", Type: "note"})
		if err != nil {
			t.Error(err)
			return ids
		}
		if from == "ann" {
			ids = append(ids, sent.MessageID)
		}
		if i%20 == 0 {
			if _, err := f.Router.DeliverAll(t.Context(), delivery.Options{}); err != nil {
				t.Error(err)
			}
		}
	}
	return ids
}

// TestEventsResume checks that a client that reconnects with the last ID that it has seen gets every event exactly
// once.
func TestEventsResume(t *testing.T) {
	t.Parallel()
	const letters = 400
	f := newFort(t, web.Options{}, "ann", "bob", "eve")
	token := f.Token("ann", false)
	first := f.stream(token, "")
	first.comment(t)
	sent := make(chan []string, 1)
	go func() { sent <- f.traffic(t, letters) }()
	var created, seen []string
	s := first
	for len(created) < letters/2 {
		for range 7 { // then the client disconnects, between events
			e, ok := s.next()
			if !ok {
				t.Fatal("the stream ended")
			}
			seen = append(seen, e.id)
			if e.Event.Event == "created" {
				created = append(created, e.MessageID)
			}
			if len(created) == letters/2 {
				break
			}
		}
		s.stop()
		s = f.stream(token, seen[len(seen)-1])
	}
	if ids := <-sent; !slices.Equal(created, ids) {
		t.Errorf("%d messages were seen; want the %d that were sent, in order", len(created), len(ids))
	}
	numbers := make([]int, len(seen))
	for i, id := range seen {
		numbers[i], _ = strconv.Atoi(id)
		if i > 0 && numbers[i] <= numbers[i-1] {
			t.Fatalf("the event %d came after %d", numbers[i], numbers[i-1])
		}
	}
	list, _, _, err := messages.Events(t.Context(), f.Router.Ledger, messages.Cursor{}, "ann", 1_000_000)
	if err != nil {
		t.Fatal(err)
	}
	var all []int
	for _, e := range list {
		if int(e.ID) >= numbers[0] && int(e.ID) <= numbers[len(numbers)-1] {
			all = append(all, int(e.ID))
		}
	}
	if !slices.Equal(numbers, all) {
		t.Errorf("%d events came; want the %d that there are", len(numbers), len(all))
	}
}

// TestEventsBadID checks that an invalid ID, or one of another database, is refused, since the client would otherwise
// wait forever.
func TestEventsBadID(t *testing.T) {
	t.Parallel()
	f := newFort(t, web.Options{}, "ann", "bob")
	f.send("ann", "bob")
	for _, id := range []string{"x", "-1", "1.5", "0x1", "99999999999999999999", "1 2", "9223372036854775807", "2"} {
		for _, change := range []func(*http.Request){set("Last-Event-ID", id),
			func(r *http.Request) { r.URL.RawQuery = "after=" + url.QueryEscape(id) }} {
			status, _, body := f.Request("GET", "/v1/events", "", both(bearer(f.Token("ann", false)), change))
			if code, hint := failure(body); status != 400 || code != "invalid_params" || hint == "" {
				t.Errorf("the id %q: %d %s", id, status, body)
			}
		}
	}
}

// TestEventsNotRead checks that a client that stops reading is disconnected and delays nobody meanwhile.
func TestEventsNotRead(t *testing.T) {
	t.Parallel()
	bounds := web.UsualBounds
	bounds.Answer = 200 * time.Millisecond
	f := newFort(t, web.Options{}.Within(bounds), "ann", "bob")
	c, err := net.Dial("tcp", strings.TrimPrefix(f.Address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.(*net.TCPConn).SetReadBuffer(4096)
	fmt.Fprintf(c, "GET /v1/events?after=0 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n",
		f.Token("ann", false))
	f.until(func() bool { return f.web.UnderWay() > 0 })
	sends := 0
	for ; f.web.UnderWay() > 0; sends++ {
		drafts := make([]orchestrator.Draft, 500)
		for i := range drafts {
			drafts[i] = orchestrator.Draft{Sender: "ann", Recipient: "bob", Type: "note"}
		}
		outs := messages.SendBatch(t.Context(), f.Router.Ledger, drafts, false)
		for _, out := range outs {
			if out.Refused != nil {
				t.Fatal(out.Refused)
			}
		}
	}
	t.Logf("after %d messages the client that does not read was let go of", sends*500)
	if status, body := f.Run(f.Token("ann", false), "agent_list", `{}`); status != 200 {
		t.Errorf("another client: %d %s", status, body)
	}
}
