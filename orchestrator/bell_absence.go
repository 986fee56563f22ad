package orchestrator

import (
	"errors"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// absence knows that a bell's folder does not exist, until the folder above it changes: to look for it by its name takes
// ten times as long as to ask for the state of an open folder. The zero value knows nothing. Not safe for concurrent use.
type absence struct {
	missed bool // the folder was missed before; a process that rings once keeps nothing open
	opened bool // above is valid
	above  int
	before unix.Stat_t // above, as it was before the folder was looked for
	sure   bool        // the folder was not there after before
}

// stands reports whether the folder is still known to be absent. If not, look for it and say what came of it to seen.
func (a *absence) stands() bool {
	if !a.opened {
		return false
	}
	var now unix.Stat_t
	if unix.Fstat(a.above, &now) != nil || now.Nlink == 0 {
		a.drop()
		return false
	}
	if a.sure && now.Mtim == a.before.Mtim && now.Ctim == a.before.Ctim && now.Nlink == a.before.Nlink {
		return true
	}
	a.before, a.sure = now, false
	return false
}

// seen takes in that the folder could not be opened, and why. keep says that something may be kept open.
func (a *absence) seen(folder string, why error, keep bool) {
	switch {
	case !errors.Is(why, unix.ENOENT) || !keep:
		a.drop()
	case a.opened:
		a.sure = time.Since(time.Unix(a.before.Mtim.Unix())) > unsureFor
	case a.missed:
		dir, err := unix.Open(filepath.Dir(folder), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		a.above, a.opened = dir, err == nil
	}
	a.missed = true
}

func (a *absence) drop() {
	if a.opened {
		unix.Close(a.above)
	}
	*a = absence{}
}
