package postgres

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"mailroom/orchestrator"
)

// leader is what a process knows of which of several servers leads. One whose place another has taken may not know it
// and still call itself writable: its commits would never be confirmed. Of two that say so the one with the higher
// timeline leads, a number that goes up with each server that takes over. Safe for concurrent use.
type leader struct {
	mu       sync.Mutex
	at       int            // its place among the hosts
	timeline int64          // the highest that was seen
	conns    map[*conn]bool // to servers of this timeline; some are closed
}

// host is one of the servers in an address, with the ways to it: with TLS, and without.
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

// of returns a configuration that knows this host only.
func (h host) of(config *pgconn.Config) *pgconn.Config {
	only := config.Copy()
	only.Host, only.Port, only.TLSConfig, only.Fallbacks = h[0].Host, h[0].Port, h[0].TLSConfig, h[1:]
	return only
}

// headStart is how long a host is waited for before the next one is tried as well: one that stands still takes
// connections and answers none.
const headStart = 500 * time.Millisecond

// connect connects to the server, of several to the one that leads: first to that which led last. While one of them
// says nothing, those are asked again that do not lead: one of them may take the place of the other meanwhile.
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
	silent := map[int]bool{} // nothing was heard of them yet
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

// attempt is what came of connecting to one of several servers.
type attempt struct {
	at   int // its place among the hosts
	c    *conn
	said greeting
	err  error
}

// try connects to the server at a place among the hosts, if it leads where that is asked for.
func (s *Store) try(ctx context.Context, config *pgconn.Config, at int) attempt {
	c, said, err := s.connectAsTaken(ctx, config)
	if err == nil && said.timeline != 0 {
		err = leads(s, c, said.timeline, at)
	}
	return attempt{at, c, said, err}
}

// drop gives up the connections among the next n answers.
func drop(answers <-chan attempt, n int) {
	for range n {
		if a := <-answers; a.err == nil {
			a.c.Drop()
		}
	}
}

// leads notes the timeline of a server, and refuses it if another was seen to have taken its place. If it has itself
// taken another's, all connections to that are given up: what they show is no longer so.
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
	hangsAfter  = 3 * time.Second // the answer to a statement is late
	asksAgain   = time.Second     // how often each server is asked then
	asksForSoon = 2 * time.Second // for the answer
)

// watch asks all servers, from some time on and again and again, which of them leads, so that connections to one whose
// place another has taken are given up. stop ends it.
func (s *Store) watch(from, every time.Duration) (stop func()) {
	if len(s.hosts) == 1 || s.config.ValidateConnect == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	timer := time.AfterFunc(from, func() {
		for at := range s.hosts { // each by itself, since one may answer nothing
			orchestrator.GoSafe("looking for the primary server", s.log, func() {
				for ; ctx.Err() == nil; orchestrator.Pause(ctx, every) {
					s.ask(ctx, at)
				}
			})
		}
	})
	return func() { timer.Stop(); cancel() }
}

// ask asks the server at a place among the hosts whether it leads.
func (s *Store) ask(ctx context.Context, at int) {
	ctx, cancel := context.WithTimeout(ctx, asksForSoon)
	defer cancel()
	if a := s.try(ctx, s.hosts[at].of(s.config), at); a.err == nil {
		a.c.Close()
	}
}
