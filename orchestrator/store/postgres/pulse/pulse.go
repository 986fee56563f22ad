// Package pulse tells the processes of other hosts that this one is alive, and finds out which of them are dead.
package pulse

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/binary"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store/postgres/wire"
)

// Schema is the SQL that makes the table of the beats.
//
//go:embed pulse.sql
var Schema string

// Pulse tells the processes of other hosts that this one is alive, and finds out which of them are dead. Otherwise the
// lease of a process that was killed would hold its recipient up until it runs out, more than five minutes.
//
// A process that takes leases draws a random key, which stands in their tokens. It has the server hold an advisory lock
// on the key, which the server drops when the connection ends; and it writes the time into its row of the table pulse.
// Another process takes it for dead once both signs have been missing for a while without a break. One is not enough: a
// server that is restarted drops the locks of all processes, of which each connects again and beats at once; and a
// process that is stopped does not beat, but the system keeps its connection. Behind a pooler, where no lock outlasts a
// transaction, the beat decides unless the address names a way past it.
//
// A process that cannot reach the server looks like one whose host is dead. It notices before the others do, and ends
// its work: see Alive. Safe for concurrent use.
type Pulse struct {
	Interval time.Duration // between two beats

	connect func(ctx context.Context) (*wire.Conn, error)
	log     *slog.Logger
	key     int64 // of this process

	ctx     context.Context // ends with the store
	end     context.CancelFunc
	begin   sync.Once
	first   chan struct{} // closed after the first beat, or the first failure
	beating sync.WaitGroup

	asking  sync.Mutex // of whoever asks the server, which may take beatPatience
	c       *wire.Conn
	locked  bool // c holds the lock
	looked  time.Time
	living  map[int64]bool      // whose lock or beat was there when we looked
	missing map[int64]time.Time // since when neither was, as seen on c

	mu    sync.Mutex // held for a moment only: transactions of the engine wait for it
	shown bool       // a beat was written: others can tell that we live
	beat  time.Time
	alive context.Context // see Alive
	cut   context.CancelFunc
}

const (
	// DefaultInterval is the time between two beats of a process.
	DefaultInterval = 10 * time.Second

	// In beats.
	silentAfter = 3   // a beat that is older does not count
	cutAfter    = 2   // without a beat for so long, this process ends its work
	missingFor  = 1.5 // longer than a process needs to connect again; whoever has shown no sign for so long is dead
	looksPer    = 10  // looks for signs, in the time of a beat

	// For the server's answer. Transactions of the engine wait for the first beat, and the server ends those that are
	// idle for longer than its idle_in_transaction_session_timeout, see settings.
	beatPatience = 5 * time.Second
)

// New makes the pulse of a process. It beats from the first Token until Close. connect connects to the database with no
// patience but ctx's, past a pooler if there is a way.
func New(every time.Duration, connect func(ctx context.Context) (*wire.Conn, error), log *slog.Logger) *Pulse {
	p := &Pulse{Interval: every, connect: connect, log: log, first: make(chan struct{}), missing: map[int64]time.Time{}}
	var random [8]byte
	rand.Read(random[:])
	p.key = int64(binary.BigEndian.Uint64(random[:])>>1) | 1
	p.ctx, p.end = context.WithCancel(context.Background())
	p.alive, p.cut = context.WithCancel(p.ctx)
	return p
}

// tokenPrefix begins the token of a lease, before the key.
const tokenPrefix = "pulse."

// Token makes the token of a lease out of an id. Before the first it waits until others can tell that this process
// lives. If that does not succeed the token is the id, and the lease ends when its time is up.
func (p *Pulse) Token(id string) string {
	p.begin.Do(func() {
		p.beating.Add(1)
		orchestrator.GoSafe("pulse", p.log, p.keep)
	})
	<-p.first
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.shown {
		return id
	}
	return fmt.Sprintf("%s%016x-%s", tokenPrefix, p.key, id)
}

// keyOf returns the key in a token, 0 if there is none.
func keyOf(token string) int64 {
	name, found := strings.CutPrefix(token, tokenPrefix)
	name, _, ended := strings.Cut(name, "-")
	key, err := strconv.ParseInt(name, 16, 64)
	if !found || !ended || err != nil || len(name) != 16 {
		return 0
	}
	return key
}

// Alive returns a context that ends once other processes may soon take this one for dead. Whoever works under a lease
// stops then: another process will do the work.
func (p *Pulse) Alive() context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.alive
}

// keep beats until the store is closed.
func (p *Pulse) keep() {
	defer p.beating.Done()
	told := sync.OnceFunc(func() { close(p.first) })
	defer told()
	for p.ctx.Err() == nil {
		pause := p.Interval
		if err := p.tick(); err != nil {
			pause /= looksPer
			p.log.Debug("cannot record that this process is alive", "error", err)
		}
		told()
		orchestrator.Pause(p.ctx, pause)
	}
}

// tick beats once.
func (p *Pulse) tick() error {
	p.asking.Lock()
	defer p.asking.Unlock()
	at := time.Now()
	err := p.run(func(ctx context.Context) error {
		if err := p.lock(ctx); err != nil {
			return err
		}
		return p.c.Do(ctx,
			fmt.Sprintf(`INSERT INTO pulse (key, seen_at) VALUES (%d, clock_timestamp()) ON CONFLICT (key) DO UPDATE
				SET seen_at = excluded.seen_at`, p.key))
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		if p.beat, p.shown = at, true; p.alive.Err() != nil {
			p.alive, p.cut = context.WithCancel(p.ctx)
		}
		return nil
	}
	if p.shown && p.alive.Err() == nil && time.Since(p.beat) >= cutAfter*p.Interval {
		p.log.Warn("cannot reach the server of the database, and other hosts will assume that this process is dead; stopping its current deliveries", "error", err)
		p.cut()
	}
	return err
}

// lock has the server hold our lock for as long as the connection lasts. One that holds it for a connection which was
// lost does so until it notices.
func (p *Pulse) lock(ctx context.Context) error {
	if p.locked || p.c.Settings != "" {
		return nil
	}
	results, err := p.c.Ask(ctx, fmt.Sprintf(`SELECT pg_try_advisory_lock(%d)`, p.key))
	p.locked = err == nil && string(results[0].Rows[0][0]) == "t"
	return err
}

// pulseSettings are those of the connection: the server is to notice within half a minute that a host is gone, and a beat waits for no
// disk.
const pulseSettings = `SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 4;
	SET synchronous_commit = off`

// run calls f with the connection, which it opens if need be. p.asking is held.
func (p *Pulse) run(f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(p.ctx, beatPatience)
	defer cancel()
	if p.c != nil && p.c.Raw.IsClosed() {
		p.drop()
	}
	if p.c == nil {
		c, err := p.connect(ctx)
		if err != nil {
			return err
		}
		p.c = c
		script := `DELETE FROM pulse WHERE seen_at NOT BETWEEN clock_timestamp() - interval '1 hour'
			AND clock_timestamp() + interval '1 hour'`
		if c.Settings == "" { // it is our own
			script = pulseSettings + "; " + script
		}
		if err := c.Do(ctx, script); err != nil {
			p.drop()
			return err
		}
	}
	err := f(ctx)
	if err != nil {
		p.drop()
	}
	return err
}

// drop gives up the connection, and what was seen on it: the server may have dropped all locks with it.
func (p *Pulse) drop() {
	if p.c != nil {
		p.c.Close()
	}
	p.c, p.locked, p.looked = nil, false, time.Time{}
	clear(p.missing)
}

// Gone reports whether the process that made a token is known to be dead. While the server is asked something else,
// that is not known.
func (p *Pulse) Gone(token string) bool {
	key := keyOf(token)
	if key == 0 || key == p.key || !p.asking.TryLock() {
		return false
	}
	defer p.asking.Unlock()
	if p.c == nil || p.c.Raw.IsClosed() || time.Since(p.looked) >= p.Interval/looksPer {
		if err := p.run(p.look); err != nil {
			if p.ctx.Err() == nil {
				p.log.Debug("cannot determine which processes are alive", "error", err)
			}
			return false
		}
	}
	if p.living[key] {
		delete(p.missing, key)
		return false
	}
	since, known := p.missing[key]
	if !known {
		p.missing[key] = p.looked
	}
	return known && p.looked.Sub(since).Seconds() >= missingFor*p.Interval.Seconds()
}

// look asks for the signs of all processes at once.
func (p *Pulse) look(ctx context.Context) error {
	at := time.Now()
	silent := (silentAfter * p.Interval).Milliseconds()
	results, err := p.c.Ask(ctx, fmt.Sprintf(`
		SELECT key FROM pulse WHERE seen_at BETWEEN clock_timestamp() - interval '%[1]d ms'
			AND clock_timestamp() + interval '%[1]d ms'
		UNION SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks
		WHERE locktype = 'advisory' AND objsubid = 1 AND granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`, silent))
	if err != nil {
		return err
	}
	p.looked, p.living = at, map[int64]bool{}
	for _, row := range results[0].Rows {
		key, err := strconv.ParseInt(string(row[0]), 10, 64)
		if err != nil {
			return err
		}
		p.living[key] = true // some are of other programs, whose numbers are nobody's key
	}
	return nil
}

// silencePatience bounds how long the end of a pulse takes.
const silencePatience = 2 * time.Second

// Close ends the pulse. A lease that this process still has is over soon.
func (p *Pulse) Close() {
	p.begin.Do(func() { close(p.first) })
	p.end()
	p.beating.Wait()
	p.asking.Lock()
	defer p.asking.Unlock()
	if p.c == nil {
		return
	}
	if p.shown {
		ctx, cancel := context.WithTimeout(context.Background(), silencePatience)
		defer cancel()
		_ = p.c.Do(ctx, fmt.Sprintf(`DELETE FROM pulse WHERE key = %d`, p.key)) // it is silent from now on, too
	}
	p.drop()
}
