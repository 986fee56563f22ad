package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/orchestrator/store/postgres/postgrestest"
)

// TestPasswordOfCommands uses a server that requires a password, which the user has only in PGPASSWORD. `mailroom` in
// an agent's command does not get the password, and prints what to do. So does the doctor, until the agent's list
// lets the variable pass.
func TestPasswordOfCommands(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	query := func(statement string) string {
		t.Helper()
		rows, err := postgrestest.SQL(t.Context(), server, statement)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(rows, "\n")
	}
	query("CREATE ROLE ann LOGIN PASSWORD 'hers'")
	query("CREATE SCHEMA mailroom AUTHORIZATION ann")
	if err := os.WriteFile(query("SHOW hba_file"), []byte("local all postgres trust\nlocal all all scram-sha-256\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	query("SELECT pg_reload_conf()")
	ann := strings.Replace(server, "postgres@", "ann@", 1)
	for _, err := postgrestest.SQL(t.Context(), ann, "SELECT 1"); err == nil; { // until the server has read the file
		_, err = postgrestest.SQL(t.Context(), ann, "SELECT 1")
	}
	o := &office{t: t, db: ann, env: []string{"PGPASSWORD=hers", "HOME=" + t.TempDir(), "XDG_STATE_HOME="}}
	o.run("init")
	taken := filepath.Join(t.TempDir(), "taken")
	deliver := func() string {
		t.Helper()
		o.run("send", "--recipient", "builder", "--message-type", "note")
		o.run("deliver_all")
		text, err := os.ReadFile(taken)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	o.run("agent", "add", "reader")
	o.run("agent", "add", "builder", "--deliver", "exec:mailroom agent list --json >'"+taken+"' 2>&1; true")
	if says := deliver(); !strings.Contains(says, "does not allow this user to connect") || !strings.Contains(says, "~/.pgpass") {
		t.Errorf("the command prints %s", says)
	}
	finding := func() string {
		t.Helper()
		for _, f := range o.run("doctor", "--quick")["findings"].([]any) {
			if of := f.(map[string]any); of["code"] == "passwords" {
				return fmt.Sprint(of["level"], " ", of["says"], " ", of["do"])
			}
		}
		return ""
	}
	if says := finding(); !strings.HasPrefix(says, "note ") ||
		!strings.Contains(says, "commands of builder cannot log in") || !strings.Contains(says, "~/.pgpass") {
		t.Errorf("doctor finds %q", says)
	}
	o.run("agent", "add", "builder", "--pass-env", "*,PGPASSWORD")
	if says := deliver(); !strings.Contains(says, `"name":"builder"`) {
		t.Errorf("with a list that lets it pass, the command prints %s", says)
	}
	if says := finding(); says != "" {
		t.Errorf("doctor still finds %q", says)
	}
}
