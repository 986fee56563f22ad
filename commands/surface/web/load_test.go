package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"mailroom/commands/surface/listener"
	"mailroom/commands/surface/web"
	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
)

// visitor is a client with its own token, over HTTP or MCP.
type visitor struct {
	name string
	call func(ctx context.Context, command string, params map[string]any, answer any) error
}

// withToken adds a token to every request.
type withToken struct {
	token string
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+w.token)
	return w.next.RoundTrip(r)
}

// overHTTP returns a client of POST /v1/commands.
func (f *fort) overHTTP(name string, via http.RoundTripper) *visitor {
	client := &http.Client{Transport: withToken{f.Token(name, false), via}}
	return &visitor{name, func(ctx context.Context, command string, params map[string]any, answer any) error {
		body, err := json.Marshal(params)
		if err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.Address+commandsPath+command,
			bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := client.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != 200 {
			return fmt.Errorf("%s: %d %s: %w", command, res.StatusCode, text, err)
		}
		return json.Unmarshal(text, answer)
	}}
}

// overMCP returns a client of /mcp from the SDK.
func (f *fort) overMCP(name string, via http.RoundTripper) *visitor {
	f.T.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: name, Version: "1"}, nil).Connect(f.T.Context(),
		&mcp.StreamableClientTransport{
			Endpoint: f.Address + "/mcp", HTTPClient: &http.Client{Transport: withToken{f.Token(name, false), via}},
		}, nil)
	if err != nil {
		f.T.Fatal(err)
	}
	f.T.Cleanup(func() { session.Close() })
	return &visitor{name, func(ctx context.Context, command string, params map[string]any, answer any) error {
		res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: command, Arguments: params})
		if err != nil {
			return err
		}
		text, err := json.Marshal(res.StructuredContent)
		if err != nil || res.IsError {
			return fmt.Errorf("%s: %+v: %w", command, res.Content, err)
		}
		return json.Unmarshal(text, answer)
	}}
}

// names returns n names.
func names(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("agent%04d", i)
	}
	return list
}

// ledger counts sent and received messages, by message and recipient.
type ledger struct {
	mu         sync.Mutex
	sent, came map[string]int
}

func (l *ledger) note(list map[string]int, id, recipient string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list[id+" to "+recipient]++
}

// exchange sends a message to each of others and receives as many for v.
func (v *visitor) exchange(ctx context.Context, l *ledger, others []string) error {
	for _, to := range others {
		var sent struct{ MessageID string }
		if err := v.call(ctx, "send_message",
			map[string]any{"message": "from " + v.name, "target": to, "message_type": "PING"}, &sent); err != nil {
			return err
		}
		l.note(l.sent, sent.MessageID, to)
	}
	for got := 0; got < len(others); {
		var taken struct{ Messages []struct{ MessageID string } }
		if err := v.call(ctx, "get_messages", map[string]any{"wait_seconds": 50, "limit": 2}, &taken); err != nil {
			return err
		}
		for _, m := range taken.Messages {
			l.note(l.came, m.MessageID, v.name)
			got++
		}
	}
	return nil
}

// patient returns options of a server with very long timeouts: the test is about the number of clients, not about the
// speed of this machine.
func patient() web.Options {
	bounds := web.UsualBounds
	bounds.Bounds = listener.Bounds{Header: time.Hour, Body: time.Hour, Answer: time.Hour}
	return web.Options{}.Within(bounds)
}

// TestManyClients runs 200 clients at once, half over HTTP and half over MCP, who write to each other. It checks that
// no message is lost or received twice, and that no goroutine is left. It does not run in parallel with other tests,
// because it could not tell their goroutines apart.
func TestManyClients(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Run("at once", func(t *testing.T) {
		const clients, each = 200, 4
		everybody := names(clients)
		f := newFort(t, patient(), everybody...)
		// shorter than the server's timeout
		via := &http.Transport{MaxIdleConnsPerHost: clients, IdleConnTimeout: 30 * time.Second}
		t.Cleanup(via.CloseIdleConnections)
		visitors := make([]*visitor, clients)
		for i, name := range everybody {
			if visitors[i] = f.overHTTP(name, via); i%2 == 1 {
				visitors[i] = f.overMCP(name, via)
			}
		}
		l := &ledger{sent: map[string]int{}, came: map[string]int{}}
		// The first error ends all clients: others may wait for a message that the error prevented.
		all, ctx := errgroup.WithContext(t.Context())
		for i, v := range visitors {
			others := make([]string, each)
			for j := range others {
				others[j] = everybody[(i+1+j*j*17)%clients]
			}
			all.Go(func() error {
				if err := v.exchange(ctx, l, others); err != nil {
					return fmt.Errorf("%s: %w", v.name, err)
				}
				return nil
			})
		}
		if err := all.Wait(); err != nil {
			t.Fatal(err)
		}
		if len(l.sent) != clients*each || len(l.came) != clients*each {
			t.Errorf("%d messages were sent and %d came; want %d", len(l.sent), len(l.came), clients*each)
		}
		for id, n := range l.sent {
			if n != 1 || l.came[id] != 1 {
				t.Errorf("%s was sent %d times and came %d times", id, n, l.came[id])
			}
		}
		if n := f.sent(t); n != clients*each {
			t.Errorf("%d messages are in the table", n)
		}
	})
	goleak.VerifyNone(t, before)
}

// TestManyWaiters checks that each of 1,000 waiters in one daemon is woken by its own message.
func TestManyWaiters(t *testing.T) {
	t.Parallel()
	waiters := 1000
	if testing.Short() {
		waiters = 250
	}
	everybody := names(waiters)
	f := newFort(t, patient(), append(slices.Clone(everybody), "ann")...)
	via := &http.Transport{MaxIdleConnsPerHost: waiters}
	t.Cleanup(via.CloseIdleConnections)
	came := make([]string, waiters)
	var all sync.WaitGroup
	for i, name := range everybody {
		v := f.overHTTP(name, via)
		all.Go(func() {
			var taken struct {
				Messages []struct {
					MessageID string `json:"message_id"`
				}
			}
			if err := v.call(t.Context(), "wait", map[string]any{"timeout": 3600}, &taken); err != nil ||
				len(taken.Messages) != 1 {
				t.Errorf("%s got %v, %v", name, taken, err)
				return
			}
			came[i] = taken.Messages[0].MessageID
		})
	}
	f.until(func() bool { return f.web.UnderWay() == waiters || t.Failed() })
	drafts := make([]orchestrator.Draft, waiters)
	for i, name := range everybody {
		drafts[i] = orchestrator.Draft{Sender: "ann", Recipient: name, Type: "note"}
	}
	outs := messages.SendBatch(t.Context(), f.Router.Ledger, drafts, false)
	all.Wait()
	for i := range outs {
		if outs[i].Refused != nil || came[i] != outs[i].Sent.MessageID {
			t.Errorf("%s got %q; want %q (%v)", everybody[i], came[i], outs[i].Sent.MessageID, outs[i].Refused)
		}
	}
}
