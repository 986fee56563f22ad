//go:build hosts

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mailroom/orchestrator/agenthost"
	"mailroom/orchestrator/orchestratortest/want"
)

// together prepares each host for work in one project of one user, and starts it there with the files that connect
// wrote.
var together = map[string]struct {
	ready func(k *desk) // writes the user's files for the host
	start func(k *desk) *sitting
}{
	"claude": {func(*desk) {}, func(k *desk) *sitting {
		s := k.start(k.claudeEnv(), "-p", "Do it.")
		s.in.Close()
		return &sitting{session: s}
	}},
	"codex": {
		func(k *desk) {
			k.write(".codex/config.toml", fmt.Sprintf("%s\nsandbox_mode = \"danger-full-access\"\napproval_policy = \"never\"\n[features]\nhooks = true\n"+
				"[projects.%q]\ntrust_level = \"trusted\"\n", k.codexModel(), k.project))
		},
		func(k *desk) *sitting {
			s := k.start(nil, "exec", "--dangerously-bypass-hook-trust", "--skip-git-repo-check", "Do it.")
			s.in.Close()
			return &sitting{session: s}
		},
	},
	"gemini": {func(k *desk) { k.geminiSettings(map[string]any{}) },
		func(k *desk) *sitting { return &sitting{session: k.startGemini("Do it.")} }},
	"qwen":     {(*desk).readiesQwen, func(k *desk) *sitting { return &sitting{session: k.qwen("Do it.")} }},
	"copilot":  {(*desk).readiesCopilot, func(k *desk) *sitting { return &sitting{session: k.copilot("Do it.")} }},
	"opencode": {readiesOpenCodeAtHome, seats["opencode"].prompted},
	"kilo":     {readiesOpenCodeAtHome, seats["kilo"].prompted},
	"pi":       {(*desk).readiesPi, seats["pi"].prompted},
}

// prompted starts the host with a prompt.
func (of seat) prompted(k *desk) *sitting { return of.start(k, "Do it.") }

// readiesOpenCodeAtHome writes the files of readies to the user's own configuration.
func readiesOpenCodeAtHome(k *desk) {
	k.readies()
	if err := os.Rename(filepath.Join(k.folder, k.host+".json"),
		filepath.Join(k.folder, ".config", k.host, k.host+".json")); err != nil {
		k.t.Fatal(err)
	}
}

// TestHostsTogether checks a project that is connected for all hosts, each as a separate agent. Each host has the
// tools of its agent and of no other, and its model is shown its agent's messages, whichever host was connected and
// is started first.
func TestHostsTogether(t *testing.T) {
	t.Parallel()
	hosts := agenthost.Connectable()
	backwards := slices.Clone(hosts)
	slices.Reverse(backwards)
	for name, order := range map[string][]string{"forwards": hosts, "backwards": backwards} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			isTogether(claudeDesk(t), order)
		})
	}
}

// isTogether starts the hosts, in an order, with the database of a desk.
func isTogether(first *desk, order []string) {
	t := first.t
	t.Helper()
	desks := map[string]*desk{}
	shop := filepath.Dir(first.write("shop/README.md", "Shop"))
	for _, host := range order {
		k := seats[host].desk(t)
		k.office, k.folder, k.project = first.office, first.folder, shop
		together[host].ready(k)
		k.connects("--as", "of-"+host)
		desks[host] = k
	}
	ids := map[string]string{}
	for _, host := range order {
		ids[host] = first.run("send", "--as", "alice", "of-"+host, "For "+host+".")["message_id"].(string)
	}
	for _, host := range order {
		k := desks[host]
		s := together[host].start(k)
		s.seat = seats[host]
		r := s.isShown(s.asks(), ids[host])
		var offered []string
		for _, tool := range r.tools(r.body) {
			if strings.HasSuffix(tool[1], "send_message") {
				offered = append(offered, tool[1])
			}
		}
		want.Equal(t, host+" is offered", strings.Join(offered, " "), s.tools+"send_message")
		r.writesTo(s.tools, "alice")
		r = s.asks()
		r.shows(ids[host])
		r.says("Done.")
		s.await(`SELECT count(*) FROM agent_message WHERE recipient = 'of-`+host+`' AND read_at <> ''`, "1")
		if s.live == nil {
			s.ends()
		}
		s.kill()
	}
	var senders []string
	for _, host := range order {
		senders = append(senders, "of-"+host)
	}
	want.Rows(t, first.rows(`SELECT sender FROM agent_message WHERE recipient = 'alice' ORDER BY seq`), senders...)
}
