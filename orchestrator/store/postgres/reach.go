package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// How long and how often a server is tried that cannot be had just now: it is being restarted, or another takes its
// place.
const (
	firstPatience = 3 * time.Second // for one that this process has not reached yet, and which may not exist
	shortestPause = 50 * time.Millisecond
	longestPause  = 2 * time.Second
)

// reach connects. It tries again for a while if the server cannot be had just now, with growing pauses of random
// lengths, so that not all clients of a server that was restarted come at once.
func (s *Store) reach(ctx context.Context, config *pgconn.Config) (*conn, greeting, error) {
	until := time.Now().Add(patience(s))
	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		tried := time.Now()
		c, said, err := s.connect(ctx, config)
		if err == nil {
			s.outage.ended(s)
			return c, said, nil
		}
		if ctx.Err() != nil {
			return nil, greeting{}, store.GaveUp(ctx)
		}
		if !isAway(err) {
			return nil, greeting{}, err
		}
		s.outage.began(s, tried, err)
		if pause = min(pause, time.Until(until)); pause <= 0 {
			s.missed.Store(true)
			return nil, greeting{}, err
		}
		orchestrator.Pause(ctx, pause/2+rand.N(pause/2+1))
	}
}

// outage is the time in which a server that this process has reached before cannot be had. Its beginning and its end
// are logged, once, whoever notices. Safe for concurrent use.
type outage struct {
	mu    sync.Mutex
	since time.Time // zero while there is none
	over  time.Time // when the last one ended
}

// began notes that a try failed which was begun at a time. One that was begun before the last outage ended tells of
// that.
func (o *outage) began(s *Store, at time.Time, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s.found.Load() && o.since.IsZero() && at.After(o.over) && codeOf(err) != tooManyConnections {
		o.since = at
		s.log.Warn("cannot reach the server of the database", "database", s.path, "error", err)
	}
}

func (o *outage) ended(s *Store) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.since.IsZero() {
		s.log.Warn("the server of the database is available again", "database", s.path, "seconds",
			time.Since(o.since).Round(100*time.Millisecond).Seconds())
		o.since, o.over = time.Time{}, time.Now()
	}
}

// patience is how long a server is tried.
func patience(s *Store) time.Duration {
	if !s.found.Load() && s.missed.Load() {
		return 0 // this process has been patient already
	}
	if !s.found.Load() && len(s.hosts) == 1 {
		return min(s.busy, firstPatience)
	}
	return s.busy
}

// isAway reports whether an error in connecting may pass by itself.
func isAway(err error) bool {
	var unknown *net.DNSError
	switch code := codeOf(err); {
	case code == tooManyConnections:
		return true
	case code != "":
		return isLost(err) || isDemoted(err)
	case errors.As(err, &unknown) && unknown.IsNotFound:
		return false
	case isUntrusted(err): // it answers, and will not be trusted later on either
		return false
	}
	return isLost(err) || errors.Is(err, pgconn.ErrReadOnlyConnection)
}

// isUntrusted reports whether a server's certificate was refused, or it has none.
func isUntrusted(err error) bool {
	return strings.Contains(err.Error(), "tls:") || strings.Contains(err.Error(), "TLS")
}

// A connection over which nothing comes back is given up after about so long, instead of a quarter of an hour.
const silence = 10 * time.Second

// dial connects so that a host that has vanished is noticed.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: silence / 2, Interval: silence / 5,
		Count: 3}, Control: boundSilence}
	return d.DialContext(ctx, network, address)
}
