// Package bridge carries messages between the table and a root of inbox folders, one folder per agent, both ways: what
// a program wrote into the folder of another agent is taken into the table, and what a recipient removed from its own
// is acknowledged. Source: dialects.md, "ralph".
//
// Everything that is heard of the folders is a hint. One function looks at a folder and does what is to be done there;
// it may do so at any time, as often as it likes, and in several processes at once.
package bridge

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/daemons"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/letter"
	"mailroom/orchestrator/store"
)

// Options say what is watched.
type Options struct {
	Root string // the folder with the inbox folders; it is made when it is missing
	// agent in whose name the watch deals with messages of type status_update; added when nobody knows it
	Name   string
	Rescan time.Duration // after this long everything is looked at, or later where that takes long; 0: 1 s
	Log    *slog.Logger  // nil: slog.Default()
	Looked func()        // called after every look, by one goroutine; nil: nobody wants to know

	// Alongside is what else runs for as long as Run does, and ends with its context; nil is nothing.
	Alongside func(ctx context.Context) error
}

// Counts are what a watch has done.
type Counts struct {
	TakenIn int `json:"taken_in"` // files that became messages
	// messages, to whatever transport; while it runs, of deliveries that have ended
	Delivered int `json:"delivered"`
	// messages whose recipients removed their files, and those to the watch itself
	Acknowledged int `json:"acknowledged"`
	// files and folders below the root that somebody has to look at, as it stands now
	Problems int `json:"problems"`
}

// rescan is how often everything is looked at, for what was not heard (another file system, a full queue of the
// kernel), and for what has to be looked at again: a file that was not whole, one that is missed, one whose sender was
// not known.
const rescan = time.Second

// seldom is how many times Rescan passes between two tries of what costs a transaction and rarely helps: a delivery
// that no wakeup announced, and a file that could not be taken in for a reason outside of it.
const seldom = 10

// watch is what one call of Once or Run knows of its root.
type watch struct {
	engine *delivery.Engine
	o      Options
	log    *slog.Logger
	root   string            // absolute, links resolved
	target string            // of agents whose messages are delivered into the root
	heard  *fsnotify.Watcher // nil: the system does not report changes

	seen map[string]map[string]sight // by folder and file; "" is the folder itself

	gone map[string]map[string]time.Time // by folder and message: since when the file of a delivered message is missed

	restored  bool // what a watch that was killed left in its bins is back
	binMissed bool // the last look found no place for a bin

	places map[string]letter.Identity // the inbox folders at their last looks

	agents []ledger.Agent // at the last look
	strict bool           // messages must go the ways of their types, as of the last look
	end    context.CancelCauseFunc

	mu      sync.Mutex
	counts  Counts
	waiting chan struct{} // holds one for each delivery that is waited for
}

// Once takes in what is there, acknowledges what was removed and delivers what is due, and returns when that is done.
// Errors: invalid_params for a root that cannot be one; those of the database.
func Once(ctx context.Context, engine *delivery.Engine, o Options) (Counts, error) {
	ctx = ledger.WithIdentity(ctx, "") // what letters say, no caller has proved
	w, err := begin(ctx, engine, o)
	if err != nil {
		return Counts{}, err
	}
	if err := w.look(ctx); err != nil {
		return w.result(), err
	}
	delivery, err := engine.DeliverAll(ctx, delivery.Options{})
	w.count(Counts{Delivered: delivery.Delivered})
	if err == nil && len(w.gone) > 0 {
		err = w.lookAgain(ctx)
	}
	return w.result(), err
}

// lookAgain looks once more when what was missed has been missed for long enough.
func (w *watch) lookAgain(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(settled):
		return w.look(ctx)
	}
}

// Run does the same whenever there is something to do, until ctx ends, and is then no error. It is recorded as a
// daemon. Errors: those of the start, as of Once; one with ErrOutdated when a newer program takes the database over.
func Run(ctx context.Context, engine *delivery.Engine, o Options) (Counts, error) {
	ctx = ledger.WithIdentity(ctx, "")
	w, err := begin(ctx, engine, o)
	if err != nil {
		return Counts{}, err
	}
	ctx, w.end = context.WithCancelCause(ctx)
	defer w.end(nil)
	wakeups, stop, err := delivery.Wakeups(ctx, engine.Ledger)
	if err != nil {
		return Counts{}, err
	}
	defer stop()
	var beside sync.WaitGroup
	for name, f := range map[string]func(){
		"deliveries": func() { w.deliverAlways(ctx, wakeups) },
		"heartbeat":  func() { daemons.Attend(ctx, engine.Ledger, "")() },
		"beside":     func() { w.beside(ctx) },
	} {
		beside.Add(1)
		orchestrator.GoSafe(name, w.log, func() {
			defer beside.Done()
			f()
		})
	}
	w.lookAlways(ctx)
	beside.Wait()
	engine.Drain()
	for range cap(w.waiting) { // so that the deliveries that were waited for are counted
		w.waiting <- struct{}{}
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), daemons.Heartbeat)
	defer cancel()
	if err := daemons.Leave(ending, engine.Ledger); err != nil {
		w.log.Warn("cannot record the end of the watch", "error", err)
	}
	if cause := context.Cause(ctx); errors.Is(cause, store.ErrOutdated) {
		err = cause
	}
	return w.result(), err
}

// trouble tells of an error after which the watch tries again, and ends the watch after one that stays.
func (w *watch) trouble(ctx context.Context, says string, err error) {
	if errors.Is(err, store.ErrOutdated) {
		w.end(err)
	} else if ctx.Err() == nil {
		w.log.Error(says, "root", w.root, "error", err)
	}
}

// begin checks the root, and makes sure that the watch's own agent is known.
func begin(ctx context.Context, engine *delivery.Engine, o Options) (*watch, error) {
	o.Rescan = cmp.Or(o.Rescan, rescan)
	w := &watch{
		engine: engine, o: o, log: cmp.Or(o.Log, slog.Default()), waiting: make(chan struct{}, 8),
		seen: map[string]map[string]sight{}, gone: map[string]map[string]time.Time{},
		places: map[string]letter.Identity{},
	}
	if err := engine.Create(ctx); err != nil {
		return nil, err
	}
	var err error
	if w.target, err = agents.CheckDeliver(engine.Ledger, "address", scheme+o.Root, ""); err != nil {
		return nil, err
	}
	w.root = w.target[len(scheme):]
	_, err = agents.Get(ctx, engine.Ledger, o.Name)
	if orchestrator.CodeOf(err) == orchestrator.NotFound {
		_, _, err = agents.Add(ctx, engine.Ledger, agents.Update{Name: o.Name, By: o.Name})
	}
	if err != nil {
		return nil, err
	}
	return w, w.checkReaders(ctx)
}

// checkReaders says so when nobody reads below the root, and somebody below another: that may be the one that was
// meant.
func (w *watch) checkReaders(ctx context.Context) error {
	agents, err := agents.List(ctx, w.engine.Ledger)
	other := ""
	for _, a := range agents {
		if a.Deliver == w.target {
			return nil
		}
		if strings.HasPrefix(a.Deliver, scheme) {
			other = a.Name + " reads from " + a.Deliver[len(scheme):]
		}
	}
	if other != "" {
		w.log.Warn("no agent reads from folders in this root, so nothing is delivered into it", "root", w.root, "elsewhere", other)
	}
	return err
}

// scheme begins the transport of an agent that reads a folder.
const scheme = "dir:"

// lookAlways looks whenever the system reports a change, and otherwise after a pause, until ctx ends.
func (w *watch) lookAlways(ctx context.Context) {
	var changes <-chan fsnotify.Event
	var missed <-chan error
	if heard, err := fsnotify.NewBufferedWatcher(4096); err == nil {
		defer heard.Close()
		w.heard, changes, missed = heard, heard.Events, heard.Errors
	} else {
		w.log.Warn("the system does not report changes in folders; Mailroom checks the folders periodically", "error", err)
	}
	var trouble orchestrator.Trouble
	for ctx.Err() == nil {
		began := time.Now()
		if err := w.look(ctx); trouble.Changed(err) && err != nil {
			w.trouble(ctx, "cannot read the folders; Mailroom keeps trying", err)
		}
		if w.o.Looked != nil {
			w.o.Looked()
		}
		select {
		case <-ctx.Done():
		case <-time.After(w.pause(time.Since(began))):
		case <-changes:
		case err := <-missed:
			w.log.Debug("a change in a folder might have been missed", "error", err)
		}
		for len(changes) > 0 { // one look is enough for all of them
			<-changes
		}
	}
}

// pause is how long the watch waits for a change after a look that took so long. Where thousands of files wait for
// their readers, looking takes no more than a tenth of the time.
func (w *watch) pause(took time.Duration) time.Duration {
	return min(max(w.o.Rescan, 10*took), seldom*w.o.Rescan)
}

// heed asks the system to report changes in a folder. Each look asks anew: another folder may have the name by now.
func (w *watch) heed(path string) {
	if w.heard == nil {
		return
	}
	if err := w.heard.Add(path); err != nil {
		w.log.Debug("cannot watch a folder for changes; Mailroom checks it periodically", "folder", path, "error", err)
	}
}

// deliverAlways delivers what is due, whenever there may be something, until ctx ends.
func (w *watch) deliverAlways(ctx context.Context, wakeups <-chan struct{}) {
	ticker := time.NewTicker(seldom * w.o.Rescan)
	defer ticker.Stop()
	for ctx.Err() == nil {
		w.deliver(ctx)
		select {
		case <-ctx.Done():
		case <-wakeups:
		case <-ticker.C:
		}
	}
}

// deliver delivers what is due, and waits for none of it: a slow recipient delays nobody. Some deliveries are waited
// for beside it, to count what they deliver.
func (w *watch) deliver(ctx context.Context) {
	run := func(background bool) {
		delivery, err := w.engine.DeliverAll(ctx, delivery.Options{Background: background})
		if err != nil {
			w.trouble(ctx, "a delivery failed", err)
		}
		w.count(Counts{Delivered: delivery.Delivered})
	}
	select {
	case w.waiting <- struct{}{}:
		orchestrator.GoSafe("delivery", w.log, func() {
			defer func() { <-w.waiting }()
			run(false)
		})
	default:
		run(true)
	}
}

// beside runs what the options want to run beside the watch.
func (w *watch) beside(ctx context.Context) {
	if w.o.Alongside == nil {
		return
	}
	if err := w.o.Alongside(ctx); err != nil && ctx.Err() == nil {
		w.log.Error("the delivery task that runs alongside the watch ended", "error", err)
	}
}

func (w *watch) count(more Counts) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts.TakenIn += more.TakenIn
	w.counts.Delivered += more.Delivered
	w.counts.Acknowledged += more.Acknowledged
}

// result counts what was done, and the problems that stand.
func (w *watch) result() Counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	counts := w.counts
	for _, files := range w.seen {
		for _, s := range files {
			if s.problem != "" {
				counts.Problems++
			}
		}
	}
	return counts
}
