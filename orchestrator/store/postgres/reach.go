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

// How long and how often to try a server that is temporarily unavailable because it is being restarted or replaced.
const (
	firstPatience = 3 * time.Second // for a server that this process has not reached yet, and that may not exist
	shortestPause = 50 * time.Millisecond
	longestPause  = 2 * time.Second
)

// reach connects. If the server is temporarily unavailable, reach tries again for a while. The pauses grow and have
// random lengths, so that the clients of a restarted server do not all connect at once.
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

// outage is the time during which a server that this process has reached before is unavailable. Its beginning and
// end are logged once. outage is safe for concurrent use.
type outage struct {
	mu    sync.Mutex
	since time.Time // zero if there is no outage
	over  time.Time // end of the last outage
}

// began records a failed attempt that started at the given time. An attempt that started before the end of the last
// outage belongs to that outage and is ignored.
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

// patience returns how long to try to reach a server.
func patience(s *Store) time.Duration {
	if !s.found.Load() && s.missed.Load() {
		return 0 // this process has already waited once
	}
	if !s.found.Load() && len(s.hosts) == 1 {
		return min(s.busy, firstPatience)
	}
	return s.busy
}

// isAway reports whether an error in connecting may be temporary.
func isAway(err error) bool {
	var unknown *net.DNSError
	switch code := codeOf(err); {
	case code == tooManyConnections:
		return true
	case code != "":
		return isLost(err) || isDemoted(err)
	case errors.As(err, &unknown) && unknown.IsNotFound:
		return false
	case isUntrusted(err): // the server answers, and will not be trusted later either
		return false
	}
	return isLost(err) || errors.Is(err, pgconn.ErrReadOnlyConnection)
}

// isUntrusted reports whether the certificate of a server was refused, or the server has none.
func isUntrusted(err error) bool {
	return strings.Contains(err.Error(), "tls:") || strings.Contains(err.Error(), "TLS")
}

// silence is about how long a connection without any answer is kept. The default would be a quarter of an hour.
const silence = 10 * time.Second

// dial connects so that the loss of a host is detected.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: silence / 2, Interval: silence / 5,
		Count: 3}, Control: boundSilence}
	return d.DialContext(ctx, network, address)
}
