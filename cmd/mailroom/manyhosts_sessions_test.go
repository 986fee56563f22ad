package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A session of an agent that any host may start runs on one of them, although the daemons of both are notified of its
// messages at the same time.
func TestSessionsOnManyHosts(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "alpha", "beta")
	alpha := f.hosts["alpha"]
	in := func(file string) string { return filepath.Join(f.folder, file) }
	alpha.run("agent", "add", "ann")
	const agents = 8
	name := func(i int) string { return fmt.Sprint("shared", i) }
	for i := range agents {
		command := "echo $MAILROOM_HOST_NAME >> " + in(name(i)) + "; until test -e " + in("go") +
			"; do sleep 0.1; done; echo over >> " + in("over")
		alpha.run("agent", "add", name(i), "--host", "", "--start", command)
	}
	for host, o := range f.hosts {
		o.run("agent", "add", "filed-"+host, "--deliver", "jsonl:"+in(host))
		o.serve()
	}
	send := func(recipient string) {
		t.Helper()
		alpha.run("send", "--sender", "ann", "--recipient", recipient, "--message-type", "note")
	}
	for round := range 3 { // the later ones come while the sessions run
		for i := range agents {
			send(name(i))
		}
		for host := range f.hosts { // each daemon has made a round since
			send("filed-" + host)
			f.await(host, round+1)
		}
		for i := range agents {
			if by := f.await(name(i), 1); len(by) != 1 {
				t.Fatalf("round %d: the session of %s was started by %s", round, name(i), by)
			}
		}
	}
	if got := f.count(`SELECT count(*) FROM agent_runs WHERE state = 'running'`); got != fmt.Sprint(agents) {
		t.Errorf("%s sessions run", got)
	}
	if err := os.WriteFile(in("go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.await("over", agents)
}
