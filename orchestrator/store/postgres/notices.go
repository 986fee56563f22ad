package postgres

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// notices are a bell that is heard in all processes that have the database open: each listens on a connection of its
// own, and rings with NOTIFY, after the commit, since a transaction with a NOTIFY in it keeps all others from
// committing.
type notices struct {
	s         *Store
	id        string // of this process, which hears its own rings without the server
	listeners store.Listeners

	ctx     context.Context // ends with the store
	end     context.CancelFunc
	closing chan struct{}  // closed before that: nothing is rung any more, but what was is still told
	tellers sync.WaitGroup // of which there is one
	ears    sync.WaitGroup // the same

	mu        sync.Mutex
	listening chan struct{} // closed once the server knows that we listen; nil before anybody does
	rung      store.Ring    // what is still to be told
	telling   bool
	more      chan struct{} // has a value when something was rung since the teller looked
}

// notice is what goes over the wire.
type notice struct {
	By    string   `json:"by"`
	Names []string `json:"names,omitempty"` // none: everybody
}

func newNotices(s *Store) *notices {
	n := &notices{s: s, id: rand.Text(), closing: make(chan struct{}), more: make(chan struct{}, 1)}
	n.ctx, n.end = context.WithCancel(context.Background())
	return n
}

func (n *notices) channel() string { return "mailroom_" + n.s.schema }

// Ring wakes listeners here at once, and has the server wake those elsewhere.
func (n *notices) Ring(recipients ...string) {
	n.listeners.Wake(recipients...)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rung.All = n.rung.All || len(recipients) == 0
	n.rung.Add(recipients)
	if n.telling || n.isClosing() {
		select {
		case n.more <- struct{}{}:
		default: // it will look anyway
		}
		return
	}
	n.telling = true
	n.tellers.Add(1)
	orchestrator.GoSafe("notify", n.s.log, n.tell)
}

// tell sends what was rung until there is nothing left, one notice at a time: what is rung meanwhile is one more.
func (n *notices) tell() {
	defer n.tellers.Done()
	var c *conn
	defer func() {
		if c != nil {
			c.Close()
		}
	}()
	for idle := false; ; {
		rung, more := n.take(idle)
		if !more {
			return
		}
		if rung == nil {
			select {
			case <-n.more:
			case <-n.closing:
				idle = true
			case <-time.After(ringerLinger):
				idle = true
			}
			continue
		}
		idle = false
		payload, err := json.Marshal(notice{n.id, rung.Names()})
		if err != nil || len(payload) > maxNotice {
			payload, _ = json.Marshal(notice{By: n.id})
		}
		for kept := c != nil; ; kept = false {
			if c == nil {
				if c, _, err = n.s.connect(n.ctx, n.s.config); err != nil {
					c = nil
					break // whoever listens looks by itself in the end
				}
			}
			if err = notify(c, n.ctx, n.channel(), payload); err == nil {
				break
			}
			c.Drop()
			if c = nil; !kept { // one that was kept may have been lost meanwhile
				break
			}
		}
	}
}

// notify wakes those who listen on a channel. It is a hint, which nobody needs on a disk.
func notify(c *conn, ctx context.Context, channel string, payload []byte) error {
	_, err := c.Ask(ctx, `SELECT pg_notify('`+channel+`', '`+strings.ReplaceAll(string(payload), "'", "''")+
		`'), set_config('synchronous_commit', 'off', true)`)
	return err
}

const (
	maxNotice    = 7000                   // bytes, of 8,000 that a notice may have
	ringerLinger = 500 * time.Millisecond // how long the connection for ringing is kept
)

// take returns what is to be told; nil says that nothing is yet. more is false when telling has ended.
func (n *notices) take(idle bool) (rung *store.Ring, more bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.rung.All || len(n.rung.Names()) > 0 {
		taken := n.rung
		n.rung = store.Ring{}
		return &taken, true
	}
	if idle || n.isClosing() {
		n.telling = false
		return nil, false
	}
	return nil, true
}

// listenPatience bounds how long somebody waits for the server to listen for us; he looks by himself later.
const listenPatience = 2 * time.Second

// Listen returns a channel on which rings arrive.
func (n *notices) Listen(ctx context.Context, recipient string) (<-chan bool, func(), error) {
	if ctx.Err() != nil {
		return nil, func() {}, context.Cause(ctx)
	}
	rings := n.listeners.Add(recipient)
	n.mu.Lock()
	if n.listening == nil && !n.isClosing() {
		n.listening = make(chan struct{})
		n.ears.Add(1)
		orchestrator.GoSafe("listen", n.s.log, n.listen)
	}
	listening := n.listening
	n.mu.Unlock()
	patience := time.NewTimer(listenPatience)
	defer patience.Stop()
	select {
	case <-listening:
	case <-ctx.Done():
	case <-n.ctx.Done():
	case <-patience.C:
	}
	return rings, store.StopOnce(ctx, func() { n.listeners.Remove(recipient, rings) }), nil
}

// listen hears what other processes ring, until the store is closed. It connects again when the connection is lost, and
// wakes everybody then: nobody knows what was rung meanwhile.
func (n *notices) listen() {
	defer n.ears.Done()
	told := sync.OnceFunc(func() { close(n.listening) })
	pause := 50 * time.Millisecond
	for n.ctx.Err() == nil {
		err := n.hear(func() {
			pause = 50 * time.Millisecond
			told()
			n.listeners.Wake()
		})
		if err == errDeaf || err == errAstray {
			told()
			n.poll(err)
			return
		}
		if err != nil && n.ctx.Err() == nil {
			n.s.log.Debug("listening for notifications from the server was interrupted", "error", err)
			orchestrator.Pause(n.ctx, pause)
			pause = min(2*pause, 2*time.Second)
			if n.s.direct != n.s.config { // only the way past a pooler may be closed
				n.listeners.Wake()
			}
		}
	}
}

// errDeaf says that nothing can be heard on a connection.
var errDeaf = errors.New("the pooler does not forward notifications")

// pollEvery is how often everybody looks by himself where nothing can be heard.
const pollEvery = 250 * time.Millisecond

// poll wakes everybody again and again, since nothing can be heard for a reason that stays.
func (n *notices) poll(why error) {
	n.s.log.Warn("cannot receive notifications from other processes; checking for new messages four times a second",
		"error", why, "hint", namePast)
	for n.ctx.Err() == nil {
		orchestrator.Pause(n.ctx, pollEvery)
		n.listeners.Wake()
	}
}

// hear listens on one connection until that is lost. ready is called when the server knows.
func (n *notices) hear(ready func()) error {
	config := n.s.direct.Copy()
	config.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler { // what waits here has nothing to cancel
		return &pgconn.DeadlineContextWatcherHandler{Conn: c.Conn()}
	}
	config.OnNotification = func(_ *pgconn.PgConn, heard *pgconn.Notification) {
		var rung notice
		if json.Unmarshal([]byte(heard.Payload), &rung) != nil {
			rung = notice{} // somebody else has rung
		}
		if rung.By != n.id {
			n.listeners.Wake(rung.Names...)
		}
	}
	c, _, err := n.s.connectPast(n.ctx, config)
	if err != nil {
		return err
	}
	defer c.Close()
	if c.Settings != "" {
		return errDeaf
	}
	if err := c.Do(n.ctx, `LISTEN `+n.channel()); err != nil {
		return err
	}
	ready()
	defer n.s.watch(n.s.pulse.Interval, n.s.pulse.Interval)()
	for {
		if err := c.Raw.WaitForNotification(n.ctx); err != nil {
			return err
		}
	}
}

// farewell bounds how long closing waits until the last rings are told.
const farewell = 2 * time.Second

func (n *notices) isClosing() bool {
	select {
	case <-n.closing:
		return true
	default:
		return false
	}
}

// close tells what was rung, and ends the listening.
func (n *notices) close() {
	n.mu.Lock()
	if n.isClosing() {
		n.mu.Unlock()
		return
	}
	close(n.closing)
	n.mu.Unlock()
	stop := time.AfterFunc(farewell, n.end)
	n.tellers.Wait()
	stop.Stop()
	n.end()
	n.ears.Wait()
}
