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

// notices is a bell that reaches all processes that have the database open. Each process listens on a separate
// connection. It rings with NOTIFY after the commit, since a transaction that contains a NOTIFY keeps all others
// from committing.
type notices struct {
	s         *Store
	id        string // of this process, which receives its own rings without the server
	listeners store.Listeners

	ctx     context.Context // ends with the store
	end     context.CancelFunc
	closing chan struct{}  // closed before ctx ends: nothing more is rung, but earlier rings are still sent
	tellers sync.WaitGroup // counts the goroutine that runs tell
	ears    sync.WaitGroup // counts the goroutine that runs listen

	mu        sync.Mutex
	listening chan struct{} // closed when the server has accepted LISTEN; nil if nobody has listened yet
	rung      store.Ring    // rings that are not sent yet
	telling   bool
	more      chan struct{} // has a value if there was a ring since tell last looked
}

// notice is the payload of a notification.
type notice struct {
	By    string   `json:"by"`
	Names []string `json:"names,omitempty"` // if empty: everybody
}

func newNotices(s *Store) *notices {
	n := &notices{s: s, id: rand.Text(), closing: make(chan struct{}), more: make(chan struct{}, 1)}
	n.ctx, n.end = context.WithCancel(context.Background())
	return n
}

func (n *notices) channel() string { return "mailroom_" + n.s.schema }

// Ring wakes the listeners of this process at once, and those of other processes through the server.
func (n *notices) Ring(recipients ...string) {
	n.listeners.Wake(recipients...)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rung.All = n.rung.All || len(recipients) == 0
	n.rung.Add(recipients)
	if n.telling || n.isClosing() {
		select {
		case n.more <- struct{}{}:
		default: // tell will look anyway
		}
		return
	}
	n.telling = true
	n.tellers.Add(1)
	orchestrator.GoSafe("notify", n.s.log, n.tell)
}

// tell sends rings until none are left, one notice at a time. Rings that arrive during a notice are combined in the
// next one.
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
					break // listeners look by themselves after a while
				}
			}
			if err = notify(c, n.ctx, n.channel(), payload); err == nil {
				break
			}
			c.Drop()
			if c = nil; !kept { // a connection that was kept may have been lost
				break
			}
		}
	}
}

// notify wakes the listeners of a channel. A notification is only a hint and need not be on a disk.
func notify(c *conn, ctx context.Context, channel string, payload []byte) error {
	_, err := c.Ask(ctx, `SELECT pg_notify('`+channel+`', '`+strings.ReplaceAll(string(payload), "'", "''")+
		`'), set_config('synchronous_commit', 'off', true)`)
	return err
}

const (
	maxNotice    = 7000                   // in bytes; a notification can have 8,000
	ringerLinger = 500 * time.Millisecond // how long the connection for ringing is kept
)

// take returns the rings to send, or nil if there are none yet. more is false when tell must end.
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

// listenPatience is how long Listen waits until the server has accepted LISTEN. After that, the caller looks by
// itself.
const listenPatience = 2 * time.Second

// Listen returns a channel that receives rings.
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

// listen receives the rings of other processes until the store is closed. If the connection is lost, it connects
// again and wakes everybody, since rings may have been missed meanwhile.
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
			if n.s.direct != n.s.config { // perhaps only the way past the pooler is unavailable
				n.listeners.Wake()
			}
		}
	}
}

// errDeaf means that a connection receives no notifications.
var errDeaf = errors.New("the pooler does not forward notifications")

// pollEvery is the interval at which everybody looks for messages if no notifications are received.
const pollEvery = 250 * time.Millisecond

// poll wakes everybody repeatedly, because notifications cannot be received for a permanent reason.
func (n *notices) poll(why error) {
	n.s.log.Warn("cannot receive notifications from other processes; checking for new messages four times a second",
		"error", why, "hint", namePast)
	for n.ctx.Err() == nil {
		orchestrator.Pause(n.ctx, pollEvery)
		n.listeners.Wake()
	}
}

// hear listens on one connection until that connection is lost. It calls ready when the server has accepted LISTEN.
func (n *notices) hear(ready func()) error {
	config := n.s.direct.Copy()
	config.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler { // there is no statement to cancel
		return &pgconn.DeadlineContextWatcherHandler{Conn: c.Conn()}
	}
	config.OnNotification = func(_ *pgconn.PgConn, heard *pgconn.Notification) {
		var rung notice
		if json.Unmarshal([]byte(heard.Payload), &rung) != nil {
			rung = notice{} // the notification came from another program
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

// farewell is how long close waits until the last rings are sent.
const farewell = 2 * time.Second

func (n *notices) isClosing() bool {
	select {
	case <-n.closing:
		return true
	default:
		return false
	}
}

// close sends the remaining rings and stops listening.
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
