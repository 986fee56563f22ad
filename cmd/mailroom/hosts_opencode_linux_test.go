package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mailroom/commands/connect"
	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/orchestratortest/want"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// completions is the dialect of OpenCode with the test's own model.
var completions = dialect{
	path: "/v1/chat/completions", said: "messages",
	tools: func(request map[string]any) (names [][]string) {
		offered, _ := request["tools"].([]any)
		for _, tool := range offered {
			function, _ := tool.(map[string]any)["function"].(map[string]any)
			names = append(names, []string{"", fmt.Sprint(function["name"])})
		}
		return names
	},
	answered: func(turn int, act action) []map[string]any {
		says, reason := map[string]any{"role": "assistant", "content": act.text}, "stop"
		if act.tool != nil {
			arguments, _ := json.Marshal(act.arguments)
			call := map[string]any{"name": act.tool[1], "arguments": string(arguments)}
			says = map[string]any{"role": "assistant",
				"tool_calls": []any{map[string]any{"index": 0, "id": fmt.Sprint("call_", turn), "type": "function",
					"function": call}}}
			reason = "tool_calls"
		}
		chunk := func(delta map[string]any, reason any) map[string]any {
			return map[string]any{
				"id": fmt.Sprint("chat_", turn), "object": "chat.completion.chunk", "created": 1, "model": "mock",
				"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": reason}},
			}
		}
		return []map[string]any{chunk(says, nil), chunk(map[string]any{}, reason)}
	},
}

// openCode is OpenCode's server, and its user's session there.
type openCode struct {
	*session
	url, id string
}

// openCodes are OpenCode and Kilo, which is based on it: their programs, and the package that each installs in a
// folder with plugins.
var openCodes = map[string]struct{ program, plugin string }{
	"opencode": {"opencode-linux-x64-baseline/bin/opencode", "@opencode-ai/plugin"},
	"kilo":     {"@kilocode/cli-linux-x64/bin/kilo", "@kilocode/plugin"},
}

// inOpenCodes runs a test in OpenCode and in Kilo.
func inOpenCodes(t *testing.T, test func(t *testing.T, k *desk)) {
	for host := range openCodes {
		t.Run(host, func(t *testing.T) {
			if host != "opencode" {
				helper.Long(t) // it takes a minute to start beside other tests
			}
			t.Parallel()
			test(t, openCodesDesk(t, host).connects("--as", "bob"))
		})
	}
}

// openCodeDesk returns a desk with OpenCode, connected by mailroom connect.
func openCodeDesk(t *testing.T) *desk {
	t.Helper()
	return bareOpenCodeDesk(t).connects("--as", "bob")
}

// bareOpenCodeDesk returns a desk with OpenCode that is not connected to Mailroom.
func bareOpenCodeDesk(t *testing.T) *desk { return openCodesDesk(t, "opencode") }

// openCodesDesk returns a desk with OpenCode or Kilo.
func openCodesDesk(t *testing.T, host string) *desk {
	t.Helper()
	k := newDesk(t, host, openCodes[host].program, completions)
	k.readies()
	return k
}

// readies writes the files that the host of a desk needs.
func (k *desk) readies() {
	k.t.Helper()
	k.write(k.host+".json", map[string]any{
		"permission": map[string]any{"bash": "allow"}, // Kilo requires it
		"model":      "mock/mock", "small_model": "mock/mock",
		"provider": map[string]any{"mock": map[string]any{
			"npm": "@ai-sdk/openai-compatible", "name": "Mock",
			"options": map[string]any{"baseURL": k.model.server.URL + "/v1", "apiKey": "none"},
			"models":  map[string]any{"mock": map[string]any{"name": "Mock", "tool_call": true}},
		}},
	})
	// The host installs its own package in each folder with plugins before it runs them, and waits for the registry.
	// These files make it treat the package as installed.
	plugin, version := openCodes[k.host].plugin, k.version()
	for _, folder := range []string{"." + k.host, ".config/" + k.host} {
		depends := map[string]any{"dependencies": map[string]any{plugin: version}}
		installed := map[string]any{"name": plugin, "version": version}
		k.write(folder+"/package.json", depends)
		k.write(folder+"/package-lock.json",
			map[string]any{"lockfileVersion": 3,
				"packages": map[string]any{"": depends, "node_modules/" + plugin: installed}})
		k.write(folder+"/node_modules/"+plugin+"/package.json", installed)
	}
}

// version returns the version of OpenCode that is tested.
func (k *desk) version() string {
	k.t.Helper()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(k.program), "..", "package.json"))
	var about struct{ Version string }
	if err == nil {
		err = json.Unmarshal(text, &about)
	}
	if err != nil {
		k.t.Fatal(err)
	}
	return about.Version
}

// openCode starts OpenCode, and a session there.
func (k *desk) openCode(env ...string) *openCode {
	k.t.Helper()
	o := k.serveOpenCode(env...)
	o.id = o.begins(map[string]any{})
	return o
}

// idleOpenCode starts OpenCode with a session that has had a turn and is idle.
func (k *desk) idleOpenCode() *openCode {
	k.t.Helper()
	o := k.openCode()
	o.prompts("Hello.")
	o.asks().says("Hello.")
	o.rests()
	return o
}

// serveOpenCode starts OpenCode.
func (k *desk) serveOpenCode(env ...string) *openCode {
	k.t.Helper()
	o := &openCode{session: k.start(append(env, k.openCodeEnv()...), "serve", "--hostname", "127.0.0.1", "--port", "0")}
	o.writes("it listens", func(text string) bool { // an earlier connection would never be answered
		found := listens.FindStringSubmatch(text)
		if found != nil {
			o.url = found[1]
		}
		return found != nil
	})
	return o
}

// openCodeEnv makes OpenCode use the test's model, and contact no other server.
func (k *desk) openCodeEnv() (env []string) {
	for _, off := range []string{"AUTOUPDATE", "MODELS_FETCH", "DEFAULT_PLUGINS", "LSP_DOWNLOAD"} {
		env = append(env, strings.ToUpper(k.host)+"_DISABLE_"+off+"=1")
	}
	return append(env, "KILO_TELEMETRY_LEVEL=off")
}

// begins starts a session, and returns its ID.
func (o *openCode) begins(what map[string]any) string {
	o.t.Helper()
	var made struct{ ID string }
	if err := json.Unmarshal([]byte(o.asked(http.MethodPost, "/session", what)), &made); err != nil {
		o.t.Fatal(err)
	}
	return made.ID
}

// listens matches the line in which OpenCode prints its address.
var listens = regexp.MustCompile(`server listening on (http://[0-9.:]+)\n`)

// asked sends a request to OpenCode's server, and returns the response.
func (o *openCode) asked(method, path string, body any) string {
	o.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		o.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(o.t.Context(), method, o.url+path, bytes.NewReader(text))
	if err != nil {
		o.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := (&http.Client{Timeout: patience}).Do(r)
	if err == nil {
		defer answer.Body.Close()
		text, err = io.ReadAll(answer.Body)
	}
	if err != nil || answer.StatusCode >= 300 {
		o.kill()
		o.t.Fatalf("%s %s: %v %s\n%s", method, path, err, text, o.out)
	}
	return string(text)
}

// has waits until a message is in the session, where the model sees it with its next step.
func (o *openCode) has(id string) {
	o.t.Helper()
	o.until("the message "+id+" comes into the session", func() bool {
		return strings.Contains(o.asked(http.MethodGet, "/session/"+o.id+"/message", nil), id)
	})
}

// prompts sends a prompt of the user.
func (o *openCode) prompts(text string) {
	o.t.Helper()
	o.promptsIn(o.id, text)
}

func (o *openCode) promptsIn(session, text string) {
	o.t.Helper()
	o.asked(http.MethodPost, "/session/"+session+"/prompt_async",
		map[string]any{"parts": []any{map[string]any{"type": "text", "text": text}}})
}

// rests waits until the session is idle.
func (o *openCode) rests() {
	o.t.Helper()
	o.await(`SELECT count(*) FROM host_sessions WHERE state = 'idle' AND session = '`+o.id+`'`, "1")
}

// read waits until n messages to bob are read.
func (k *desk) read(n int) {
	k.t.Helper()
	k.await(`SELECT count(*) FROM agent_message WHERE recipient = 'bob' AND read_at <> ''`, fmt.Sprint(n))
}

// reads checks that the next request shows these messages, which are all that bob has, and that they are read after
// the model has answered.
func (s *session) reads(ids ...string) {
	s.t.Helper()
	r := s.asks()
	r.shows(ids...)
	r.says("I have.")
	s.read(len(ids))
}

// getsWhileBusy makes the model of a host to which messages come by themselves use its shell. A message that is sent
// meanwhile, and that the host has before the command ends, must be in the next request, and read at the end.
func (s *session) getsWhileBusy(r *request, at func(*gate) map[string]any, has func(id string)) {
	s.t.Helper()
	_, r = s.hears(r, "bash", at, func() string {
		id := s.mail()
		has(id)
		return id
	})
	s.stand("shown")
	r.says("Done.")
	s.read(1)
}

// TestOpenCodeBusy checks that a message sent while the model's tool runs is in the next request to the model, and
// read at the end.
func TestOpenCodeBusy(t *testing.T) {
	t.Parallel()
	inOpenCodes(t, openCodeBusy)
}

func openCodeBusy(t *testing.T, k *desk) {
	o := k.openCode()
	o.prompts("Do it.")
	r := o.asks()
	r.shows()
	o.getsWhileBusy(r, described, o.has)
}

// TestOpenCodeIdle checks that an idle session is woken by each message, and that its model is offered the tools.
func TestOpenCodeIdle(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	inOpenCodes(t, openCodeIdle)
}

func openCodeIdle(t *testing.T, k *desk) {
	o := k.openCode()
	o.writesToAlice()
	want.Rows(t, k.rows(`SELECT sender FROM agent_message WHERE recipient = 'alice'`), "bob")
	var ids []string
	for range 2 {
		ids = append(ids, k.send("Look at the build."))
		o.reads(ids...)
		o.rests()
	}
}

// writesToAlice makes the user ask for a message to alice, which the model sends.
func (o *openCode) writesToAlice() {
	o.t.Helper()
	o.prompts("Write to alice.")
	o.asks().writesTo("mailroom_", "alice")
	o.asks().says("Done.")
	o.rests()
}

// TestOpenCodeKilled checks that a message shown to a session that is killed before its model has answered is shown
// in the next session.
func TestOpenCodeKilled(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	inOpenCodes(t, openCodeKilled)
}

func openCodeKilled(t *testing.T, k *desk) {
	o := k.idleOpenCode()
	id := k.send("Look at the build.")
	o.asks().shows(id)
	o.kill()
	k.await(`SELECT count(*) FROM agent_inbox WHERE read_at = ''`, "1")
	k.openCode().reads(id)
}

// TestOpenCodePackage checks that the plugin written by make plugins shows an idle session its messages.
func TestOpenCodePackage(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	k := bareOpenCodeDesk(t)
	k.write(".opencode/plugins/mailroom.js", string(connect.Packages("")["opencode/mailroom.js"]))
	o := k.openCode("MAILROOM_AGENT=bob", "MAILROOM_DB="+k.db)
	o.reads(k.mail())
}
