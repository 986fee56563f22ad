package mcp

import (
	"io"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/orchestrator/agenthost"
	"mailroom/orchestrator/orchestratortest/want"
)

// client serves bob's tools, which belong to claude, to a client with a name, in a process inside the host around, or
// "" for none. The connected hosts have tools of their own. It returns the recorded refusals.
func (e *endpoints) client(name, around string, connected ...string) (*sdk.ClientSession, *[]agenthost.Refusal) {
	e.T.Helper()
	var kept []agenthost.Refusal
	env := e.Env
	env.Caller.Name, env.Caller.Session = "bob", "default"
	owner := Owner{Host: "claude", Around: agenthost.Seen{Host: around, By: "the test says so"},
		IsConnected: func(host string) bool { return slices.Contains(connected, host) },
		Refused: func(r agenthost.Refusal) error {
			kept = append(kept, r)
			return nil
		}}
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		defer out.Close()
		ended <- NewServer(env, "v1").For(owner).Serve(e.T.Context(), in, out)
	}()
	e.T.Cleanup(func() {
		toServer.Close()
		if err := <-ended; err != nil {
			e.T.Error(err)
		}
	})
	s, err := sdk.NewClient(&sdk.Implementation{Name: name, Version: "1"}, nil).Connect(e.T.Context(),
		&sdk.IOTransport{Reader: fromServer, Writer: toServer}, nil)
	if err != nil {
		e.T.Fatal(err)
	}
	e.T.Cleanup(func() { s.Close() })
	return s, &kept
}

// TestAnotherHostIsRefused checks that, in another known host, every tool returns the name of its host, and that
// nothing else happens: bob is not even registered. The name of the client decides, and the surrounding host if that
// is unknown.
func TestAnotherHostIsRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ client, around, is string }{
		{"copilot-cli", "", "copilot"}, {"copilot-cli", "claude", "copilot"},
		{"qwen-cli-mcp-client-mailroom", "claude", "qwen"}, {"kilo", "", "kilo"},
		{"some-client", "codex", "codex"},
		{"claude-code", "copilot", ""}, {"claude-code", "", ""}, {"some-client", "", ""}, {"some-client", "claude", ""},
	} {
		t.Run(test.client+" in "+test.around, func(t *testing.T) {
			t.Parallel()
			e := newEndpoints(t, "alice")
			s, kept := e.client(test.client, test.around)
			tools, err := s.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			refused := 0
			for _, tool := range tools.Tools {
				if test.is == "" && tool.Name != "list_groups" { // other tools may wait, or ask the user
					continue
				}
				text, failed := called(t, s, tool.Name, "{}")
				if failed && strings.Contains(text, "these tools are connected for claude, but this host is "+test.is+
					" (") && strings.Contains(text, "its own agent") {
					refused++
				}
			}
			joined := e.value(`SELECT count(*) FROM agents WHERE name = 'bob'`)
			_, err = s.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: inboxURI + "bob"})
			if test.is == "" {
				want.Equal(t, "refused tools", refused, 0)
				want.Equal(t, "bob is registered", joined, "1")
				want.Equal(t, "error of a resource", err, nil)
				want.Equal(t, "kept", len(*kept), 0)
				return
			}
			want.Equal(t, "refused tools", refused, len(tools.Tools))
			want.Equal(t, "bob is registered", joined, "0")
			if err == nil || !strings.Contains(err.Error(), "connected for claude") {
				t.Errorf("a resource answers %v", err)
			}
			if len(*kept) != 1 || (*kept)[0].Seen.Host != test.is || (*kept)[0].Agent != "bob" ||
				(*kept)[0].Database != e.Router.Path() {
				t.Errorf("kept is %+v", *kept)
			}
		})
	}
}

// TestAnotherHostHasItsOwn checks that a host with tools of its own gets none of the tools that belong to another
// host.
func TestAnotherHostHasItsOwn(t *testing.T) {
	t.Parallel()
	e := newEndpoints(t, "alice")
	for client, none := range map[string]bool{"copilot-cli": true, "kilo": false, "claude-code": false} {
		s, _ := e.client(client, "", "copilot")
		tools, err := s.ListTools(t.Context(), nil)
		if err != nil || (len(tools.Tools) == 0) != none {
			t.Errorf("%s is listed %d tools: %v", client, len(tools.Tools), err)
		}
	}
}
