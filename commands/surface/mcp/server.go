// Package mcp serves commands as tools over the Model Context Protocol: on standard input and output to one agent,
// and over HTTP to callers with a token, which package web checks.
package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/commands"
	"mailroom/commands/surface"
	"mailroom/orchestrator"
	"mailroom/tracing"
)

// progressEvery is the interval between progress notifications to a client that asked for them.
const progressEvery = 5 * time.Second

// Server serves commands as tools. It is safe for concurrent use.
type Server struct {
	// CallTime returns how long an agent host waits for the answer to a call on standard input and output, or 0 if
	// that is not known. host is the name that package hosts uses. CallTime is called at most once per connection. It
	// may be nil.
	CallTime func(host string) time.Duration

	env     commands.Env // for each call with the caller of that call
	version string
	every   time.Duration // interval between progress reports
	owner   Owner         // on standard input and output
	// for the one agent on standard input and output; nil over HTTP, which serves many agents
	arrival *arrival
	client  *clientTime // for the one connection on standard input and output; over HTTP without data
}

// NewServer returns a server of the catalogue's commands. Serve and Handlers define the clients.
func NewServer(env commands.Env, version string) *Server {
	return &Server{env: env, version: version, every: progressEvery, client: new(clientTime)}
}

// offered is the part of a server for one kind of client.
type offered struct {
	*Server
	tools *sdk.Server // with everything but the modern subscriptions, see listening
}

// offering returns the tools and resources for administrators or for other clients. surface.NewOffer selects the
// tools.
func (s *Server) offering(admin bool, vocabularies ...string) *offered {
	server := s.sdkServer(instructions(vocabularies), s.arrival != nil)
	offer := surface.NewOffer(s.env.Catalogue, commands.Caller{Admin: admin, Remote: s.arrival == nil}, vocabularies...)
	for _, tool := range offer.Tools {
		server.AddTool(describe(tool), s.call(tool.Command, offer))
	}
	s.addResources(server)
	server.AddReceivingMiddleware(withNames(offer))
	return &offered{s, server}
}

// listening returns a server for one `subscriptions/listen` request.
func (s *Server) listening() *sdk.Server { return s.sdkServer("", true) }

// sdkServer returns a server of the SDK without tools and resources. With subscribe, the server is for one client,
// since the subscriptions of one client would end those of another.
func (s *Server) sdkServer(instructions string, subscribe bool) *sdk.Server {
	options := &sdk.ServerOptions{
		Instructions: instructions, SupportedProtocolVersions: versions, Logger: s.env.Log,
		// The tools never change, so no client needs a notification about them.
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{},
			Resources: &sdk.ResourceCapabilities{Subscribe: true}},
		// Answers depend on the caller, so no proxy may serve one to another caller.
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope = "private" },
	}
	inboxes := &subscriptions{env: s.env, ready: s.ready}
	if subscribe {
		options.SubscribeHandler, options.UnsubscribeHandler = inboxes.subscribe, inboxes.unsubscribe
	}
	server := sdk.NewServer(&sdk.Implementation{Name: "mailroom", Title: "Mailroom", Version: s.version}, options)
	inboxes.tell = func(uri string) {
		server.ResourceUpdated(context.Background(), &sdk.ResourceUpdatedNotificationParams{URI: uri})
	}
	if s.arrival != nil {
		server.AddReceivingMiddleware(s.arrival.elsewhere)
	}
	server.AddReceivingMiddleware(s.negotiated, withCodes)
	return server
}

// negotiated is a middleware for clients of older versions. It does not agree to the version that requires batches,
// but to the one before, which clients of that version also support. Over HTTP, where these clients have no session,
// it declares no support for subscriptions.
func (s *Server) negotiated(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if p, ok := req.GetParams().(*sdk.InitializeParams); ok && p.ProtocolVersion == batchesVersion {
			p.ProtocolVersion = beforeBatches
		}
		if r, ok := req.(*sdk.SubscriptionsListenRequest); ok && r.ProtocolVersion() < modernVersion {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound,
				Message: fmt.Sprintf("%s requires protocol version %s; name that version in _meta", method, modernVersion)}
		}
		result, err := next(ctx, method, req)
		if r, ok := result.(*sdk.InitializeResult); ok && err == nil {
			r.Capabilities.Resources.Subscribe = s.arrival != nil
		}
		return result, err
	}
}

// instructions returns the instructions for the model about the tools as a whole.
func instructions(vocabularies []string) string {
	if surface.SignalAlone(vocabularies) {
		return "These tools send questions and alerts to the person you work for, who receives them on a phone. Call ask_question for a decision that only that person can make. " +
			"Then call get_response with wait_seconds until answered is true or status shows that there will be no answer. " +
			"Call send_alert for news that needs no answer."
	}
	return "Mailroom: messages between agents in any programs. Read your messages when you start and after each task; a message that you read is not shown again. " +
		"To answer a message, send your answer with reply_to set to the ID of that message. To read a long message in parts, call get_message. " +
		"If your messages are files in a folder, they are shown until you acknowledge them. " +
		"For a decision that only the person you work for can make, call ask_question, then get_response. For news that needs no answer, call send_alert."
}

// describe returns the tool for a command. It panics if the definition of the command is unsuitable: such a
// definition is a bug, which a test finds.
func describe(tool surface.Tool) *sdk.Tool {
	d := tool.Command
	output, err := d.ToolResultSchema()
	if err != nil {
		panic(fmt.Sprintf("command %s: %v", d.Name, err))
	}
	return &sdk.Tool{
		Name: tool.Name, Description: d.Summary() + ".", InputSchema: d.ToolSchema(), OutputSchema: output,
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: d.Card().OnlyReads(), OpenWorldHint: new(false)},
	}
}

// call returns the handler of a command's tool. A failure is returned as a result in the form of document 004, since
// the model must read it.
func (s *Server) call(d *commands.Definition, offer surface.Offer) sdk.ToolHandler {
	return func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		x := exchangeOf(ctx)
		ctx, done, err := x.begin(ctx)
		if err != nil {
			return toolFailure(err)
		}
		defer done()
		if d.Hands() {
			x.handing.Add(1)
			defer x.handing.Add(-1)
		}
		if !d.NoDatabase {
			if err := s.ready(ctx); err != nil {
				return toolFailure(err)
			}
		}
		env := s.env
		env.Caller, env.Call.Patience, env.Call.Model = x.caller, s.client.patience(d, req), true
		parent, _ := req.Params.Meta["traceparent"].(string) // source: SEP-414
		ctx = tracing.WithParent(ctx, parent)
		stop := s.reportProgress(ctx, req)
		answer, err := d.Run(ctx, env, req.Params.Arguments)
		stop()
		if err != nil {
			return toolFailure(offer.Advised(err, d, req.Params.Arguments))
		}
		_, hands := answer.Result.(commands.Handed)
		if hands {
			if err := x.stillValid(ctx); err != nil {
				commands.Settle(ctx, env, answer, false)
				return toolFailure(err)
			}
		}
		result, err := toolResult(answer)
		if err == nil {
			err = context.Cause(ctx) // after a cancellation, nobody reads the answer
		}
		if err != nil {
			commands.Settle(ctx, env, answer, false)
			return nil, err
		}
		if hands {
			x.expect(result, func(written bool) { commands.Settle(ctx, env, answer, written) })
		}
		return result, nil
	}
}

// ready is called before any use of the database. On standard input and output, it registers the agent.
func (s *Server) ready(ctx context.Context) error {
	if s.arrival == nil {
		return nil
	}
	return s.arrival.ready(ctx)
}

func toolResult(answer commands.Answer) (*sdk.CallToolResult, error) {
	body, err := answer.MarshalJSON()
	if err != nil {
		return nil, err
	}
	text := string(body)
	if texter, ok := answer.Result.(commands.ToolTexter); ok {
		text = texter.ToolText()
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}},
		StructuredContent: json.RawMessage(body)}, nil
}

func toolFailure(err error) (*sdk.CallToolResult, error) {
	body, merr := orchestrator.JSON(commands.Failure{Err: err})
	if merr != nil {
		return nil, merr
	}
	// No structured content: clients validate it against the schema of the answer, and would report that mismatch
	// instead.
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(body)}}, IsError: true}, nil
}

// reportProgress sends progress notifications for a call, if the client asked for them, until stop is called.
func (s *Server) reportProgress(ctx context.Context, req *sdk.CallToolRequest) (stop func()) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return func() {}
	}
	return orchestrator.Background(ctx, "progress", s.env.Log, func(ctx context.Context) {
		ticker := time.NewTicker(s.every)
		defer ticker.Stop()
		started := time.Now()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				seconds := time.Since(started).Seconds()
				if req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
					ProgressToken: token, Progress: seconds, Message: fmt.Sprintf("waited %.0f s so far", seconds),
				}) != nil {
					return
				}
			}
		}
	})
}
