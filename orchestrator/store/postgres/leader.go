package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"mailroom/orchestrator"
)

// leader records which of several servers is the primary. A server that another one has replaced may not have
// noticed, and still report itself as writable, although its commits would never be confirmed. Of two such servers,
// the one with the higher timeline is the primary; the timeline goes up with each takeover. leader is safe for
// concurrent use.
type leader struct {
	mu       sync.Mutex
	at       int            // index of the primary in the list of hosts
	timeline int64          // the highest timeline seen so far
	conns    map[*conn]bool // connections to servers of this timeline; some may be closed
}

// host is one of the servers in an address, with the ways to connect to it: with TLS and without.
type host []*pgconn.FallbackConfig

// hostsOf lists the servers in an address.
func hostsOf(config *pgconn.Config) (list []host) {
	ways := append([]*pgconn.FallbackConfig{{Host: config.Host, Port: config.Port, TLSConfig: config.TLSConfig}},
		config.Fallbacks...)
	for i, way := range ways {
		if i > 0 && way.Host == ways[i-1].Host && way.Port == ways[i-1].Port {
			list[len(list)-1] = append(list[len(list)-1], way)
		} else {
			list = append(list, host{way})
		}
	}
	return list
}

// of returns a copy of config with this host only.
func (h host) of(config *pgconn.Config) *pgconn.Config {
	only := config.Copy()
	only.Host, only.Port, only.TLSConfig, only.Fallbacks = h[0].Host, h[0].Port, h[0].TLSConfig, h[1:]
	return only
}

// headStart is how long connect waits for a host before it also tries the next one. A server that hangs accepts
// connections and does not answer.
const headStart = 500 * time.Millisecond

// connect connects to the server, or to the primary of several. It first tries the last primary. While one of the
// servers does not answer, connect keeps asking the servers that are not the primary, since one of them may take
// over meanwhile.
func (s *Store) connect(ctx context.Context, config *pgconn.Config) (*conn, greeting, error) {
	hosts := hostsOf(config)
	if len(hosts) == 1 {
		return s.connectAsTaken(ctx, config)
	}
	s.leader.mu.Lock()
	first := s.leader.at
	s.leader.mu.Unlock()
	answers, waiting := make(chan attempt, len(hosts)), 0
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		orchestrator.GoSafe("closing late connections", s.log, func() { drop(answers, waiting) })
	}()
	try := func(at int, after time.Duration) {
		orchestrator.GoSafe("connecting to a server", s.log, func() {
			orchestrator.Pause(ctx, after)
			answers <- s.try(ctx, hosts[at].of(config), at)
		})
	}
	var failure error
	silent := map[int]bool{} // servers that have not answered yet
	for at := range hosts {
		silent[at] = true
	}
	for tried := 0; len(silent) > 0; {
		var next <-chan time.Time
		if tried < len(hosts) {
			at := (first + tried) % len(hosts)
			try(at, 0)
			tried, waiting, next = tried+1, waiting+1, time.After(headStart)
		}
		select {
		case a := <-answers:
			waiting--
			if a.err == nil {
				return a.c, a.said, nil
			}
			if failure == nil || !isAway(a.err) {
				failure = a.err
			}
			if delete(silent, a.at); len(silent) > 0 && isAway(a.err) {
				try(a.at, asksAgain)
				waiting++
			}
		case <-next:
		}
	}
	return nil, greeting{}, failure
}

// attempt is the result of connecting to one of several servers.
type attempt struct {
	at   int // index in the list of hosts
	c    *conn
	said greeting
	err  error
}

// try connects to the server with this index. If the primary is asked for, it accepts only the primary.
func (s *Store) try(ctx context.Context, config *pgconn.Config, at int) attempt {
	c, said, err := s.connectAsTaken(ctx, config)
	if err == nil && said.timeline != 0 {
		err = leads(s, c, said.timeline, at)
	}
	return attempt{at, c, said, err}
}

// drop closes the connections in the next n answers.
func drop(answers <-chan attempt, n int) {
	for range n {
		if a := <-answers; a.err == nil {
			a.c.Drop()
		}
	}
}

// leads records the timeline of a server, and refuses the server if another one has taken its place. If this server
// has taken the place of another, leads closes all connections to the other one, whose data is no longer current.
func leads(s *Store, c *conn, timeline int64, at int) error {
	l := &s.leader
	l.mu.Lock()
	defer l.mu.Unlock()
	if timeline < l.timeline {
		c.Drop()
		return fmt.Errorf("another server has become the primary: %w", pgconn.ErrReadOnlyConnection)
	}
	for other := range l.conns {
		if timeline > l.timeline {
			other.Drop()
		}
		if timeline > l.timeline || other.IsOver() {
			delete(l.conns, other)
		}
	}
	l.at, l.timeline = at, timeline
	l.conns[c] = true
	return nil
}

const (
	hangsAfter  = 3 * time.Second // a statement without an answer after this time is late
	asksAgain   = time.Second     // interval at which each server is then asked
	asksForSoon = 2 * time.Second // time limit for the answer
)

// watch asks all servers repeatedly, beginning after the time from, which of them is the primary. Connections to a
// server that another one has replaced are thereby closed. stop ends the watch.
func (s *Store) watch(from, every time.Duration) (stop func()) {
	if len(s.hosts) == 1 || s.config.ValidateConnect == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	timer := time.AfterFunc(from, func() {
		for at := range s.hosts { // each in its own goroutine, since a server may not answer
			orchestrator.GoSafe("looking for the primary server", s.log, func() {
				for ; ctx.Err() == nil; orchestrator.Pause(ctx, every) {
					s.ask(ctx, at)
				}
			})
		}
	})
	return func() { timer.Stop(); cancel() }
}

// ask asks the server with this index whether it is the primary.
func (s *Store) ask(ctx context.Context, at int) {
	ctx, cancel := context.WithTimeout(ctx, asksForSoon)
	defer cancel()
	if a := s.try(ctx, s.hosts[at].of(s.config), at); a.err == nil {
		a.c.Close()
	}
}
