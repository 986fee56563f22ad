package mcp

import (
	"context"
	"strings"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/reading"
)

// inboxURI is what the address of every inbox begins with.
const inboxURI = "mailroom://inbox/"

// maxSubscriptions bounds what one client subscribes to: an agent has one inbox, and an administrator few that it
// watches.
const maxSubscriptions = 32

// subscriptions are those of one client to inboxes: it is told when a message arrives in one of them. That takes a
// session that lasts, as on standard input and output, or a request that lasts, such as `subscriptions/listen`. It is
// safe for concurrent use.
type subscriptions struct {
	env   commands.Env
	ready func(context.Context) error
	tell  func(uri string) // that something arrived

	mu   sync.Mutex
	ends map[string]func() // by URI: ends a subscription and waits for its end
}

// subscribe begins to tell the client of arrivals in an inbox, until unsubscribe or the end of the session.
func (s *subscriptions) subscribe(ctx context.Context, req *sdk.SubscribeRequest) error {
	uri := req.Params.URI
	if !strings.HasPrefix(uri, inboxURI) {
		return orchestrator.Errorf(orchestrator.InvalidParams, "only inboxes support subscriptions").
			WithHint("Subscribe to %sNAME", inboxURI)
	}
	x := exchangeOf(ctx)
	agent, err := inboxOf(x.caller, lastSegment(uri))
	if err == nil {
		err = s.ready(ctx)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ends[uri] != nil {
		return nil
	}
	if len(s.ends) >= maxSubscriptions {
		return orchestrator.Errorf(orchestrator.InvalidParams, "the limit of %d subscriptions is reached", maxSubscriptions).
			WithHint("End a subscription first")
	}
	ctx, done, err := x.begin(context.WithoutCancel(ctx)) // ends with the client, not with this request
	if err != nil {
		return err
	}
	arrivals, stop, err := reading.Arrivals(ctx, s.env.Ledger, agent)
	if err != nil {
		done()
		return err
	}
	if s.ends == nil {
		s.ends = map[string]func(){}
	}
	s.ends[uri] = orchestrator.Background(ctx, "subscription to "+uri, s.env.Log, func(ctx context.Context) {
		defer done()
		defer stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-arrivals:
				if x.stillValid(ctx) != nil {
					x.leave()
					return
				}
				s.tell(uri)
			}
		}
	})
	return nil
}

func (s *subscriptions) unsubscribe(_ context.Context, req *sdk.UnsubscribeRequest) error {
	s.mu.Lock()
	end := s.ends[req.Params.URI]
	delete(s.ends, req.Params.URI)
	s.mu.Unlock()
	if end != nil {
		end()
	}
	return nil
}
