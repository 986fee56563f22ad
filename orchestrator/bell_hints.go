package orchestrator

import (
	"time"

	"github.com/fsnotify/fsnotify"
)

// lookDelays are when to look after a hint: it comes before the commit that caused it can be seen. Source: engine.md,
// "Waking up".
var lookDelays = []time.Duration{200 * time.Microsecond, time.Millisecond, 5 * time.Millisecond}

// lookAgain is a chain of looks after a hint; nil is none. A hint during a chain begins it anew only once it has ended,
// so that a busy log cannot keep a listener from sleeping.
type lookAgain struct {
	step  int
	timer *time.Timer
	more  bool // another hint came meanwhile
}

func (l *lookAgain) start() *lookAgain {
	if l != nil {
		l.more = true
		return l
	}
	return &lookAgain{timer: time.NewTimer(lookDelays[0])}
}

func (l *lookAgain) due() <-chan time.Time {
	if l == nil {
		return nil
	}
	return l.timer.C
}

func (l *lookAgain) next() *lookAgain {
	l.step++
	if l.step == len(lookDelays) {
		if !l.more {
			return nil
		}
		l.step, l.more = 0, false
	}
	l.timer.Reset(lookDelays[l.step])
	return l
}

// hints watches the write-ahead log. A log that is not there yet, or a system without inotify and the like, gives none.
func (b *socketBell) hints() (events <-chan fsnotify.Event, stop func()) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, func() {}
	}
	if err := watcher.Add(b.wal); err != nil {
		watcher.Close()
		return nil, func() {}
	}
	return watcher.Events, func() { watcher.Close() }
}
