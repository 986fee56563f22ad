package connect

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
)

// looks has the doctor look, and returns what it says of the only connection.
func (d *desk) looks(mend bool, level, says string) {
	d.t.Helper()
	found := Look(d.t.Context(), d.env, mend)
	if len(found) != 1 || found[0].Level != level || !strings.Contains(found[0].Says, says) || level == "problem" && found[0].Do == "" {
		d.t.Errorf("the doctor finds %+v; want %s, %q", found, level, says)
	}
}

// program moves the program that wrote the configuration of a host away.
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
	for _, r := range records(d.env.Ledger.Path()) {
		text, err := os.ReadFile(r.File)
		if err != nil {
			d.t.Fatal(err)
		}
		r.Command, r.After = gone, digest(text)
		if err := r.save(d.env.Ledger.Path()); err != nil {
			d.t.Fatal(err)
		}
	}
	return gone
}

// hears has a hook of a host be called, and returns what it shows.
func (d *desk) hears(program string, kind hosts.Kind) []orchestrator.Message {
	d.t.Helper()
	a, err := hosts.Happened(d.t.Context(), d.env.Ledger, hosts.Event{Agent: "bob", Program: program, Session: "one", Kind: kind})
	if err != nil {
		d.t.Fatal(err)
	}
	return a.Messages
}

// TestLookTellsHowAConnectionStands: no hook yet, its last hook, the last message that was shown.
func TestLookTellsHowAConnectionStands(t *testing.T) {
	for _, h := range known {
		if h == &codex {
			continue // TestLookAtCodex
		}
		d := newDesk(t)
		d.connect("bob", `{"host":"`+h.name+`"}`)
		d.looks(true, "note", "no hook has been called yet")
		d.hears(h.name, hosts.Started)
		d.looks(true, "ok", "its last hook was called at ")
		d.looks(true, "ok", "it has not been shown any message yet")
		if _, err := messages.Send(t.Context(), d.env.Ledger, orchestrator.Draft{Sender: "bob", Recipient: "bob", Type: "note", Payload: []byte(`"hello"`)}); err != nil {
			t.Fatal(err)
		}
		d.looks(true, "ok", "the last message was shown to it at "+d.hears(h.name, hosts.Worked)[0].ShownAt)
		want.Equal(t, "listed", d.connect("", `{}`).of(h.name).Level, "ok")
		d.connect("", `{"host":"`+h.name+`","remove":true}`)
		want.Equal(t, "connections after it was removed", len(Look(t.Context(), d.env, true)), 0)
	}
}

// of finds a host in the list.
func (r Result) of(host string) HostResult {
	for _, h := range r.Hosts {
		if h.Host == host {
			return h
		}
	}
	return HostResult{}
}

// TestLookMendsPaths: the program, the database or the project has moved.
func TestLookMendsPaths(t *testing.T) {
	for _, h := range known {
		for what, move := range map[string]func(d *desk){
			"it named a program that is not there": func(d *desk) { d.programMoves() },
			"it named a database that is not there": func(d *desk) {
				moved := filepath.Join(d.home, "moved")
				if err := os.Rename(filepath.Dir(d.env.Ledger.Path()), moved); err != nil {
					d.t.Fatal(err)
				}
				d.env.Engine = enginetest.OpenWith(d.t, ledger.Options{Path: filepath.Join(moved, "mailroom.db")})
			},
			"its folder was ": func(d *desk) {
				moved := d.project + "-2"
				if err := os.Rename(d.project, moved); err != nil {
					d.t.Fatal(err)
				}
				d.project = moved
				d.t.Chdir(moved)
			},
		} {
			t.Run(h.name+", "+what, func(t *testing.T) {
				d := newDesk(t)
				d.connect("bob", `{"host":"`+h.name+`","vocabulary":["mail","coral"],"ask":true}`)
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
				if h == &codex {
					d.looks(true, "problem", "they are not trusted")
				} else {
					d.looks(true, "note", "no hook has been called yet")
				}
				d.same("looked at again", after)
				d.connect("", `{"host":"`+h.name+`","remove":true}`)
				want.Equal(t, "files of a host that is connected no more", len(tree(t, d.project)), 1)
			})
		}
	}
}

// TestLookLeavesToTheUser: what was taken out of a configuration by hand, what leads to another database that is there, and what is gone.
func TestLookLeavesToTheUser(t *testing.T) {
	for what, change := range map[string]func(d *desk){
		"its configuration has nothing of Mailroom any more": func(d *desk) { d.write(".mcp.json", "{}") },
		"settings.local.json has nothing of Mailroom":        func(d *desk) { d.write(".claude/settings.local.json", "{}") },
		".mcp.json cannot be read":                           func(d *desk) { d.makesFolder(".mcp.json") },
		"its configuration names another database": func(d *desk) {
			other := d.write("other.db", "")
			text := tree(d.t, d.project)[filepath.Join(d.project, ".mcp.json")]
			d.write(".mcp.json", strings.ReplaceAll(text, d.env.Ledger.Path(), other))
		},
		"its folder is gone": func(d *desk) {
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

// makesFolder puts a folder in the place of a file.
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

// TestLookAtCodex: its hooks run when each of them is trusted, as Codex keeps it.
func TestLookAtCodex(t *testing.T) {
	d := newDesk(t)
	t.Setenv("CODEX_HOME", filepath.Join(d.home, "codex"))
	d.write(".codex/hooks.json", `{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"say done"}]}]}}`)
	d.connect("bob", `{"host":"codex"}`)
	d.looks(true, "problem", "Codex does not run its hooks SessionStart, UserPromptSubmit, PostToolUse, Stop: they are not trusted")
	d.hears("codex", hosts.Started)
	path := filepath.Join(d.project, ".codex", "hooks.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ours := codexHooks(text)
	want.Equal(t, "place of the last", ours[3].place, "stop:1:0") // before it is somebody else's
	trusts := func(hooks []codexHook, more string) {
		t.Helper()
		var conf strings.Builder
		for _, h := range hooks {
			fmt.Fprintf(&conf, "[hooks.state.%q]\ntrusted_hash = %q\n%s\n", path+":"+h.place, h.digest, more)
		}
		if err := os.MkdirAll(os.Getenv("CODEX_HOME"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(os.Getenv("CODEX_HOME"), "config.toml"), []byte(conf.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	trusts(ours[:3], "")
	d.looks(true, "problem", "Codex does not run its hooks Stop: ")
	trusts(ours, "enabled = false")
	d.looks(true, "problem", "SessionStart, UserPromptSubmit, PostToolUse, Stop")
	trusts(ours, "")
	d.looks(true, "ok", "its last hook was called at ")
	d.write(".codex/hooks.json", strings.Replace(string(text), " hook SessionStart --host codex", " hook SessionStart --host codex --verbose", 1))
	d.looks(true, "problem", "Codex does not run its hooks SessionStart: they are not trusted, or have changed since")
}

// The digest of a hook as Codex 0.169.0 has it (hooks/list of `codex app-server`).
func TestDigestOfCodex(t *testing.T) {
	t.Parallel()
	found := codexHooks([]byte(`{"hooks":{"PostToolUse":[{"hooks":[{"type":"command","timeout":10,
		"command":"/tmp/mr/mailroom hook PostToolUse --host codex --as bob --db /tmp/mrhome/.local/state/mailroom/mailroom.db"}]}]}}`))
	want.Equal(t, "digest", found[0].digest, "sha256:0b866b202d31387214a0fa4b7eba8b5cdf0765b3f037dbea1df6dca7c11bd5a4")
}

// TestLookAtAnUntrustedDatabase: nothing is mended with a database that somebody else may have made, nor restored from beside it.
func TestLookAtAnUntrustedDatabase(t *testing.T) {
	d := newDesk(t)
	d.write(".gemini/settings.json", "{\"theme\":\"dark\"}\n")
	state := filepath.Join(d.home, "trusted")
	open := func(folder string) {
		t.Helper()
		d.env.Engine = enginetest.OpenWith(t, ledger.Options{Path: d.env.Ledger.Path(), Trust: &ledger.Trust{Folder: folder}})
	}
	open(state)
	d.connect("bob", `{"host":"gemini"}`)
	for _, r := range records(d.env.Ledger.Path()) { // as somebody else would have it
		r.Before = new(`{"hooks":{"SessionStart":[{"hooks":[{"type":"command","command":"evil"}]}]}}`)
		if err := r.save(d.env.Ledger.Path()); err != nil {
			t.Fatal(err)
		}
	}
	gone := d.programMoves()
	before := tree(t, d.project)
	open(filepath.Join(d.home, "other"))
	d.looks(true, "problem", gone)
	d.looks(true, "problem", "It could not be mended")
	d.same("looked at", before)
	d.connect("", `{"host":"gemini","remove":true}`)
	want.Equal(t, "removed", tree(t, d.project)[filepath.Join(d.project, ".gemini", "settings.json")], "{\"theme\":\"dark\"}\n")
}
