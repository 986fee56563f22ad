package connect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/orchestrator/orchestratortest/want"
)

// TestProjectBehindALink: a project that is reached through a link keeps its records, whichever way it is named.
func TestProjectBehindALink(t *testing.T) {
	d := newDesk(t)
	d.write(".claude/settings.local.json", "{\"model\":\"x\"}\n")
	before := tree(t, d.project)
	real, link := d.project, filepath.Join(filepath.Dir(d.project), "link")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	d.project = link
	d.connect("alice", `{"host":"claude"}`)
	want.Equal(t, "agent", d.connect("", `{"host":"claude"}`).Agent, "alice")
	d.project = real
	want.Equal(t, "agent", d.connect("", `{"host":"claude"}`).Agent, "alice")
	d.project = link
	d.connect("", `{"host":"claude","remove":true}`)
	d.project = real
	d.same("after --remove", before)
	want.Equal(t, "records", len(bookOf(d.env).all()), 0)
}

// TestLostRecords: connecting again keeps records where they are lost, and --remove then takes out what connect has written.
func TestLostRecords(t *testing.T) {
	for _, h := range known {
		d := newDesk(t)
		d.connect("alice", `{"host":"`+h.name+`"}`)
		if err := os.RemoveAll(string(bookOf(d.env))); err != nil {
			t.Fatal(err)
		}
		d.connect("alice", `{"host":"`+h.name+`"}`)
		for _, stands := range d.connect("", `{}`).Hosts {
			if stands.Host == h.name {
				want.Equal(t, h.name, stands.Agent, "alice")
				if strings.Contains(stands.Says, "somebody else") {
					t.Errorf("%s: %s", h.name, stands.Says)
				}
			}
		}
		d.connect("", `{"host":"`+h.name+`","remove":true}`)
		for path, text := range tree(t, d.project) {
			if text != "folder" {
				t.Errorf("%s: %s is left:\n%s", h.name, path, text)
			}
		}
	}
}
