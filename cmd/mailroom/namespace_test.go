package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
)

// ip runs the command that changes the network.
func ip(t *testing.T, args ...string) {
	t.Helper()
	if said, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %q: %v, %s", args, err, said)
	}
}

// namespace is a network namespace that acts as another machine, as far as networks are concerned.
type namespace struct {
	t             *testing.T
	name, cable   string // the cable is its network device
	address, here string // the address of the namespace, and that of this machine
}

// newNamespace creates a network namespace, and connects it with this one by a cable. It returns nil if only root
// could do that.
func newNamespace(t *testing.T) *namespace {
	t.Helper()
	if os.Getuid() != 0 && os.Getenv("CI") == "" {
		t.Log("NOT TESTED: over a network, since only root can make network namespaces")
		return nil
	}
	id := rand.Uint32N(1 << 14)
	net := func(host uint32) string { return fmt.Sprintf("10.213.%d.%d", id>>6, id&63<<2+host) }
	n := &namespace{t, fmt.Sprintf("mailroom-%04x", id), fmt.Sprintf("mr%04xt", id), net(2), net(1)}
	here := fmt.Sprintf("mr%04xh", id)
	ip(t, "netns", "add", n.name)
	t.Cleanup(func() { ip(t, "netns", "del", n.name) })
	ip(t, "link", "add", here, "type", "veth", "peer", "name", n.cable, "netns", n.name)
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", here).Run() })
	ip(t, "addr", "add", n.here+"/30", "dev", here)
	ip(t, "link", "set", here, "up")
	ip(t, "-n", n.name, "addr", "add", n.address+"/30", "dev", n.cable)
	ip(t, "-n", n.name, "link", "set", n.cable, "up")
	ip(t, "-n", n.name, "link", "set", "lo", "up")
	return n
}

// within makes a command run in the network. A nil namespace changes nothing.
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
