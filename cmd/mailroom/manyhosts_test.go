package main

import (
	"bufio"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store/postgres/postgrestest"
)

// hasty is the program with a shorter time before a process counts as dead.
func hasty() {
	options.Pulse = 500 * time.Millisecond
	os.Exit(run(config()))
}

// fleet is a number of hosts that use one database on a server. Each is an office with a name and a separate user
// folder. All use the same files, in which each writer can be recognized.
type fleet struct {
	t      *testing.T
	folder string
	hosts  map[string]*office
}

func newFleet(t *testing.T, names ...string) *fleet {
	t.Helper()
	address, err := url.Parse(postgrestest.Place(postgrestest.Start(t)))
	if err != nil {
		t.Fatal(err)
	}
	address.RawQuery = address.Query().Encode() // in the form that mailroom uses
	f := &fleet{t: t, folder: t.TempDir(), hosts: map[string]*office{}}
	for i, name := range names {
		o := &office{t: t, db: address.String(), program: "mailroom-hasty"}
		o.env = []string{"MAILROOM_HOST_NAME=" + name, "HOME=" + t.TempDir(), "XDG_STATE_HOME="}
		f.hosts[name] = o
		if i == 0 {
			o.run("init")
		} else {
			o.run("trust")
		}
	}
	return f
}

// lines returns the lines of a file that the hosts write.
func (f *fleet) lines(file string) []string {
	text, _ := os.ReadFile(filepath.Join(f.folder, file))
	return strings.Fields(string(text))
}

// until waits until a condition holds.
func (f *fleet) until(what string, is func() bool) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute+30*time.Second)
	defer cancel()
	for ; !is(); orchestrator.Pause(ctx, 20*time.Millisecond) {
		if ctx.Err() != nil {
			f.t.Fatalf("it does not come to this: %s", what)
		}
	}
}

// await waits until a file has n lines, and returns them.
func (f *fleet) await(file string, n int) []string {
	f.t.Helper()
	f.until(fmt.Sprintf("%s has %d lines", file, n), func() bool { return len(f.lines(file)) >= n })
	return f.lines(file)
}

// count returns the single result of a query.
func (f *fleet) count(query string) string {
	f.t.Helper()
	rows, err := postgrestest.SQL(f.t.Context(), f.hosts["alpha"].db, query)
	if err != nil || len(rows) != 1 {
		f.t.Fatalf("%s: %v, %v", query, rows, err)
	}
	return rows[0]
}

// Many hosts use one server: agents on one write to agents whose files, commands and sessions are on another, a
// message wakes a waiter on another host, a schedule runs once, and messages that a dead host was delivering are
// delivered by another.
func TestManyHosts(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "alpha", "beta", "gamma")
	in := func(file string) string { return filepath.Join(f.folder, file) }
	says := func(file string) string { return "echo $MAILROOM_HOST_NAME >> " + in(file) }
	send := func(sender, recipient string) (id string) {
		return fmt.Sprint(f.hosts["alpha"].run("send", "--sender", sender, "--recipient", recipient, "--message-type",
			"note")["message_id"])
	}
	alpha, beta, gamma := f.hosts["alpha"], f.hosts["beta"], f.hosts["gamma"]
	if _, err := postgrestest.SQL(t.Context(), alpha.db, `ALTER ROLE mailroom_audit NOLOGIN`); err != nil {
		t.Fatal(err)
	}
	if note := fmt.Sprint(alpha.run("init")["note"]); !strings.Contains(note, "`mailroom sql` does not work yet") ||
		!strings.Contains(note, "CREATE ROLE mailroom_audit") {
		t.Errorf("init says %q of a server whose user of audits cannot enter", note)
	}
	alpha.run("agent", "add", "ann")
	alpha.run("agent", "add", "wes")
	beta.run("agent", "add", "filed", "--deliver", "jsonl:"+in("filed"))
	beta.run("agent", "add", "command", "--deliver", "exec:"+says("command"))
	beta.run("agent", "add", "session", "--start", says("session"))
	alpha.run("agent", "add", "slow", "--host", "", "--deliver", "exec:"+says("slow")+"; until test -e "+in("go")+
		"; do sleep 0.1; done")
	alpha.run("schedule", "add", "tick", "--spec", "* * * * *", "--command", "send", "--params",
		`{"sender":"ann","recipient":"ann","message_type":"tick"}`)
	said, err := alpha.command("send", "filed", "early", "--as", "ann", "--output", "text").Output()
	if err != nil ||
		!strings.Contains(string(said),
			"No daemon is running on beta, the only host that delivers to filed. To deliver the message, run `mailroom serve` on that host.") {
		t.Errorf("what is sent to a host without a daemon: %s, %v", said, err)
	}
	serving := map[string]*serving{}
	for name, host := range f.hosts {
		serving[name] = host.serve()
	}
	for _, agent := range []string{"filed", "command", "session"} {
		send("ann", agent)
	}
	f.await("filed", 2)
	for _, file := range []string{"command", "session"} {
		if by := f.await(file, 1); by[0] != "beta" {
			t.Errorf("what belongs to beta was run on %s", by)
		}
	}

	waiter := gamma.command("wait", "--recipient", "wes", "--timeout", "60")
	out, err := waiter.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := waiter.Start(); err != nil {
		t.Fatal(err)
	}
	sent := send("filed", "wes")
	line, err := bufio.NewReader(out).ReadString('\n')
	if werr := waiter.Wait(); err != nil || werr != nil || !strings.Contains(line, sent) {
		t.Errorf("a waiter on another host: %s, %v, %v", line, err, werr)
	}

	slow := send("ann", "slow")
	dead := f.await("slow", 1)[0]
	if err := serving[dead].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	f.hosts[dead].run("agent", "add", "own", "--deliver", "jsonl:"+in("own"))
	send("ann", "own")
	by := f.await("slow", 2)
	if by[1] == dead {
		t.Errorf("a host that was killed goes on: %s", by)
	}
	if err := os.WriteFile(in("go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if len(f.lines("own")) > 0 {
		t.Errorf("another host has written %s's file", dead)
	}
	f.hosts[dead].serve()
	f.await("own", 1)
	const ticks = `SELECT count(*) FROM agent_message WHERE message_type = 'tick'`
	f.until("a schedule runs", func() bool { return f.count(ticks) != "0" })
	for query, want := range map[string]string{
		`SELECT count(*) - count(DISTINCT left(created_at, 16)) FROM agent_message
			WHERE message_type = 'tick'`: "0",
		`SELECT count(DISTINCT host)
			FROM daemons`: "3",
		`SELECT crashes FROM agent_message WHERE message_id = '` + slow +
			`'`: "1",
		`SELECT count(*) FROM message_trace WHERE event = 'failed'
			OR event = 'attempt_failed'`: "0",
		`SELECT string_agg(name || ' ' || host, ',' ORDER BY name) FROM agents WHERE name <> 'slow' AND host <> ''
			AND name <> 'own'`: "command beta,filed beta,session beta",
	} {
		if got := f.count(query); got != want {
			t.Errorf("%s: %s, not %s", query, got, want)
		}
	}
	if !slices.Contains(f.lines("command"), "beta") || len(f.lines("command")) != 1 {
		t.Errorf("the command ran %q", f.lines("command"))
	}
}
