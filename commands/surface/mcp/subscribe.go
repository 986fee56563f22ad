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

// inboxURI is the prefix of the URI of every inbox.
const inboxURI = "mailroom://inbox/"

// maxSubscriptions is the maximum number of subscriptions of one client. An agent has one inbox, and an administrator
// watches few inboxes.
const maxSubscriptions = 32

// subscriptions holds the subscriptions of one client to inboxes. The client is notified when a message arrives in
// one of them. That requires a lasting session, as on standard input and output, or a lasting request, such as
// `subscriptions/listen`. subscriptions is safe for concurrent use.
type subscriptions struct {
	env   commands.Env
	ready func(context.Context) error
	tell  func(uri string) // notifies the client of an arrival

	mu   sync.Mutex
	ends map[string]func() // by URI; ends a subscription and waits for its end
}

// subscribe notifies the client of arrivals in an inbox, until unsubscribe or the end of the session.
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
