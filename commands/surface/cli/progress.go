package cli

import (
	"context"
	"fmt"
	"sync"
	"time"

	"mailroom/commands"
)

// progressEvery is how often a progress line is drawn anew.
const progressEvery = 100 * time.Millisecond

// progress shows how far long work is, on one line of a terminal's standard error, also while JSON goes into a file or a
// pipe; not among JSON on the same terminal. finish wipes the line.
func (p *Program) progress(ctx context.Context) (_ context.Context, finish func()) {
	if !p.ErrTerminal || (!p.text() && p.OutTerminal) {
		return ctx, func() {}
	}
	var mu sync.Mutex
	var drawn time.Time
	shown := false
	report := func(done, total int64, unit string) {
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
	return commands.WithProgress(ctx, report), func() {
		mu.Lock()
		defer mu.Unlock()
		if shown {
			fmt.Fprint(p.Err, "\r\x1b[K")
		}
	}
}
