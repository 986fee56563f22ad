package bridge

import (
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fsnotify/fsnotify"
)

// ear hears of changes below the root, if the system can tell. A nil ear is deaf.
type ear struct {
	watcher *fsnotify.Watcher // nil: the system cannot tell
	log     *slog.Logger
	heeded  map[string]os.FileInfo // the folders that are listened to, and what they were
	folders map[string]bool        // that something was heard of
	all     bool                   // look at everything
}

// listen makes an ear. One that cannot be made is no failure: everything is looked at now and then.
func listen(log *slog.Logger) *ear {
	e := &ear{log: log, heeded: map[string]os.FileInfo{}, folders: map[string]bool{}}
	var err error
	if e.watcher, err = fsnotify.NewBufferedWatcher(4096); err != nil {
		log.Warn("the system does not tell of changes in folders; they are looked at every some seconds", "error", err)
		e.watcher = nil
	}
	return e
}

func (e *ear) close() {
	if e.watcher != nil {
		e.watcher.Close()
	}
}

func (e *ear) events() <-chan fsnotify.Event {
	if e.watcher == nil {
		return nil
	}
	return e.watcher.Events
}

func (e *ear) errors() <-chan error {
	if e.watcher == nil {
		return nil
	}
	return e.watcher.Errors
}

// heed listens to a folder from now on. A folder that has taken the place of another is listened to in its stead.
func (e *ear) heed(path string, info os.FileInfo) {
	if e == nil || e.watcher == nil {
		return
	}
	if before := e.heeded[path]; before != nil {
		if os.SameFile(before, info) {
			return
		}
		_ = e.watcher.Remove(path) // it may have ended by itself
	}
	if err := e.watcher.Add(path); err != nil {
		e.log.Debug("a folder cannot be listened to; it is looked at every some seconds", "folder", path, "error", err)
		delete(e.heeded, path)
		return
	}
	e.heeded[path] = info
}

// heard notes what an event says.
func (e *ear) heard(root string, event fsnotify.Event) {
	if event.Op == fsnotify.Chmod {
		return
	}
	if _, folder := e.heeded[event.Name]; folder && event.Has(fsnotify.Remove|fsnotify.Rename) {
		_ = e.watcher.Remove(event.Name)
		delete(e.heeded, event.Name) // even if it comes back, nothing more is heard of it
	}
	rest, below := strings.CutPrefix(event.Name, root+string(filepath.Separator))
	if !below {
		e.all = true
		return
	}
	name, _, _ := strings.Cut(rest, string(filepath.Separator))
	e.folders[name] = true
}

// drain notes what was heard meanwhile.
func (e *ear) drain(root string) {
	for {
		select {
		case event := <-e.events():
			e.heard(root, event)
		default:
			return
		}
	}
}

// take returns what is to be looked at, and forgets it.
func (e *ear) take() (all bool, folders []string) {
	all, folders = e.all, slices.Sorted(maps.Keys(e.folders))
	e.all = false
	clear(e.folders)
	return all, folders
}
