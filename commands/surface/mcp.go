package surface

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/tracing"
)

// toolPatience is how long one call of a tool may wait: hosts give a call about a minute. Source: agents.md, "MCP".
const toolPatience = 55 * time.Second

// toolProgressEvery is how often a client that asked for progress hears of a call that takes its time.
const toolProgressEvery = 5 * time.Second

// toolServer offers commands as tools of the Model Context Protocol. It is safe for concurrent use.
type toolServer struct {
	env      commands.Env // its caller is that of each call
	patience time.Duration
	every    time.Duration
	arrival  *arrival // of the one agent that is served, on standard input and output; nil over HTTP, where many are
}

func newToolServer(env commands.Env) *toolServer {
	return &toolServer{env: env, patience: toolPatience, every: toolProgressEvery}
}

// server makes a server with the tools of the named vocabularies, all of them when there are none, that a caller with the
// right may use. With one vocabulary its tools have their document's own names; else some carry its prefix. Beside it are the
// few that every reader needs.
func (t *toolServer) server(version string, admin bool, vocabularies ...string) *mcp.Server {
	options := &mcp.ServerOptions{
		Instructions: instructions(vocabularies),
		// Which tools there are never changes, so nobody need listen for it.
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}, Resources: &mcp.ResourceCapabilities{}}, Logger: t.env.Log,
		// What is answered depends on who asks: nobody between may serve it to another.
		SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.CacheScope = "private" },
	}
	inboxes := &subscriptions{env: t.env, ready: t.ready}
	if t.arrival != nil {
		options.SubscribeHandler, options.UnsubscribeHandler = inboxes.subscribe, inboxes.unsubscribe
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "mailroom", Title: "Mailroom", Version: version}, options)
	inboxes.tell = func(uri string) {
		s.ResourceUpdated(context.Background(), &mcp.ResourceUpdatedNotificationParams{URI: uri})
	}
	tools := offer{all: t.env.Catalogue.All(), remote: t.arrival == nil}
	for _, d := range tools.all {
		if !served(d, vocabularies) {
			continue
		}
		card, is := cardFor(d, admin)
		if !is {
			continue
		}
		name := d.Name
		if len(vocabularies) == 1 {
			name = d.Tool
		}
		tools.tools = append(tools.tools, offered{d, name})
		s.AddTool(t.describe(d, card, name), t.call(d, &tools))
	}
	t.addResources(s)
	if t.arrival != nil {
		s.AddReceivingMiddleware(t.arrival.greet)
	}
	s.AddReceivingMiddleware(withCodes, tools.withNames)
	return s
}

// served reports whether a command is among the tools of the vocabularies.
func served(d *commands.Definition, vocabularies []string) bool {
	return len(vocabularies) == 0 || slices.Contains(vocabularies, d.Vocabulary().Name) || d.IsBesideAny() && !signalAlone(vocabularies)
}

// signalAlone reports whether only questions to the person are served: nobody has messages to read then.
func signalAlone(vocabularies []string) bool {
	return len(vocabularies) == 1 && vocabularies[0] == "signal"
}

// instructions are what a model is told of the tools as a whole.
func instructions(vocabularies []string) string {
	if signalAlone(vocabularies) {
		return "Questions and alerts to the person for whom you work, who gets them on a phone. Ask (ask_question) what only that person can decide, then " +
			"get the answer (get_response with wait_seconds, again until answered is true or status says that there will be none). " +
			"Tell with send_alert what needs no answer."
	}
	return "Messages between agents. Read your messages when you start and after each task; a message that you read is not shown again. " +
		"Answer one with reply_to and its id. " +
		"Where your messages lie as files in a folder, they are shown until you acknowledge them."
}

// describe makes the tool of a command out of its definition.
func (t *toolServer) describe(d *commands.Definition, card *commands.Card, name string) *mcp.Tool {
	output, err := d.ToolResultSchema()
	if err != nil {
		panic(fmt.Sprintf("command %s: %v", d.Name, err)) // a mistake in the program, which a test finds
	}
	closed := false
	return &mcp.Tool{
		Name: name, Description: card.Description + ".", InputSchema: d.ToolSchema(), OutputSchema: output,
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: card.OnlyReads(), OpenWorldHint: &closed},
	}
}

// call runs a command for one call of its tool. A failure is a result that says so, in document 004's form, since the
// model that called is to read it.
func (t *toolServer) call(d *commands.Definition, tools *offer) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		x := exchangeOf(ctx)
		ctx, done, err := x.begin(ctx)
		if err != nil {
			return toolFailure(err)
		}
		defer done()
		if d.UsesDatabase() {
			if err := t.ready(ctx); err != nil {
				return toolFailure(err)
			}
		}
		env := t.env
		env.Caller = x.caller
		ctx = tracing.WithParent(commands.WithPatience(ctx, t.patience), metaText(req, "traceparent"))
		stop := t.reportProgress(ctx, req)
		answer, err := d.Run(ctx, env, req.Params.Arguments)
		stop()
		if err != nil {
			return toolFailure(tools.advised(err, d, req.Params.Arguments))
		}
		if x.mayHave != nil {
			if err := x.mayHave(ctx, answer); err != nil {
				takeBack(ctx, env, answer)
				return toolFailure(err)
			}
		}
		result, err := toolResult(answer)
		if err == nil {
			err = context.Cause(ctx) // whoever called it off does not read the answer
		}
		if err != nil {
			takeBack(ctx, env, answer)
			return nil, err
		}
		if _, ok := answer.Result.(commands.Unwritten); ok {
			x.undoable(result, func() { takeBack(ctx, env, answer) })
		}
		return result, nil
	}
}

// ready is asked before anything that needs the database.
func (t *toolServer) ready(ctx context.Context) error {
	if t.arrival == nil {
		return nil
	}
	return t.arrival.ready(ctx)
}

func toolResult(answer commands.Answer) (*mcp.CallToolResult, error) {
	body, err := orchestrator.JSON(answer)
	if err != nil {
		return nil, err
	}
	text := string(body)
	if texter, ok := answer.Result.(commands.ToolTexter); ok {
		text = texter.ToolText()
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}, StructuredContent: json.RawMessage(body)}, nil
}

func toolFailure(err error) (*mcp.CallToolResult, error) {
	body, merr := orchestrator.JSON(commands.Failure{Err: err})
	if merr != nil {
		return nil, merr
	}
	// No structured content: clients hold it against the schema of an answer, and would show that mismatch instead.
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(body)}}, IsError: true}, nil
}

// metaText returns a text of a request's _meta. Source for traceparent there: SEP-414.
func metaText(req *mcp.CallToolRequest, key string) string {
	text, _ := req.Params.Meta[key].(string)
	return text
}

// reportProgress tells a client that asked for it that its call is still under way, until stop is called.
func (t *toolServer) reportProgress(ctx context.Context, req *mcp.CallToolRequest) (stop func()) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	orchestrator.GoSafe("progress", t.env.Log, func() {
		defer close(ended)
		ticker := time.NewTicker(t.every)
		defer ticker.Stop()
		started := time.Now()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				seconds := time.Since(started).Seconds()
				if req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
					ProgressToken: token, Progress: seconds, Message: fmt.Sprintf("waiting for %.0f s", seconds),
				}) != nil {
					return
				}
			}
		}
	})
	return func() {
		cancel()
		<-ended
	}
}
