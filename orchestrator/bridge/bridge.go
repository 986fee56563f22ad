// Package bridge carries messages between the table and a root of inbox folders, one folder for each agent, in both
// directions. It imports into the table the files that programs write into the folder of another agent, and
// acknowledges the messages whose files a recipient removes from its own folder. Source: dialects.md, "ralph".
//
// Change events of the file system are only hints. One function checks a folder and does what is to be done there.
// It may run at any time, any number of times, and in several processes at once.
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

// Options configures a watch.
type Options struct {
	Root string // the folder with the inbox folders; created if it is missing
	// Name is the agent in whose name the watch handles messages of type status_update; added if it is unknown.
	Name   string
	Rescan time.Duration // interval of full checks, longer if a check takes long; 0: 1 s
	Log    *slog.Logger  // nil: slog.Default()
	Looked func()        // called after every check, by one goroutine; may be nil

	// Alongside is a function that runs for as long as Run does and must return when its context ends; it may be
	// nil.
	Alongside func(ctx context.Context) error
}

// Counts is what a watch has done.
type Counts struct {
	TakenIn int `json:"taken_in"` // files that became messages
	// Delivered counts messages, by any transport. While the watch runs, only deliveries that have ended count.
	Delivered int `json:"delivered"`
	// Acknowledged counts messages whose recipients removed their files, and messages to the watch itself.
	Acknowledged int `json:"acknowledged"`
	// Problems counts files and folders below the root that currently need attention.
	Problems int `json:"problems"`
}

// rescan is the default interval of full checks. They find changes that were not reported (on another file system,
// or when the kernel's queue was full) and repeat checks that are due again: of a file that was not complete, of a
// missing file, or of a file whose sender was unknown.
const rescan = time.Second

// seldom is the number of Rescan intervals between two attempts at an action that costs a transaction and rarely
// helps: a delivery without a wakeup, and the import of a file that failed for a reason outside the file.
const seldom = 10

// watch is the state of one call of Once or Run.
type watch struct {
	engine *delivery.Engine
	o      Options
	log    *slog.Logger
	root   string            // absolute, links resolved
	target string            // of agents whose messages are delivered into the root
	heard  *fsnotify.Watcher // nil: the system does not report changes

	seen map[string]map[string]sight // by folder and file; "" is the folder itself

	gone map[string]map[string]time.Time // by folder and message: since when a delivered file is missing

	restored  bool // files that a killed watch left in its bins are restored
	binMissed bool // the last check found no place for a bin

	places map[string]letter.Identity // the inbox folders at the last check

	agents []ledger.Agent // at the last check
	strict bool           // messages must follow the routes of their types, at the last check
	end    context.CancelCauseFunc

	mu      sync.Mutex
	counts  Counts
	waiting chan struct{} // holds one value for each delivery that is being waited for
}

// Once imports the files that exist, acknowledges the messages whose files were removed, delivers the messages that
// are due, and returns when all that is done. Errors: invalid_params for an invalid root; those of the database.
func Once(ctx context.Context, engine *delivery.Engine, o Options) (Counts, error) {
	ctx = ledger.WithIdentity(ctx, "") // no caller has proved the identity that a letter claims
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

// lookAgain checks once more after the time for which a file must be missing.
func (w *watch) lookAgain(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(settled):
		return w.look(ctx)
	}
}

// Run imports, acknowledges and delivers, like Once, whenever there is something to do, until ctx ends. The end of
// ctx is not an error. Run is recorded as a daemon. Errors: those of the start, as for Once; one that wraps
// ErrOutdated if a newer program takes over the database.
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
	for range cap(w.waiting) { // wait for the deliveries that are to be counted
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

// trouble logs an error after which the watch tries again. If the database is outdated, trouble ends the watch.
func (w *watch) trouble(ctx context.Context, says string, err error) {
	if errors.Is(err, store.ErrOutdated) {
		w.end(err)
	} else if ctx.Err() == nil {
		w.log.Error(says, "root", w.root, "error", err)
	}
}

// begin checks the root and makes sure that the watch's own agent exists.
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

// checkReaders logs a warning if no agent reads below the root but an agent reads below another root, which may be
// the intended one.
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

// lookAlways checks the folders whenever the system reports a change, and otherwise after a pause, until ctx ends.
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
		for len(changes) > 0 { // one check is enough for all of them
			<-changes
		}
	}
}

// pause returns how long to wait for a change after a check that took the given time. If thousands of files wait
// for their readers, checks take about a tenth of the time.
func (w *watch) pause(took time.Duration) time.Duration {
	return min(max(w.o.Rescan, 10*took), seldom*w.o.Rescan)
}

// heed asks the system to report changes in a folder. Each check asks again, because another folder may have the
// name by now.
func (w *watch) heed(path string) {
	if w.heard == nil {
		return
	}
	if err := w.heard.Add(path); err != nil {
		w.log.Debug("cannot watch a folder for changes; Mailroom checks it periodically", "folder", path, "error", err)
	}
}

// deliverAlways delivers the messages that are due, whenever there may be some, until ctx ends.
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

// deliver delivers the messages that are due without waiting, so that a slow recipient delays nobody. Up to
// cap(w.waiting) deliveries are waited for in goroutines, to count what they deliver.
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

// beside runs Options.Alongside.
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

// result returns the counts and the number of current problems.
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
