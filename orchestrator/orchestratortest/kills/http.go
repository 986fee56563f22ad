package kills

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"
)

// daemon is a running `mailroom serve`.
type daemon struct {
	*reader
	address string // host and port
	reading sync.WaitGroup
}

func (o *office) startDaemon() (*daemon, error) {
	r, err := o.start(false, "serve", "--listen", "127.0.0.1:0", "--log-level", "error")
	if err != nil {
		return nil, err
	}
	d := &daemon{reader: r}
	line, err := r.lines.ReadBytes('\n')
	var told struct{ Listening string }
	if err == nil {
		err = json.Unmarshal(line, &told)
	}
	if err != nil {
		_, kerr := r.end(false)
		return nil, errors.Join(fmt.Errorf("a daemon began with %q: %w: %s", line, err, r.errors.Bytes()), kerr,
			r.out.Close())
	}
	d.address = strings.TrimPrefix(told.Listening, "http://")
	d.reading.Go(func() { io.Copy(io.Discard, r.lines) })
	return d, nil
}

// stop kills the daemon. If spared is set, stop asks the daemon to end instead, which the daemon must do with status
// 0.
func (d *daemon) stop(spared bool) error {
	if spared {
		d.cmd.Process.Signal(syscall.SIGTERM)
	}
	_, err := d.end(spared)
	d.reading.Wait()
	return errors.Join(err, d.out.Close())
}

// request returns the HTTP request of a door.
type request func(o *office, d *door, a *agent) string

func post(path, token, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"+
		"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-06-18\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s",
		path, token, len(body), body)
}

func requestOfCommand(o *office, d *door, a *agent) string {
	return post("/v1/commands/"+d.tool, a.token, d.args(o, a))
}

func requestOfTool(o *office, d *door, a *agent) string {
	return post("/mcp", a.token, callOf(o, d, a))
}

// client is a connection with one request.
type client struct {
	conn    *net.TCPConn
	agent   *agent
	began   time.Time
	over    chan struct{} // closed when the server has closed its direction
	reading sync.WaitGroup
	text    []byte
}

func (d *daemon) ask(a *agent, request string) (*client, error) {
	conn, err := net.Dial("tcp", d.address)
	if err != nil {
		return nil, err
	}
	c := &client{conn: conn.(*net.TCPConn), agent: a, began: time.Now(), over: make(chan struct{})}
	_, err = io.WriteString(conn, request)
	return c, err
}

// read reads until the server has closed its direction.
func (c *client) read() {
	c.text, _ = io.ReadAll(c.conn)
	close(c.over)
}

// errBusy means that the daemon ended before it handled the request.
var errBusy = errors.New("the daemon was busy")

// answers parses the answers from the connection. It returns an error if the request was refused.
func (c *client) answers() (list []answer, err error) {
	res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(c.text)), nil)
	if err != nil {
		return []answer{{c.agent.name, c.text, false}}, nil // cut off
	}
	body, err := io.ReadAll(res.Body)
	if res.StatusCode == http.StatusServiceUnavailable {
		return nil, fmt.Errorf("%w: %s", errBusy, body)
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d: %s", res.StatusCode, body)
	}
	if err == nil && json.Valid(body) {
		return []answer{{c.agent.name, body, true}}, nil
	}
	for {
		event, rest, whole := bytes.Cut(body, []byte("\n\n"))
		if bytes.Contains(event, []byte(`"isError":true`)) {
			if bytes.Contains(event, []byte(`"error":"busy"`)) {
				return nil, fmt.Errorf("%w: %.300s", errBusy, event)
			}
			return nil, fmt.Errorf("the tool fails: %.300s", event)
		}
		list = append(list, answer{c.agent.name, event, whole})
		if body = rest; !whole {
			return list, nil
		}
	}
}

// byClient returns a way in which the client of a request to the daemon closes the connection.
func byClient(request request) func(o *office, d *door, v *visit) (outcome, error) {
	return func(o *office, d *door, v *visit) (out outcome, err error) {
		c, err := o.daemon.ask(v.agent, request(o, d, v.agent))
		if err != nil {
			return out, err
		}
		defer c.conn.Close()
		if !v.stuck {
			c.reading.Go(c.read)
		}
		if d.arriving {
			pause(o.ctx, v.before)
			c.began = time.Now()
			err = o.feed(d, v)
		}
		if err == nil {
			out.took = until(o, c.over, c.began, v.moment)
		}
		c.conn.CloseWrite()
		if v.stuck {
			c.read()
		}
		c.reading.Wait()
		out.killed = out.took == 0
		if !out.killed || len(c.text) > 0 {
			var refused error
			out.answers, refused = c.answers()
			if !out.killed { // a client that left may get any answer
				err = errors.Join(err, refused)
			}
		}
		return out, err
	}
}

// byDeserter returns a way in which the client of a request to the daemon closes the connection in both directions
// while there are no messages. Then a message is sent. This way uses an agent of its own, so that no message can
// arrive earlier: a message on its way to the client would be lost unseen.
func byDeserter(request request) func(o *office, d *door, v *visit) (outcome, error) {
	return func(o *office, d *door, v *visit) (out outcome, err error) {
		o.deserting.Lock()
		defer o.deserting.Unlock()
		v.agent = o.deserter
		if err := o.drain(v.agent); err != nil {
			return out, err
		}
		c, err := o.daemon.ask(v.agent, request(o, d, v.agent))
		if err != nil {
			return out, err
		}
		pause(o.ctx, v.before)
		c.conn.SetLinger(0)
		out.killed, out.took = true, time.Since(c.began)
		return out, errors.Join(c.conn.Close(), o.feed(d, v))
	}
}

// atOnce is the maximum number of active requests of a daemon that is killed.
const atOnce = 3

// byDaemon returns a way that sends requests to a separate daemon, and kills the daemon.
func byDaemon(request request) func(o *office, d *door, v *visit) (outcome, error) {
	return func(o *office, d *door, v *visit) (out outcome, err error) {
		s, err := o.startDaemon()
		if err != nil {
			return out, err
		}
		var clients []*client
		defer func() {
			for _, c := range clients {
				c.conn.Close()
			}
		}()
		asked := []*agent{v.agent}
		for range v.random.IntN(atOnce) {
			asked = append(asked, o.agents[v.random.IntN(len(o.agents))])
		}
		for _, a := range asked {
			c, aerr := s.ask(a, request(o, d, a))
			if aerr != nil {
				err = errors.Join(err, aerr)
				break
			}
			clients = append(clients, c)
			if !v.stuck {
				c.reading.Go(c.read)
			}
		}
		if err == nil {
			out.took = until(o, clients[0].over, clients[0].began, v.moment)
		}
		kerr := s.stop(v.spared)
		out.killed = !v.spared
		for _, c := range clients {
			if v.stuck {
				c.read()
			}
			c.reading.Wait()
			answers, refused := c.answers()
			out.answers = append(out.answers, answers...)
			if !errors.Is(refused, errBusy) {
				err = errors.Join(err, refused)
			}
		}
		return out, errors.Join(err, kerr)
	}
}
