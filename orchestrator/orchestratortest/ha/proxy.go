package ha

import (
	"fmt"
	"net"
	"sync"
	"time"
)

// state determines how a proxy handles data.
type state int

const (
	open   state = iota
	silent       // holds all data back, without closing connections
	late         // passes data on half a minute later
)

// Proxy passes data between clients and a node. It is safe for concurrent use.
type Proxy struct {
	listener net.Listener
	server   string

	mu      sync.Mutex
	state   state
	changed chan struct{} // closed when the state changes
	conns   map[net.Conn]bool
}

func newProxy(port int) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: listener, server: fmt.Sprintf("127.0.0.1:%d", port), changed: make(chan struct{}),
		conns: map[net.Conn]bool{}}
	go func() {
		defer func() { recover() }()
		p.accept()
	}()
	return p, nil
}

// Address returns the address to which clients connect.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

func (p *Proxy) set(s state) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = s
	close(p.changed)
	p.changed = make(chan struct{})
}

// Reset resets all connections.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			tcp.SetLinger(0)
		}
		c.Close()
	}
}

func (p *Proxy) close() {
	p.listener.Close()
	p.Reset()
}

func (p *Proxy) keep(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = true
}

func (p *Proxy) drop(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	c.Close()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { recover() }()
			p.serve(client)
		}()
	}
}

func (p *Proxy) serve(client net.Conn) {
	p.keep(client)
	defer p.drop(client)
	if !p.passes() {
		return
	}
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	p.keep(server)
	defer p.drop(server)
	go func() {
		defer func() { recover() }()
		defer p.drop(client)
		p.copy(client, server)
	}()
	p.copy(server, client)
}

// copy passes data on from one connection to the other.
func (p *Proxy) copy(to, from net.Conn) {
	for buffer := make([]byte, 64<<10); ; {
		n, err := from.Read(buffer)
		if n > 0 {
			if !p.passes() {
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// lateness is the delay of the state late.
const lateness = 30 * time.Second

// passes waits until data may be passed on, and returns true.
func (p *Proxy) passes() bool {
	began := time.Now()
	for {
		p.mu.Lock()
		s, changed := p.state, p.changed
		p.mu.Unlock()
		wait := 24 * time.Hour
		switch {
		case s == open:
			return true
		case s == late:
			if wait = lateness - time.Since(began); wait <= 0 {
				return true
			}
		}
		select {
		case <-changed:
		case <-time.After(wait):
		}
	}
}
