//go:build postgres && linux

package main

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"mailroom/orchestrator/store/postgres/postgrestest"
)

// network creates a network namespace for each of several hosts, connected only to this one by a cable, and programs
// that run mailroom there. It returns the addresses of this machine for the hosts.
func network(t *testing.T, names ...string) (addresses []string) {
	t.Helper()
	programs := t.TempDir()
	t.Setenv("PATH", programs+string(filepath.ListSeparator)+os.Getenv("PATH"))
	for _, name := range names {
		n := newNamespace(t)
		for file, script := range map[string]string{
			name + "-mailroom": "exec ip netns exec " + n.name + ` mailroom-hasty "$@"`,
			name + "-cable":    "exec ip -n " + n.name + " link set " + n.cable + ` "$1"`,
		} {
			if err := os.WriteFile(filepath.Join(programs, file), []byte("#!/bin/sh\n"+script+"\n"),
				0o700); err != nil {
				t.Fatal(err)
			}
		}
		addresses = append(addresses, n.here)
	}
	return addresses
}

// cable unplugs the cable of a host ("down") or plugs it in again ("up").
func cable(t *testing.T, host, state string) {
	t.Helper()
	if said, err := exec.Command(host+"-cable", state).CombinedOutput(); err != nil {
		t.Fatalf("the cable of %s: %v, %s", host, err, said)
	}
}

// The hosts share only a server's address. Messages that a host was delivering when its cable was unplugged are
// delivered by the other, and none twice. The first host continues once its cable is plugged in again.
func TestHostsInNamespaces(t *testing.T) {
	if os.Getuid() != 0 && os.Getenv("CI") == "" {
		t.Skip("only root can make network namespaces")
	}
	names := []string{"alpha", "beta"}
	addresses := network(t, names...)
	server := postgrestest.Start(t, "-c listen_addresses='"+addresses[0]+","+addresses[1]+"'")
	place, err := url.Parse(postgrestest.Place(server))
	if err != nil {
		t.Fatal(err)
	}
	hba, err := postgrestest.SQL(t.Context(), server, "SHOW hba_file")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(hba[0], []byte("local all all trust\nhost all all 10.213.0.0/16 trust\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := postgrestest.SQL(t.Context(), server, "SELECT pg_reload_conf()"); err != nil {
		t.Fatal(err)
	}
	f := &fleet{t: t, folder: t.TempDir(), hosts: map[string]*office{}}
	for i, name := range names {
		query := url.Values{"search_path": {place.Query().Get("search_path")}, "sslmode": {"disable"}}
		address := "postgres://postgres@" + addresses[i] + "/postgres?" + query.Encode()
		f.until("the server lets hosts in", func() bool {
			_, err := postgrestest.SQL(t.Context(), address, "SELECT 1")
			return err == nil
		})
		o := &office{t: t, db: address, program: name + "-mailroom"}
		o.env = []string{"MAILROOM_HOST_NAME=" + name, "HOME=" + t.TempDir(), "XDG_STATE_HOME="}
		f.hosts[name] = o
		o.run([]string{"init", "trust"}[i])
	}
	alpha, beta := f.hosts["alpha"], f.hosts["beta"]
	in := func(file string) string { return filepath.Join(f.folder, file) }
	alpha.run("agent", "add", "ann")
	alpha.run("agent", "add", "there", "--deliver", "jsonl:"+in("alpha"))
	beta.run("agent", "add", "there2", "--deliver", "jsonl:"+in("beta"))
	alpha.run("agent", "add", "slow", "--host", "", "--deliver", "exec:echo $MAILROOM_HOST_NAME >> "+in("slow")+
		"; until test -e "+in("go")+"; do sleep 0.1; done")
	for _, name := range names {
		f.hosts[name].serve()
	}
	send := func(from *office, recipient string) {
		t.Helper()
		from.run("send", "--sender", "ann", "--recipient", recipient, "--message-type", "note")
	}
	send(alpha, "there2")
	send(beta, "there")
	f.await("alpha", 1)
	f.await("beta", 1)

	send(alpha, "slow")
	cut := f.await("slow", 1)[0]
	cable(t, cut, "down")
	other := map[string]string{"alpha": "beta", "beta": "alpha"}[cut]
	if by := f.await("slow", 2); by[1] != other {
		t.Errorf("%s delivers although its cable was pulled: %s", cut, by)
	}
	if err := os.WriteFile(in("go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const delivered = `SELECT count(*) FROM message_trace JOIN agent_message USING (message_id) WHERE recipient = 'slow'
		AND event = 'delivered'`
	f.until("it is delivered", func() bool { return f.count(delivered) != "0" })
	agent := map[string]string{"alpha": "there", "beta": "there2"}[cut]
	send(f.hosts[other], agent)
	cable(t, cut, "up")
	f.await(cut, 2)
	if got := f.count(delivered); got != "1" {
		t.Errorf("it was delivered %s times", got)
	}
	if by := f.lines("slow"); len(by) != 2 {
		t.Errorf("it was run by %s", by)
	}
}
