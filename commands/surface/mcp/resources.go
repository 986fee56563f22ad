package mcp

import (
	"context"
	"net/url"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/threads"
)

// addResources adds the resources, which can be read without changing anything: an inbox, a thread, the trace of a
// message.
func (s *Server) addResources(server *sdk.Server) {
	for _, r := range []struct {
		name, uri, about string
		read             func(ctx context.Context, env commands.Env, id string) (any, error)
	}{
		{"inbox", inboxURI + "{agent}", "Unread messages of an agent; reading this resource does not mark them as read", readInbox},
		{"thread", "mailroom://thread/{id}", "Messages of a thread, oldest first: all if you take part in it, otherwise those that you sent or received", readThread},
		{"trace", "mailroom://trace/{message_id}", "Recorded steps of a message", readTrace},
	} {
		server.AddResourceTemplate(&sdk.ResourceTemplate{
			Name: r.name, URITemplate: r.uri, Description: r.about, MIMEType: "application/json",
		}, s.resource(r.read))
	}
}

// resource returns a handler that reads one resource for the caller.
func (s *Server) resource(read func(context.Context, commands.Env, string) (any, error)) sdk.ResourceHandler {
	return func(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		x := exchangeOf(ctx)
		ctx, done, err := x.begin(ctx)
		if err != nil {
			return nil, err
		}
		defer done()
		if err := s.ready(ctx); err != nil {
			return nil, err
		}
		env := s.env
		env.Caller, env.Call.Model = x.caller, true
		if err := s.env.Ledger.CheckSuccession(ctx, x.caller.Name, x.caller.Since); err != nil {
			return nil, err
		}
		content, err := read(ctx, env, lastSegment(req.Params.URI))
		if orchestrator.CodeOf(err) == orchestrator.NotFound && err != nil {
			return nil, sdk.ResourceNotFoundError(req.Params.URI)
		}
		if err != nil {
			return nil, err
		}
		body, err := orchestrator.JSON(content)
		if err != nil {
			return nil, err
		}
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{
			URI: req.Params.URI, MIMEType: "application/json", Text: string(body),
		}}}, nil
	}
}

// lastSegment returns the part of a resource's URI after the last slash, unescaped.
func lastSegment(uri string) string {
	last := uri[strings.LastIndex(uri, "/")+1:]
	if plain, err := url.PathUnescape(last); err == nil {
		return plain
	}
	return last
}

// messagesAtOnce is the maximum number of messages that a resource shows.
const messagesAtOnce = 100

// inboxOf returns the agent whose inbox a name refers to. Only the agent itself and administrators may read an inbox.
func inboxOf(caller commands.Caller, name string) (string, error) {
	if caller.Admin {
		return name, nil
	}
	return commands.ActAs(caller, strings.ToLower(name))
}

// readInbox returns the unread messages of an agent.
func readInbox(ctx context.Context, env commands.Env, agent string) (any, error) {
	agent, err := inboxOf(env.Caller, agent)
	if err != nil {
		return nil, err
	}
	ms, more, err := reading.Wait(ctx, env.Ledger, reading.Options{Recipient: agent, Limit: messagesAtOnce, Peek: true})
	return shownOf(env, map[string]any{"agent": agent}, ms, more), err
}

// readThread returns the messages of a thread: all of them to administrators, the posts to participants, and to
// everybody the messages that they sent or received. Any vocabulary can name any thread, so naming a thread does not
// make the caller a participant.
func readThread(ctx context.Context, env commands.Env, id string) (any, error) {
	threads, err := threads.List(ctx, env.Ledger, []string{id})
	if err != nil {
		return nil, err
	}
	th, known := threads[id]
	part := known && (env.Caller.Admin || th.Has(env.Caller.Name))
	f := messages.HistoryFilter{ThreadID: id, Limit: messagesAtOnce, OldestFirst: true}
	if !env.Caller.Admin {
		f.Party, f.Posts = env.Caller.Name, part
	}
	ms, more, err := messages.History(ctx, env.Ledger, f)
	if err != nil {
		return nil, err
	}
	if !part && len(ms) == 0 {
		return nil, orchestrator.Errorf(orchestrator.NotFound, "you do not take part in a thread %q", orchestrator.Clip(id))
	}
	return shownOf(env, map[string]any{"thread_id": id}, ms, more), nil
}

// shownOf returns an answer with as many messages as a model is shown.
func shownOf(env commands.Env, answer map[string]any, ms []orchestrator.Message, more bool) any {
	with := func(ms []orchestrator.Message) any {
		answer["messages"] = append([]orchestrator.Message{}, ms...)
		return answer
	}
	shown := env.Shown(ms, with)
	answer["has_more"] = more || len(shown) < len(ms)
	return with(shown)
}

// readTrace returns the trace of a message to its sender, its recipient and administrators.
func readTrace(ctx context.Context, env commands.Env, id string) (any, error) {
	var stories []overview.Story
	var err error
	if env.Caller.Admin {
		stories, err = overview.Trace(ctx, env.Ledger, id)
	} else {
		stories, err = overview.OwnTrace(ctx, env.Ledger, id, env.Caller.Name)
	}
	return map[string]any{"stories": stories}, err
}
