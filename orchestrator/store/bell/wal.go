package bell

import (
	"os"
	"runtime"

	"github.com/fsnotify/fsnotify"
)

// walHint watches the -wal file for writes. A nil walHint has no events. It is not safe for concurrent use.
//
// It watches the file and not the folder, which would report every other file, too. The file exists as long as any
// process has the database open, but it may be created later, be removed, or be replaced by another file of the same
// name; renew handles these cases.
//
// Only Linux can watch a file without opening it. Elsewhere the watcher would hold a descriptor of a file that
// belongs to SQLite, so there is no hint.
type walHint struct {
	path    string
	watcher *fsnotify.Watcher
	watched os.FileInfo // nil: there is no file to watch
}

// watchWAL begins to watch path. It returns nil on systems other than Linux, and if the user has too many watchers.
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

// renew makes sure that the file that has the name now is watched. It reports whether it began to watch another
// file, whose earlier writes may have been missed.
func (h *walHint) renew() (changed bool) {
	if h == nil {
		return false
	}
	now, err := os.Lstat(h.path) // before the watch: if the file changes in between, the next renew finds out
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

// handle processes an event. The watch of a removed file is gone, and the next file of that name may well get the
// same inode.
func (h *walHint) handle(event fsnotify.Event) {
	if event.Has(fsnotify.Remove) || event.Has(fsnotify.Rename) {
		h.drop()
	}
	h.renew()
}

// watching reports whether a file is watched.
func (h *walHint) watching() bool { return h != nil && h.watched != nil }

func (h *walHint) drop() {
	if h.watched != nil {
		h.watcher.Remove(h.path) // fails if the kernel has already removed the watch
		h.watched = nil
	}
}

// events delivers at least one event after every write. The caller must pass the events to handle.
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
