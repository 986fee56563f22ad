package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// namespace is a network namespace for what runs on another machine, as far as networks can tell.
type namespace struct {
	t             *testing.T
	name, address string
}

// newNamespace makes a network namespace, and connects it with this one. It is nil where the test does not run as root.
func newNamespace(t *testing.T) *namespace {
	t.Helper()
	if os.Getuid() != 0 {
		t.Log("NOT TESTED: over a network, since only root can make one")
		return nil
	}
	if _, err := exec.LookPath("ip"); err != nil && os.Getenv("CI") == "" {
		t.Log("NOT TESTED: over a network: ", err)
		return nil
	}
	id := rand.Uint32N(1 << 16)
	n := &namespace{t, fmt.Sprintf("mailroom-%04x", id), fmt.Sprintf("10.%d.%d.2", 128+id>>8%64, id&255)}
	here, there := fmt.Sprintf("mr%04xa", id), fmt.Sprintf("mr%04xb", id)
	ip := func(line string) {
		t.Helper()
		if out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", line, err, out)
		}
	}
	ip("netns add " + n.name)
	t.Cleanup(func() { ip("netns delete " + n.name) })
	ip("link add " + here + " type veth peer name " + there + " netns " + n.name)
	ip("addr add " + strings.TrimSuffix(n.address, "2") + "1/30 dev " + here)
	ip("link set " + here + " up")
	ip("-n " + n.name + " addr add " + n.address + "/30 dev " + there)
	ip("-n " + n.name + " link set " + there + " up")
	ip("-n " + n.name + " link set lo up")
	return n
}

// within has a command run in the network. nil changes nothing.
func (n *namespace) within(cmd *exec.Cmd) *exec.Cmd {
	if n == nil {
		return cmd
	}
	in := exec.Command("ip", append([]string{"netns", "exec", n.name, cmd.Path}, cmd.Args[1:]...)...)
	in.Dir, in.Env = cmd.Dir, cmd.Env
	return in
}

// start starts a command in the network, which ends with the test.
func (n *namespace) start(cmd *exec.Cmd) {
	n.t.Helper()
	cmd = n.within(cmd)
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
}
