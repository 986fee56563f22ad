package main

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/commands/surface/cli"
)

// dial returns a transport to the tools of an agent. vocabulary "" is all of them.
type dial func(agent, vocabulary string, admin bool) mcp.Transport

// transportsOf are the ways in which an agent's host can reach the tools of an office.
var transportsOf = map[string]func(*office) dial{
	"in memory": inMemory,
	"stdio":     overStdio,
	"http":      overHTTP,
}

// mcpWords returns the command line of a server for one agent.
func mcpWords(agent, vocabulary string, admin bool) []string {
	words := []string{"mcp", "--as", agent}
	if vocabulary != "" {
		words = append(words, "--vocabulary", vocabulary)
	}
	if admin {
		words = append(words, "--admin")
	}
	return words
}

// inMemory runs the program within the test, on pipes.
func inMemory(o *office) dial {
	return func(agent, vocabulary string, admin bool) mcp.Transport {
		in, toServer := io.Pipe()
		fromServer, out := io.Pipe()
		p := cli.Standard(config())
		p.In, p.Out, p.Err, p.Getenv = in, out, io.Discard, func(string) string { return "" }
		ended := make(chan int, 1)
		go func() {
			status := p.Run(context.WithoutCancel(o.t.Context()),
				append([]string{"mailroom", "--db", o.db}, mcpWords(agent, vocabulary, admin)...))
			out.Close()
			ended <- status
		}()
		o.t.Cleanup(func() {
			toServer.Close()
			if status := <-ended; status != 0 {
				o.t.Errorf("the server of %s ended with status %d", agent, status)
			}
		})
		return &mcp.IOTransport{Reader: fromServer, Writer: toServer}
	}
}

// overStdio starts a process for each agent, as its host does.
func overStdio(o *office) dial {
	return func(agent, vocabulary string, admin bool) mcp.Transport {
		return &mcp.CommandTransport{Command: o.command(mcpWords(agent, vocabulary, admin)...)}
	}
}

// overHTTP starts one daemon for all agents. Each uses its own token.
func overHTTP(o *office) dial {
	s := o.serve()
	go io.Copy(io.Discard, s.logs)
	return func(agent, vocabulary string, admin bool) mcp.Transport {
		words := []string{"agent", "token", agent}
		if admin {
			words = append(words, "--admin")
		}
		endpoint := s.address + "/mcp"
		if vocabulary != "" {
			endpoint += "/" + vocabulary
		}
		return &mcp.StreamableClientTransport{
			Endpoint: endpoint, DisableStandaloneSSE: true,
			HTTPClient: &http.Client{Transport: withToken(o.run(words...)["token"].(string))},
		}
	}
}

// withToken is an HTTP transport that sends a token.
type withToken string

func (token withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(token))
	return http.DefaultTransport.RoundTrip(r)
}

// dialMCP connects a client that handles only answers.
func dialMCP(t *testing.T, transport mcp.Transport) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	s, err := client.Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// client is an agent that calls tools, with the schemas that it received.
type client struct {
	*mcp.ClientSession
	input, output map[string]*jsonschema.Resolved
}

func newClient(t *testing.T, transport mcp.Transport) *client {
	t.Helper()
	c := &client{dialMCP(t, transport), map[string]*jsonschema.Resolved{}, map[string]*jsonschema.Resolved{}}
	for tool, err := range c.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		c.input[tool.Name], c.output[tool.Name] = resolved(t, tool.Name, tool.InputSchema),
			resolved(t, tool.Name, tool.OutputSchema)
	}
	return c
}

// resolved parses a schema as a client receives it.
func resolved(t *testing.T, tool string, schema any) *jsonschema.Resolved {
	t.Helper()
	text, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatalf("%s: schema %s: %v", tool, text, err)
	}
	if s.Type != "object" {
		t.Errorf("%s: schema %s is not one of an object", tool, text)
	}
	r, err := s.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		t.Fatalf("%s: schema %s: %v", tool, text, err)
	}
	return r
}

// call calls a tool, and checks arguments and answer against its schemas. It returns the answer, or that of the
// failure, and the text.
func (c *client) call(t *testing.T, tool, args string) (answer any, text string, failed bool) {
	t.Helper()
	given := decoded(t, args)
	if c.input[tool] == nil {
		t.Fatalf("there is no tool %s", tool)
	}
	if err := c.input[tool].Validate(given); err != nil {
		t.Errorf("%s %s: by its schema it does not take that: %v", tool, args, err)
	}
	result, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(args)})
	if err != nil {
		t.Fatalf("%s %s: %v", tool, args, err)
	}
	if len(result.Content) != 1 {
		t.Fatalf("%s %s: %d contents", tool, args, len(result.Content))
	}
	text = result.Content[0].(*mcp.TextContent).Text
	if result.IsError {
		if result.StructuredContent != nil {
			t.Errorf("%s %s: a failure has structured content: %v", tool, args, result.StructuredContent)
		}
		return decoded(t, text), text, true
	}
	if err := c.output[tool].Validate(result.StructuredContent); err != nil {
		t.Errorf("%s %s: the answer %v does not keep to its schema: %v", tool, args, result.StructuredContent, err)
	}
	return result.StructuredContent, text, false
}

func decoded(t *testing.T, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// known are the values that the steps of an example store for later ones, by name.
type known map[string]string

// fill replaces names, written $name, with their values.
func (k known) fill(text string) string {
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(k))) { // a longer name first
		text = strings.ReplaceAll(text, "$"+name, k[name])
	}
	return text
}

// match compares an answer with the expected one: every expected key, null for a key that must be missing, and lists
// as a whole. "*" is any value, "$name" a value that is stored, or the stored one.
func (k known) match(path string, got, want any) error {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return fmt.Errorf("%s is %v; want an object", path, got)
		}
		var errs []error
		for _, key := range slices.Sorted(maps.Keys(want)) {
			value, there := object[key]
			if there != (want[key] != nil) {
				errs = append(errs, fmt.Errorf("%s.%s is %v; want %v", path, key, value, want[key]))
			} else if there {
				errs = append(errs, k.match(path+"."+key, value, want[key]))
			}
		}
		return errors.Join(errs...)
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return fmt.Errorf("%s is %v; want %v", path, got, want)
		}
		var errs []error
		for i := range want {
			errs = append(errs, k.match(fmt.Sprintf("%s[%d]", path, i), list[i], want[i]))
		}
		return errors.Join(errs...)
	}
	name, variable := strings.CutPrefix(fmt.Sprint(want), "$")
	if variable && k[name] == "" {
		k[name] = plain(got)
	}
	if want != "*" && plain(got) != k.fill(plain(want)) {
		return fmt.Errorf("%s is %v; want %v", path, got, k.fill(plain(want)))
	}
	return nil
}

// plain formats a value as text, numbers with all their digits.
func plain(v any) string {
	if n, ok := v.(float64); ok {
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprint(v)
}

// element is an element of XML without surrounding space and comments.
type element struct {
	Name     string
	Attrs    map[string]string
	Text     string
	Children []*element
}

func parseXML(t *testing.T, text string) *element {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	top := &element{}
	open := []*element{top}
	for {
		token, err := d.Token()
		if err == io.EOF {
			return top
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		at := open[len(open)-1]
		switch token := token.(type) {
		case xml.StartElement:
			e := &element{Name: token.Name.Local, Attrs: map[string]string{}}
			for _, a := range token.Attr {
				e.Attrs[a.Name.Local] = a.Value
			}
			at.Children, open = append(at.Children, e), append(open, e)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			at.Text += strings.TrimSpace(string(token))
		}
	}
}

// same compares a text with the expected one, as XML if it is XML.
func same(t *testing.T, got, want string) bool {
	t.Helper()
	if !strings.HasPrefix(want, "<") {
		return got == want
	}
	return reflect.DeepEqual(parseXML(t, got), parseXML(t, want))
}
