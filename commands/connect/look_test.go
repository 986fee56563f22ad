package connect

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agenthost"
	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/removal"
	"mailroom/orchestrator/schedules"
)

// looks runs the check of doctor, and compares its finding about the only connection.
func (d *desk) looks(mend bool, level, says string) {
	d.t.Helper()
	found := Look(d.t.Context(), d.env, mend)
	if len(found) != 1 || found[0].Level != level || !strings.Contains(found[0].Says, says) || level == "problem" &&
		found[0].Do == "" {
		d.t.Errorf("the doctor finds %+v; want %s, %q", found, level, says)
	}
}

// programMoves moves the program that wrote the configuration of a host.
func (d *desk) programMoves() string {
	d.t.Helper()
	own, err := os.Executable()
	if err != nil {
		d.t.Fatal(err)
	}
	gone := filepath.Join(d.home, "bin", "mailroom")
	for path, text := range tree(d.t, d.project) {
		if strings.Contains(text, own) {
			if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, own, gone)), 0o644); err != nil {
				d.t.Fatal(err)
			}
		}
	}
	for _, r := range bookOf(d.env).all() {
		text, err := os.ReadFile(r.File)
		if err != nil {
			d.t.Fatal(err)
		}
		r.Command, r.After = gone, digest(text)
		if err := bookOf(d.env).keep(&r); err != nil {
			d.t.Fatal(err)
		}
	}
	return gone
}

// hears calls a hook of a host, and returns the messages that it shows.
func (d *desk) hears(program string, kind hosts.Kind) []orchestrator.Message {
	d.t.Helper()
	a, err := hosts.Happened(d.t.Context(), d.env.Ledger,
		hosts.Event{Agent: "bob", Program: program, Session: "one", Kind: kind})
	if err != nil {
		d.t.Fatal(err)
	}
	return a.Messages
}

// TestLookTellsHowAConnectionStands checks the states: no hook yet, the last hook call, the last message shown.
func TestLookTellsHowAConnectionStands(t *testing.T) {
	for _, h := range agenthost.Hosts {
		if h.Digests {
			continue // see TestLookAtCodex
		}
		d := newDesk(t)
		d.connect("bob", `{"host":"`+h.Name+`"}`)
		d.looks(true, "note", "no hook has been called yet")
		d.hears(h.Name, hosts.Started)
		d.looks(true, "ok", "a hook was last called for bob at ")
		d.looks(true, "ok", "no message has been shown yet")
		if _, err := messages.Send(t.Context(), d.env.Ledger,
			orchestrator.Draft{Sender: "bob", Recipient: "bob", Type: "note", Payload: []byte(`"hello"`)}); err != nil {
			t.Fatal(err)
		}
		d.looks(true, "ok", "a message was last shown at "+d.hears(h.Name, hosts.Worked)[0].ShownAt)
		want.Equal(t, "listed", d.connect("", `{}`).of(h.Name).Level, "ok")
		d.connect("", `{"host":"`+h.Name+`","remove":true}`)
		want.Equal(t, "connections after it was removed", len(Look(t.Context(), d.env, true)), 0)
	}
}

// of returns a host from the list.
func (r Result) of(host string) HostResult {
	for _, h := range r.Hosts {
		if h.Host == host {
			return h
		}
	}
	return HostResult{}
}

// TestLookMendsPaths checks that paths are repaired after the program, the database or the project has moved.
func TestLookMendsPaths(t *testing.T) {
	for _, h := range agenthost.Hosts {
		for what, move := range map[string]func(d *desk){
			"its configuration refers to a program that does not exist": func(d *desk) { d.programMoves() },
			"its configuration refers to a database that does not exist": func(d *desk) {
				moved := filepath.Join(d.home, "moved")
				if err := os.Rename(filepath.Dir(d.env.Ledger.Path()), moved); err != nil {
					d.t.Fatal(err)
				}
				d.env.Engine = d.open(filepath.Join(moved, "mailroom.db"))
				if _, err := schedules.SetTrusted(d.t.Context(), d.env.Ledger, true); err != nil {
					d.t.Fatal(err)
				}
			},
			"its folder was moved from ": func(d *desk) {
				moved := d.project + "-2"
				if err := os.Rename(d.project, moved); err != nil {
					d.t.Fatal(err)
				}
				d.project = moved
				d.t.Chdir(moved)
			},
		} {
			t.Run(h.Name+", "+what, func(t *testing.T) {
				d := newDesk(t)
				d.connect("bob", `{"host":"`+h.Name+`","vocabulary":["mail","coral"]`+asking(h)+`}`)
				before := tree(t, d.project)
				old, db := d.project, d.env.Ledger.Path()
				move(d)
				moved := tree(t, d.project)
				d.looks(false, "problem", what)
				d.same("looked at", moved)
				d.looks(true, "ok", what)
				for path, text := range before {
					path = strings.Replace(path, old, d.project, 1)
					want.Equal(t, path, tree(t, d.project)[path], strings.ReplaceAll(text, db, d.env.Ledger.Path()))
				}
				after := tree(t, d.project)
				if h.Digests {
					d.looks(true, "problem", "they are not trusted")
				} else {
					d.looks(true, "note", "no hook has been called yet")
				}
				d.same("looked at again", after)
				d.connect("", `{"host":"`+h.Name+`","remove":true}`)
				want.Equal(t, "files of a host that is connected no more", len(tree(t, d.project)), 1)
			})
		}
	}
}

// TestLookMissesOneHook checks that each missing hook is reported.
func TestLookMissesOneHook(t *testing.T) {
	d := newDesk(t)
	d.connect("bob", `{"host":"claude"}`)
	path := filepath.Join(d.project, ".claude", "settings.local.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d.write(".claude/settings.local.json",
		strings.Replace(string(text), " hook Stop --host claude --as bob", " hook Stop --host claude --as carol", 1))
	d.looks(true, "problem", path+" lacks something that Mailroom needs")
	d.connect("bob", `{"host":"claude"}`)
	d.looks(true, "note", "no hook has been called yet")
	d.write(".claude/settings.local.json", strings.Replace(string(text), "mcp__mailroom", "mcp__other", 1))
	d.looks(true, "note", "no hook has been called yet") // whether the host asks is the user's choice
}

// TestLookSeesWhatIsSwitchedOff checks that a host that must not run hooks, or does not trust the folder, is
// reported.
func TestLookSeesWhatIsSwitchedOff(t *testing.T) {
	for _, off := range []struct{ host, file, text, says string }{
		{"claude", "shop/.claude/settings.json", `{"disableAllHooks":true}`, "hooks are disabled"},
		{"claude", "home/.claude/settings.json", `{"disableAllHooks":true}`, "hooks are disabled"},
		{"gemini", "home/.gemini/settings.json", `{"hooksConfig":{"enabled":false} /* mine */}`,
			"hooks are disabled"},
		{"gemini", "home/.gemini/trustedFolders.json", `{"FOLDER":"DO_NOT_TRUST"}`, "the folder is not trusted"},
		{"codex", "home/.codex/config.toml", "[features]\nhooks = false\n", "hooks are disabled"},
		{"codex", "home/.codex/config.toml", "[projects.\"FOLDER\"]\ntrust_level = \"untrusted\"\n",
			"the folder is not trusted"},
		{"codex", "home/.codex/config.toml", "[", "config.toml: "},
	} {
		d := newDesk(t)
		d.connect("bob", `{"host":"`+off.host+`"}`)
		d.hears(off.host, hosts.Started)
		d.write(filepath.Join("..", off.file), strings.ReplaceAll(off.text, "FOLDER", d.project))
		d.looks(true, "problem", off.says)
	}
}

// TestLookSeesThatTheAgentIsGone checks that a missing agent is reported, because the host's tools would be refused.
func TestLookSeesThatTheAgentIsGone(t *testing.T) {
	d := newDesk(t)
	d.connect("bob", `{"host":"claude"}`)
	if _, err := removal.Remove(t.Context(), d.env.Ledger, removal.Request{Name: "bob"}); err != nil {
		t.Fatal(err)
	}
	d.looks(true, "problem", "the database has no agent bob")
	d.connect("", `{"host":"claude"}`)
	d.looks(true, "note", "no hook has been called yet")
}

// TestConnectMinds checks the notes about one agent in two places, and about two hosts of one folder in two
// databases.
func TestConnectMinds(t *testing.T) {
	d := newDesk(t)
	d.connect("bob", `{"host":"claude"}`)
	if next := strings.Join(d.connect("bob", `{"host":"gemini"}`).Next, "\n"); !strings.Contains(next,
		"The agent bob is also used by claude in "+d.project) {
		t.Errorf("it says\n%s", next)
	}
	d.env.Engine = d.open(filepath.Join(d.home, "other.db"))
	if next := strings.Join(d.connect("carol", `{"host":"codex"}`).Next, "\n"); !strings.Contains(next,
		"gemini is connected to another database") {
		t.Errorf("it says\n%s", next)
	}
}

// TestMendKeepsTheHost checks that a repair keeps the path of Codex in the hook when Codex is not in the PATH of the
// repairing process.
func TestMendKeepsTheHost(t *testing.T) {
	d := newDesk(t)
	bin := filepath.Join(d.home, "bin")
	program := filepath.Join(bin, "codex")
	err := os.Mkdir(bin, 0o700)
	if err == nil {
		err = os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	path := os.Getenv("PATH")
	t.Setenv("PATH", bin+":"+path)
	d.connect("bob", `{"host":"codex"}`)
	t.Setenv("PATH", path)
	before := tree(t, d.project)
	d.connect("bob", `{"host":"codex"}`)
	d.same("connected again", before)
	d.programMoves()
	d.looks(true, "ok", "repaired in ")
	d.same("mended", before)
	if text := before[filepath.Join(d.project, ".codex", "hooks.json")]; !strings.Contains(text, "--program "+program) {
		t.Errorf("the hook of a prompt does not name Codex:\n%s", text)
	}
}

// TestRemoveOfAFolderThatIsGone checks that the connection of a folder that no longer exists is forgotten, and no
// other.
func TestRemoveOfAFolderThatIsGone(t *testing.T) {
	d := newDesk(t)
	d.connect("bob", `{"host":"claude"}`)
	d.connect("bob", `{"host":"gemini"}`)
	if err := os.RemoveAll(d.project); err != nil {
		t.Fatal(err)
	}
	d.connect("", `{"host":"claude","remove":true}`)
	d.looks(true, "problem", "its folder no longer exists")
	d.connect("", `{"host":"gemini","remove":true}`)
	want.Equal(t, "connections", len(Look(t.Context(), d.env, true)), 0)
	if _, err := d.try("bob", `{"host":"claude"}`); orchestrator.CodeOf(err) != orchestrator.InvalidParams {
		t.Errorf("a folder that is not there is connected: %v", err)
	}
}

// TestRecordsOfOthersStay checks that a project that is missing while another is connected keeps its records.
func TestRecordsOfOthersStay(t *testing.T) {
	d := newDesk(t)
	before := tree(t, d.project)
	d.connect("bob", `{"host":"claude"}`)
	project, away := d.project, d.project+"-away"
	if err := os.Rename(project, away); err != nil {
		t.Fatal(err)
	}
	d.project = filepath.Join(d.home, "other [1]")
	if err := os.Mkdir(d.project, 0o700); err != nil {
		t.Fatal(err)
	}
	d.connect("bob", `{"host":"claude"}`)
	want.Equal(t, "connections", len(Look(t.Context(), d.env, false)), 2)
	if err := os.Rename(away, project); err != nil {
		t.Fatal(err)
	}
	d.project = project
	d.connect("", `{"host":"claude","remove":true}`)
	d.same("removed", before)
}

// TestCodexWritesItsOwn checks that our table is found with --user although Codex stores what it trusts in the same
// file, and rewrites our values in forms of its own. What Codex wrote is kept.
func TestCodexWritesItsOwn(t *testing.T) {
	const trust = "\n[hooks.state]\n\n[hooks.state.\"/x/hooks.json:stop:0:0\"]\ntrusted_hash = \"sha256:1\"\n"
	for about, write := range map[string]func(text string) string{
		"at the end":     func(text string) string { return text + trust },
		"in its own way": func(text string) string { return strings.Replace(text, "= 120\n", "= 120.0\n", 1) + trust },
		"between the marks of an earlier version": func(text string) string {
			return strings.Replace(text, "[mcp", beginMark+"\n[mcp", 1) + trust + endMark + "\n"
		},
	} {
		t.Run(about, func(t *testing.T) {
			d := newDesk(t)
			t.Setenv("CODEX_HOME", filepath.Join(d.project, "own"))
			path := d.write("own/config.toml", "model = \"x\"\n")
			connect := `{"host":"codex","user":true,"ask":true}`
			d.connect("bob", connect)
			d.write("own/config.toml", write(tree(t, d.project)[path]))
			want.Equal(t, "agent", d.connect("", connect).Agent, "bob")
			after := tree(t, d.project)[path]
			for part, n := range map[string]int{"[mcp_servers.mailroom]": 1, "sha256:1": 1, "model = ": 1} {
				want.Equal(t, part, strings.Count(after, part), n)
			}
			for _, f := range d.connect("", connect).Files {
				want.Equal(t, "second time", f.Change, "none")
			}
			d.connect("", `{"host":"codex","user":true,"remove":true}`)
			left := tree(t, d.project)[path]
			for part, n := range map[string]int{"mailroom": 0, "sha256:1": 1, "model = ": 1} {
				want.Equal(t, part+" when it was removed", strings.Count(left, part), n)
			}
		})
	}
}

// TestLookLeavesToTheUser checks the problems that only the user can decide: an entry that was removed by hand, an
// entry with another database that exists, and a folder that no longer exists.
func TestLookLeavesToTheUser(t *testing.T) {
	for what, change := range map[string]func(d *desk){
		"its configuration no longer contains Mailroom":           func(d *desk) { d.write(".mcp.json", "{}") },
		"settings.local.json lacks something that Mailroom needs": func(d *desk) { d.write(".claude/settings.local.json", "{}") },
		"cannot read ": func(d *desk) { d.makesFolder(".mcp.json") },
		"its configuration uses another database": func(d *desk) {
			other := d.write("other.db", "")
			text := tree(d.t, d.project)[filepath.Join(d.project, ".mcp.json")]
			d.write(".mcp.json", strings.ReplaceAll(text, d.env.Ledger.Path(), other))
		},
		"its folder no longer exists": func(d *desk) {
			if err := os.RemoveAll(d.project); err != nil {
				d.t.Fatal(err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			d := newDesk(t)
			d.connect("bob", `{"host":"claude"}`)
			change(d)
			if _, err := os.Stat(d.project); err != nil {
				d.looks(true, "problem", what)
				return
			}
			before := tree(t, d.project)
			d.looks(true, "problem", what)
			d.same("looked at", before)
		})
	}
}

// makesFolder replaces a file with a folder.
func (d *desk) makesFolder(name string) {
	d.t.Helper()
	path := filepath.Join(d.project, name)
	err := os.Remove(path)
	if err == nil {
		err = os.Mkdir(path, 0o755)
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// TestLookAtCodex checks that the hooks of Codex count as running if Codex's configuration trusts each of them.
func TestLookAtCodex(t *testing.T) {
	d := newDesk(t)
	t.Setenv("CODEX_HOME", filepath.Join(d.home, "codex"))
	d.write(".codex/hooks.json", `{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"say done"}]}]}}`)
	d.connect("bob", `{"host":"codex"}`)
	d.looks(true, "problem",
		"Codex does not run the hooks SessionStart, UserPromptSubmit, PostToolUse, Stop, because they are not trusted")
	d.hears("codex", hosts.Started)
	path := filepath.Join(d.project, ".codex", "hooks.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ours := codexHooks(agenthost.Find("codex").Files[1].Hooks, text)
	want.Equal(t, "place of the last", ours[3].place, "stop:1:0") // before another hook takes its place
	trusts := func(hooks []codexHook, more string) {
		t.Helper()
		var conf strings.Builder
		for _, h := range hooks {
			fmt.Fprintf(&conf, "[hooks.state.%q]\ntrusted_hash = %q\n%s\n", path+":"+h.place, h.digest, more)
		}
		if err := os.MkdirAll(os.Getenv("CODEX_HOME"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(os.Getenv("CODEX_HOME"), "config.toml"), []byte(conf.String()),
			0o600); err != nil {
			t.Fatal(err)
		}
	}
	trusts(ours[:3], "")
	d.looks(true, "problem", "Codex does not run the hooks Stop, because ")
	trusts(ours, "enabled = false")
	d.looks(true, "problem", "SessionStart, UserPromptSubmit, PostToolUse, Stop")
	trusts(ours, "")
	d.looks(true, "ok", "a hook was last called for bob at ")
	changed := slices.Clone(ours)
	changed[0].digest = "sha256:0"
	trusts(changed, "")
	d.looks(true, "problem",
		"Codex does not run the hooks SessionStart, because they are not trusted, were changed, or are disabled")
}

// Digest of a hook as computed by Codex 0.169.0 (hooks/list of `codex app-server`).
func TestDigestOfCodex(t *testing.T) {
	t.Parallel()
	found := codexHooks(agenthost.Find("codex").Files[1].Hooks, []byte(`{"hooks":{"PostToolUse":[{"hooks":[{"type":"command","timeout":10,
		"command":"/tmp/mr/mailroom hook PostToolUse --host codex --as bob --db /tmp/mrhome/.local/state/mailroom/mailroom.db"}]}]}}`))
	want.Equal(t, "digest", found[0].digest, "sha256:0b866b202d31387214a0fa4b7eba8b5cdf0765b3f037dbea1df6dca7c11bd5a4")
}

// TestLookAtAnUntrustedDatabase checks that nothing is repaired with a database that somebody else may have made.
func TestLookAtAnUntrustedDatabase(t *testing.T) {
	d := newDesk(t)
	d.write(".gemini/settings.json", "{\"theme\":\"dark\"}\n")
	d.connect("bob", `{"host":"gemini"}`)
	gone := d.programMoves()
	before := tree(t, d.project)
	if _, err := schedules.SetTrusted(t.Context(), d.env.Ledger, false); err != nil {
		t.Fatal(err)
	}
	d.looks(true, "problem", gone)
	d.looks(true, "problem", "The repair failed")
	d.same("looked at", before)
	if _, err := d.try("bob", `{"host":"gemini"}`); orchestrator.CodeOf(err) != orchestrator.PermissionDenied {
		t.Errorf("it is connected: %v", err)
	}
	d.connect("", `{"host":"gemini","remove":true}`)
	want.Equal(t, "removed", tree(t, d.project)[filepath.Join(d.project, ".gemini", "settings.json")],
		"{\"theme\":\"dark\"}\n")
}

// TestWhatARepositoryBrings checks that records beside a database are ignored, and so are the agent and the
// vocabularies in a configuration that connect did not write on this machine.
func TestWhatARepositoryBrings(t *testing.T) {
	d := newDesk(t)
	file := d.write(".mcp.json",
		`{"mcpServers":{"mailroom":{"command":"x","args":["mcp","--as","alice","--vocabulary","relay,admin","--db","/gone"]}}}`)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r := record{
		Program: "claude", Agent: "alice", Folder: "/nonexistent", File: "/nonexistent/.mcp.json", Command: "/gone",
		After:  digest(text),
		Before: new("evil"), Database: d.env.Ledger.Path(),
	}
	beside := book(filepath.Join(filepath.Dir(d.env.Ledger.Path()), "connections"))
	if err := beside.keep(&r); err != nil {
		t.Fatal(err)
	}
	d.t.Chdir(d.project)
	before := tree(t, d.project)
	d.looks(true, "note", "no connection is recorded")
	d.same("looked at", before)
	want.Equal(t, "says", d.connect("", `{}`).of("claude").Agent, "alice")
	want.Equal(t, "agent", d.connect("", `{"host":"claude"}`).Agent, "claude")
	if text := tree(t, d.project)[file]; strings.Contains(text, "admin") || strings.Contains(text, "alice") {
		t.Errorf("it has become\n%s", text)
	}
}
