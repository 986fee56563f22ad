// Package ha runs a cluster of PostgreSQL servers on this machine, configured to survive the loss of its leader. The
// cluster has three nodes of Debian's Patroni with Debian's etcd, in strict synchronous mode, so that an acknowledged
// commit is on two nodes. Clients connect to the nodes through proxies, which can interrupt the connections.
//
// Patroni 3.0.2, Debian's version, uses etcd's v2 API. With the etcd3 API, it once allowed a leader that had been
// stopped to become the leader again.
package ha

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Cluster is a cluster of three nodes, with their etcd. Only one goroutine may call its methods.
type Cluster struct {
	Nodes []*Node

	folder string
	bin    string // the folder of the server's programs
	as     *syscall.Credential
	etcd   *exec.Cmd
	web    http.Client
}

// Node is one of the servers, with its Patroni.
type Node struct {
	Name  string
	Proxy *Proxy

	c       *Cluster
	port    int // of PostgreSQL
	api     int // of Patroni
	patroni *exec.Cmd
}

// Missing returns an error that names a required program that is not installed, or nil.
func Missing() error {
	for _, program := range []string{"patroni", "etcd"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("there is no %s: install Debian's packages patroni, etcd-server and postgresql (`make cluster`)", program)
		}
	}
	if servers, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres"); len(servers) == 0 {
		return errors.New("there is no PostgreSQL server: install Debian's package postgresql (`make database`)")
	}
	return nil
}

// Start starts a cluster in a new folder, and returns when the cluster accepts writes on two nodes.
func Start(ctx context.Context) (*Cluster, error) {
	servers, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(servers) == 0 {
		return nil, errors.New("there is no PostgreSQL server")
	}
	c := &Cluster{bin: filepath.Dir(servers[len(servers)-1]), web: http.Client{Timeout: 2 * time.Second}}
	if c.folder, err = os.MkdirTemp("", "ha"); err != nil {
		return nil, err
	}
	if err := c.prepare(); err != nil {
		return c, err
	}
	return c, c.Healthy(ctx)
}

func (c *Cluster) prepare() error {
	if os.Getuid() == 0 { // PostgreSQL does not start as root
		u, err := user.Lookup("nobody")
		if err != nil {
			return err
		}
		uid, _ := strconv.ParseUint(u.Uid, 10, 32)
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return err
		}
		c.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(c.folder, int(uid), int(gid)); err != nil {
			return err
		}
	}
	ports, err := freePorts(8)
	if err != nil {
		return err
	}
	client, peer := ports[6], ports[7]
	c.etcd, err = c.start("etcd", "etcd", "--enable-v2", "--data-dir", filepath.Join(c.folder, "etcd"), "--log-level",
		"error",
		"--listen-client-urls", url(client), "--advertise-client-urls", url(client), "--listen-peer-urls", url(peer),
		"--initial-advertise-peer-urls", url(peer), "--initial-cluster", "default="+url(peer))
	if err != nil {
		return err
	}
	for i := range 3 {
		n := &Node{Name: fmt.Sprint("node", i+1), c: c, port: ports[2*i], api: ports[2*i+1]}
		if n.Proxy, err = newProxy(n.port); err != nil {
			return err
		}
		c.Nodes = append(c.Nodes, n)
		if err := os.WriteFile(n.path("yml"), []byte(n.config(client)), 0o644); err != nil {
			return err
		}
		if err := n.startPatroni(); err != nil {
			return err
		}
	}
	return nil
}

func url(port int) string { return fmt.Sprintf("http://127.0.0.1:%d", port) }

// freePorts returns ports of the loopback interface that are currently unused.
func freePorts(n int) (ports []int, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// start starts a program whose output goes into a log file in the folder.
func (c *Cluster) start(name, program string, args ...string) (*exec.Cmd, error) {
	log, err := os.OpenFile(filepath.Join(c.folder, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.folder, log, log
	cmd.Env = append(os.Environ(), "HOME="+c.folder, "PGPASSFILE="+filepath.Join(c.folder, "pgpass"), "LC_ALL=C.UTF-8")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.as, Setpgid: true}
	return cmd, cmd.Start()
}

func (n *Node) path(kind string) string { return filepath.Join(n.c.folder, n.Name+"."+kind) }

// config returns Patroni's configuration, with the shortest times that Patroni accepts.
func (n *Node) config(etcd int) string {
	return fmt.Sprintf(`scope: mailroom
name: %[1]s
restapi: {listen: '127.0.0.1:%[2]d', connect_address: '127.0.0.1:%[2]d'}
etcd: {host: '127.0.0.1:%[3]d'}
bootstrap:
  dcs:
    ttl: 20
    loop_wait: 2
    retry_timeout: 5
    synchronous_mode: true
    synchronous_mode_strict: true
    postgresql:
      use_pg_rewind: true
      parameters: {max_connections: 300, wal_keep_size: 256MB, shared_buffers: 32MB}
  initdb: [{encoding: UTF8}, {locale: C}, {auth: trust}]
  pg_hba: ['local all all trust', 'host all all 127.0.0.1/32 trust', 'host replication all 127.0.0.1/32 trust']
postgresql:
  listen: '127.0.0.1:%[4]d'
  connect_address: '127.0.0.1:%[4]d'
  data_dir: '%[5]s'
  bin_dir: '%[6]s'
  pgpass: '%[7]s'
  authentication: {superuser: {username: postgres}, replication: {username: postgres}, rewind: {username: postgres}}
  parameters: {unix_socket_directories: '%[8]s'}
`, n.Name, n.api, etcd, n.port, n.path("data"), n.c.bin, n.path("pgpass"), n.c.folder)
}

func (n *Node) startPatroni() (err error) {
	n.patroni, err = n.c.start(n.Name, "patroni", n.path("yml"))
	return err
}

// Address returns the address of a database on the cluster, through the proxies.
func (c *Cluster) Address() string {
	var hosts []string
	for _, n := range c.Nodes {
		hosts = append(hosts, n.Proxy.Address())
	}
	return "postgres://postgres@" + strings.Join(hosts, ",") +
		"/postgres?sslmode=disable&target_session_attrs=read-write"
}

// member is Patroni's description of a node.
type member struct {
	Name, Role, State string
	Lag               any
}

// members returns the members of the cluster according to the first Patroni that answers.
func (c *Cluster) members(ctx context.Context) (list []member) {
	for _, n := range c.Nodes {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url(n.api)+"/cluster", nil)
		if err != nil {
			return nil
		}
		response, err := c.web.Do(request)
		if err != nil {
			continue
		}
		var answer struct{ Members []member }
		err = json.NewDecoder(response.Body).Decode(&answer)
		response.Body.Close()
		if err == nil {
			return answer.Members
		}
	}
	return nil
}

// Healthy waits until one node leads and both others follow it, one of them synchronously.
func (c *Cluster) Healthy(ctx context.Context) error {
	var last []member
	for {
		last = c.members(ctx)
		leaders, synchronous, following := 0, 0, 0
		for _, m := range last {
			well := m.State == "running" || m.State == "streaming"
			switch {
			case m.Role == "leader" && well:
				leaders++
			case m.Role == "sync_standby" && well:
				synchronous++
			case well:
				following++
			}
		}
		if leaders == 1 && synchronous == 1 && following == 1 {
			return nil
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the cluster does not become healthy: %+v", last)
		}
	}
}

// Leader returns the leading node.
func (c *Cluster) Leader(ctx context.Context) (*Node, error) {
	for _, m := range c.members(ctx) {
		for _, n := range c.Nodes {
			if m.Role == "leader" && m.Name == n.Name {
				return n, nil
			}
		}
	}
	return nil, errors.New("no node leads")
}

// Logs returns the ends of the nodes' logs.
func (c *Cluster) Logs() string {
	var b bytes.Buffer
	for _, n := range c.Nodes {
		text, _ := os.ReadFile(n.path("log"))
		fmt.Fprintf(&b, "%s:\n%s\n", n.Name, text[max(0, len(text)-4000):])
	}
	return b.String()
}

// Keep copies the logs and a dump of the database into an existing folder, where they outlast Stop.
func (c *Cluster) Keep(ctx context.Context, folder string) error {
	var failed error
	for _, n := range c.Nodes {
		text, err := os.ReadFile(n.path("log"))
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, n.Name+".log"), text, 0o600)
		}
		failed = errors.Join(failed, err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	leader, err := c.Leader(ctx)
	if err != nil {
		return errors.Join(failed, err)
	}
	dump := exec.CommandContext(ctx, filepath.Join(c.bin, "pg_dump"), "--host", "127.0.0.1",
		"--port", strconv.Itoa(leader.port), "--username", "postgres", "--file", filepath.Join(folder, "database.sql"),
		"postgres")
	if out, err := dump.CombinedOutput(); err != nil {
		failed = errors.Join(failed, fmt.Errorf("pg_dump: %w: %s", err, out))
	}
	return failed
}

// Stop kills all processes and removes the folder.
func (c *Cluster) Stop() {
	for _, n := range c.Nodes {
		n.Proxy.close()
		kill(n.patroni)
	}
	for _, n := range c.Nodes {
		n.signalServer(syscall.SIGKILL, true)
	}
	kill(c.etcd)
	os.RemoveAll(c.folder)
}

func kill(cmd *exec.Cmd) {
	if cmd != nil && cmd.Process != nil {
		cmd.Process.Kill()
		cmd.Wait()
	}
}
