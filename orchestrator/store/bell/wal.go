package bell

import (
	"os"
	"runtime"

	"github.com/fsnotify/fsnotify"
)

// walHint watches the -wal file for writes. A nil walHint has no events. Not safe for concurrent use.
//
// It watches the file and not the folder, which would tell of every other file too. The file exists as long as any
// process has the database open, but it may come late, go, or be another one under the same name: renew sees to that.
//
// Only Linux watches a file without opening it. Elsewhere the watcher would hold a descriptor of a file that belongs to
// SQLite, so there is no hint.
type walHint struct {
	path    string
	watcher *fsnotify.Watcher
	watched os.FileInfo // nil: there is no file to watch
}

// watchWAL returns nil if there is nothing to watch with: not on Linux, or the user has too many watchers already.
func watchWAL(path string) *walHint {
	if runtime.GOOS != "linux" {
		return nil
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil
	}
	h := &walHint{path: path, watcher: watcher}
	h.renew()
	return h
}

// renew makes sure that the file which has the name now is the one that is watched. It reports whether it watches
// another one than before, of which writes may have been missed.
func (h *walHint) renew() (changed bool) {
	if h == nil {
		return false
	}
	now, err := os.Lstat(h.path) // before the watch: if the file changes in between, the next renew notices
	if err == nil && h.watched != nil && os.SameFile(now, h.watched) {
		return false
	}
	h.drop()
	if err != nil || h.watcher.Add(h.path) != nil {
		return false
	}
	h.watched = now
	return true
}

// handle does what an event asks for. A removed file has taken its watch along, and the next file under that name may
// well get the same inode.
func (h *walHint) handle(event fsnotify.Event) {
	if event.Has(fsnotify.Remove) || event.Has(fsnotify.Rename) {
		h.drop()
	}
	h.renew()
}

// watching reports whether there is a file that is watched.
func (h *walHint) watching() bool { return h != nil && h.watched != nil }

func (h *walHint) drop() {
	if h.watched != nil {
		h.watcher.Remove(h.path) // fails if the kernel has dropped it already
		h.watched = nil
	}
}

// events delivers at least one event after every write. Pass them to handle.
func (h *walHint) events() <-chan fsnotify.Event {
	if h == nil {
		return nil
	}
	return h.watcher.Events
}

func (h *walHint) errors() <-chan error {
	if h == nil {
		return nil
	}
	return h.watcher.Errors
}

func (h *walHint) close() {
	if h != nil {
		h.watcher.Close()
	}
}
