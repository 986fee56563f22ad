// Package pulse shows processes on other hosts that this process is alive, and detects processes that are dead.
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

// Schema is the SQL that creates the table of the beats.
//
//go:embed pulse.sql
var Schema string

// Pulse shows processes on other hosts that this process is alive, and detects processes that are dead. Without it,
// the lease of a killed process would block its recipient until the lease runs out, for more than five minutes.
//
// A process that takes leases chooses a random key, which its tokens contain. There are two signs of life: the
// server holds an advisory lock on the key for the process and drops the lock when the connection ends; and the
// process writes the time into its row of the table pulse (a beat). Other processes consider it dead when both signs
// have been missing for a while without interruption. One sign is not enough: a server that is restarted drops the
// locks of all processes, each of which reconnects and beats at once; and a stopped process does not beat, but the
// system keeps its connection open. Behind a pooler, where no lock outlives a transaction, only the beat counts
// unless the address contains a way past the pooler.
//
// A process that cannot reach the server looks to others as if its host were dead. It notices this before the others
// do, and ends its work, see Alive. Pulse is safe for concurrent use.
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

	asking  sync.Mutex // held during queries to the server, which may take beatPatience
	c       *wire.Conn
	locked  bool // c holds the lock
	looked  time.Time
	living  map[int64]bool      // processes whose lock or beat was there at the last look
	missing map[int64]time.Time // since when both signs have been missing, as seen on c

	mu    sync.Mutex // held only for a moment: transactions of the engine wait for it
	shown bool       // a beat was written, so others can see that this process is alive
	beat  time.Time
	alive context.Context // see Alive
	cut   context.CancelFunc
}

const (
	// DefaultInterval is the time between two beats of a process.
	DefaultInterval = 10 * time.Second

	// These numbers are multiples of the interval between beats, except looksPer.
	silentAfter = 3   // older beats do not count
	cutAfter    = 2   // after this time without a beat, this process ends its work
	missingFor  = 1.5 // longer than a process needs to reconnect; without signs for this time, it is dead
	looksPer    = 10  // number of looks for signs per interval

	// beatPatience is the time limit for the server's answer. Transactions of the engine wait for the first beat,
	// and the server ends transactions that are idle for longer than idle_in_transaction_session_timeout, see
	// settings.
	beatPatience = 5 * time.Second
)

// New returns the pulse of a process. It beats from the first Token until Close. connect connects to the database,
// past a pooler if possible, and tries only until ctx ends.
func New(every time.Duration, connect func(ctx context.Context) (*wire.Conn, error), log *slog.Logger) *Pulse {
	p := &Pulse{Interval: every, connect: connect, log: log, first: make(chan struct{}), missing: map[int64]time.Time{}}
	var random [8]byte
	rand.Read(random[:])
	p.key = int64(binary.BigEndian.Uint64(random[:])>>1) | 1
	p.ctx, p.end = context.WithCancel(context.Background())
	p.alive, p.cut = context.WithCancel(p.ctx)
	return p
}

// tokenPrefix is the beginning of a lease token, before the key.
const tokenPrefix = "pulse."

// Token makes a lease token from an id. The first call waits until others can see that this process is alive. If
// that fails, the token is the id, and the lease ends when its time is up.
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

// keyOf returns the key in a token, or 0 if there is none.
func keyOf(token string) int64 {
	name, found := strings.CutPrefix(token, tokenPrefix)
	name, _, ended := strings.Cut(name, "-")
	key, err := strconv.ParseInt(name, 16, 64)
	if !found || !ended || err != nil || len(name) != 16 {
		return 0
	}
	return key
}

// Alive returns a context that ends when other processes may soon consider this process dead. Work under a lease
// must then stop, since another process will do that work.
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

// lock makes the server hold our lock for as long as the connection lasts. If a lost connection still holds the
// lock, it keeps it until the server notices the loss.
func (p *Pulse) lock(ctx context.Context) error {
	if p.locked || p.c.Settings != "" {
		return nil
	}
	results, err := p.c.Ask(ctx, fmt.Sprintf(`SELECT pg_try_advisory_lock(%d)`, p.key))
	p.locked = err == nil && string(results[0].Rows[0][0]) == "t"
	return err
}

// pulseSettings are the settings of the connection: the server must notice within half a minute that a host is gone,
// and a beat does not wait for the disk.
const pulseSettings = `SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 4;
	SET synchronous_commit = off`

// run calls f with the connection, which it opens if necessary. The caller must hold p.asking.
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
		if c.Settings == "" { // not behind a pooler
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

// drop closes the connection and clears what was seen on it, since the server may have dropped all locks with it.
func (p *Pulse) drop() {
	if p.c != nil {
		p.c.Close()
	}
	p.c, p.locked, p.looked = nil, false, time.Time{}
	clear(p.missing)
}

// Gone reports whether the process that made a token is known to be dead. It returns false while another query to
// the server is running.
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

// look reads the signs of all processes at once.
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
		p.living[key] = true // some locks belong to other programs; their numbers match no key
	}
	return nil
}

// silencePatience is the maximum duration of the last statement of a pulse.
const silencePatience = 2 * time.Second

// Close ends the pulse. Leases that this process still has end soon after.
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
		_ = p.c.Do(ctx, fmt.Sprintf(`DELETE FROM pulse WHERE key = %d`, p.key)) // the beats end in any case
	}
	p.drop()
}
