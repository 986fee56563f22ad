package cli

import (
	"fmt"
	"sync"
	"time"
)

// progressEvery is how often a progress line is drawn anew.
const progressEvery = 100 * time.Millisecond

// progress shows how far long work is, on one line of a terminal's standard error, also while JSON goes into a file or
// a pipe; not among JSON on the same terminal. report is nil where nobody sees it; finish wipes the line.
func (p *Program) progress() (report func(done, total int64, unit string), finish func()) {
	if !p.ErrTerminal || p.there != nil || (!p.text() && p.OutTerminal) { // a client draws no line anew
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
