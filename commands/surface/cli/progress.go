package cli

import (
	"fmt"
	"sync"
	"time"
)

// progressEvery is the interval at which a progress line is redrawn.
const progressEvery = 100 * time.Millisecond

// progress shows the progress of long work on one line of standard error, if that is a terminal, even if JSON goes to
// a file or a pipe. It does not do so if JSON goes to the same terminal. report is nil if nobody would see the
// progress; finish erases the line.
func (p *Program) progress() (report func(done, total int64, unit string), finish func()) {
	if !p.ErrTerminal || p.there != nil || (!p.text() && p.OutTerminal) { // a remote client does not redraw lines
		return nil, func() {}
	}
	var mu sync.Mutex
	var drawn time.Time
	shown := false
	report = func(done, total int64, unit string) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(drawn) < progressEvery {
			return
		}
		drawn, shown = time.Now(), true
		if total > 0 {
			fmt.Fprintf(p.Err, "\r\x1b[K%d of %d %s (%d %%)", done, total, unit, done*100/total)
		} else {
			fmt.Fprintf(p.Err, "\r\x1b[K%d %s", done, unit)
		}
	}
	return report, func() {
		mu.Lock()
		defer mu.Unlock()
		if shown {
			fmt.Fprint(p.Err, "\r\x1b[K")
		}
	}
}
