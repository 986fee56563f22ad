package ha

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A Fault is a failure of a cluster. Do returns when the failure has ended and has been repaired. The cluster need
// not be healthy yet.
type Fault struct {
	Name string
	Do   func(ctx context.Context, c *Cluster) error
}

// Faults lists the failures that a cluster survives.
var Faults = []Fault{
	{"the leader's postmaster killed", onLeader((*Node).killServer)},
	{"the leader's Patroni killed", onLeader((*Node).losePatroni)},
	{"the leader stopped for 40 s", onLeader((*Node).freeze)},
	{"the leader's clients reset", onLeader((*Node).resetClients)},
	{"the leader's answers 30 s late", onLeader((*Node).delay)},
	{"the leader's clients cut off for 30 s", onLeader((*Node).blackhole)},
	{"a switchover", onLeader((*Node).switchOver)},
	{"the leader's postmaster and Patroni killed", onLeader((*Node).crash)},
}

func onLeader(do func(*Node, context.Context) error) func(context.Context, *Cluster) error {
	return func(ctx context.Context, c *Cluster) error {
		n, err := c.Leader(ctx)
		if err != nil {
			return err
		}
		return do(n, ctx)
	}
}

// Durations of failures. long and thaws are longer than the cluster needs to elect another leader.
const (
	short = 10 * time.Second // until a failure that repairs itself has begun to do so
	long  = 30 * time.Second
	thaws = 40 * time.Second
)

// wait waits for d, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// losePatroni kills Patroni and starts it again later. In the meantime, the server still accepts writes, but no
// standby confirms them once another node leads.
func (n *Node) losePatroni(ctx context.Context) error {
	kill(n.patroni)
	wait(ctx, long)
	return n.startPatroni()
}

func (n *Node) crash(ctx context.Context) error {
	kill(n.patroni)
	if err := n.signalServer(syscall.SIGKILL, true); err != nil {
		return err
	}
	wait(ctx, long)
	return n.startPatroni()
}

// freeze stops all processes of a node. The kernel still accepts connections to it.
func (n *Node) freeze(ctx context.Context) error {
	n.patroni.Process.Signal(syscall.SIGSTOP)
	err := n.signalServer(syscall.SIGSTOP, true)
	wait(ctx, thaws)
	n.signalServer(syscall.SIGCONT, true)
	n.patroni.Process.Signal(syscall.SIGCONT)
	return err
}

func (n *Node) resetClients(ctx context.Context) error {
	n.Proxy.Reset()
	wait(ctx, short)
	return nil
}

func (n *Node) delay(ctx context.Context) error {
	n.Proxy.set(late)
	wait(ctx, long)
	n.Proxy.set(open)
	return nil
}

// blackhole interrupts the connections between the clients and the leader without closing them. The nodes continue to
// work.
func (n *Node) blackhole(ctx context.Context) error {
	n.Proxy.set(silent)
	wait(ctx, long)
	n.Proxy.Reset()
	n.Proxy.set(open)
	return nil
}

func (n *Node) switchOver(ctx context.Context) error {
	body := strings.NewReader(fmt.Sprintf(`{"leader": %q}`, n.Name))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url(n.api)+"/switchover", body)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Timeout: time.Minute}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the switchover was answered %s", response.Status)
	}
	wait(ctx, short)
	return nil
}

// signalServer sends a signal to the postmaster and, if all is set, to all its processes.
func (n *Node) signalServer(signal syscall.Signal, all bool) error {
	text, err := os.ReadFile(filepath.Join(n.path("data"), "postmaster.pid"))
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	postmaster, err := strconv.Atoi(first)
	if err != nil {
		return err
	}
	var children []int
	if all {
		children = childrenOf(postmaster)
	}
	err = syscall.Kill(postmaster, signal)
	for _, child := range children {
		syscall.Kill(child, signal) // the process may have ended
	}
	return err
}

// childrenOf lists the child processes of a process.
func childrenOf(parent int) (list []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, stat := range stats {
		text, err := os.ReadFile(stat)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		if len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(stat))); err == nil {
				list = append(list, pid)
			}
		}
	}
	return list
}

func (n *Node) killServer(ctx context.Context) error {
	err := n.signalServer(syscall.SIGKILL, false)
	wait(ctx, short)
	return err
}
