package surface

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/commands"
	"mailroom/orchestrator"
)

// addResources offers what can be read without changing anything: an inbox, a thread, the trace of a message.
func (t *toolServer) addResources(s *mcp.Server) {
	for _, r := range []struct {
		name, uri, about string
		read             func(ctx context.Context, env commands.Env, id string) (any, error)
	}{
		{"inbox", "mailroom://inbox/{agent}", "Unread messages of an agent; reading them here leaves them unread", readInbox},
		{"thread", "mailroom://thread/{id}", "Messages of a thread, oldest first", readThread},
		{"trace", "mailroom://trace/{message_id}", "What happened to a message", readTrace},
	} {
		s.AddResourceTemplate(&mcp.ResourceTemplate{
			Name: r.name, URITemplate: r.uri, Description: r.about, MIMEType: "application/json",
		}, t.resource(r.read))
	}
}

// resource reads one resource for whoever asks.
func (t *toolServer) resource(read func(context.Context, commands.Env, string) (any, error)) mcp.ResourceHandler {
	return func(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		x := exchangeOf(ctx)
		ctx, done, err := x.begin(ctx)
		if err != nil {
			return nil, err
		}
		defer done()
		env := t.env
		env.Caller = x.caller
		content, err := read(ctx, env, lastSegment(req.Params.URI))
		if orchestrator.CodeOf(err) == orchestrator.NotFound && err != nil {
			return nil, mcp.ResourceNotFoundError(req.Params.URI)
		}
		if err != nil {
			return nil, err
		}
		body, err := commands.Marshal(content)
		if err != nil {
			return nil, err
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{
			URI: req.Params.URI, MIMEType: "application/json", Text: string(body),
		}}}, nil
	}
}

// lastSegment is what stands behind the last slash of a resource's URI.
func lastSegment(uri string) string {
	last := uri[strings.LastIndex(uri, "/")+1:]
	if plain, err := url.PathUnescape(last); err == nil {
		return plain
	}
	return last
}

// messagesAtOnce is the most messages that a resource shows.
const messagesAtOnce = 100

// readInbox shows what an agent has not read. Only the agent itself and administrators may see it.
func readInbox(ctx context.Context, env commands.Env, agent string) (any, error) {
	if !env.Caller.Admin {
		if _, err := commands.ActAs(env.Caller, strings.ToLower(agent)); err != nil {
			return nil, err
		}
	}
	ms, err := env.Router.Wait(ctx, orchestrator.WaitOptions{Recipient: agent, Limit: messagesAtOnce, Peek: true})
	return map[string]any{"agent": agent, "messages": notNil(ms)}, err
}

// readThread shows a whole thread to who takes part in it, and to others what they sent or received under its id: anybody
// can name any thread in a message.
func readThread(ctx context.Context, env commands.Env, id string) (any, error) {
	ms, more, err := env.Router.History(ctx, orchestrator.HistoryFilter{ThreadID: id, Limit: messagesAtOnce, OldestFirst: true})
	if err != nil {
		return nil, err
	}
	threads, err := env.Router.Threads(ctx, []string{id})
	if err != nil {
		return nil, err
	}
	if th := threads[id]; !env.Caller.Admin && !th.Has(env.Caller.Name) {
		ms = slices.DeleteFunc(ms, func(m orchestrator.Message) bool {
			return m.Sender != env.Caller.Name && m.Recipient != env.Caller.Name
		})
	}
	if len(ms) == 0 {
		return nil, orchestrator.Errorf(orchestrator.NotFound, "you have no part in a thread %q", clip(id))
	}
	return map[string]any{"thread_id": id, "messages": ms, "has_more": more}, nil
}

// readTrace shows what happened to a message to its sender, its recipient and administrators.
func readTrace(ctx context.Context, env commands.Env, id string) (any, error) {
	stories, err := env.Router.Stories(ctx, id)
	if err != nil {
		return nil, err
	}
	mine := []orchestrator.Story{}
	for _, s := range stories {
		if env.Caller.Admin || s.Message.Sender == env.Caller.Name || s.Message.Recipient == env.Caller.Name {
			mine = append(mine, s)
		}
	}
	if len(mine) == 0 {
		return nil, orchestrator.Errorf(orchestrator.NotFound, "you have no message %q", clip(id))
	}
	return map[string]any{"stories": mine}, nil
}

func notNil(ms []orchestrator.Message) []orchestrator.Message {
	if ms == nil {
		return []orchestrator.Message{}
	}
	return ms
}
