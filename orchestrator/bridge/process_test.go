package bridge_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"mailroom/orchestrator/bridge"
	"mailroom/orchestrator/orchestratortest/helper"
)

// helperProcesses are run by tests as separate processes. They print their progress line by line.
var helperProcesses = map[string]func(t *testing.T, args []string){
	"watch": runWatch,
	"drop":  runDrop,

	"unreadable":       runUnreadable,
	"read-only folder": runReadOnlyFolder,
}

// unprivileged runs a helper process that gives up the superuser's rights, which would permit everything.
func unprivileged(t *testing.T, name string) {
	t.Helper()
	top, err := os.MkdirTemp("", "unprivileged-") // t.TempDir is below a folder that only its owner may enter
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(top) })
	must(t, os.Chmod(top, 0o777))
	helper.Start(t, name, top).Wait()
}

// giveUpRights is the first step of such a process. Its files are created below top.
func giveUpRights(t *testing.T, top string) {
	t.Setenv("TMPDIR", top)
	if os.Geteuid() == 0 {
		must(t, syscall.Setgid(65534))
		must(t, syscall.Setuid(65534))
	}
}

func TestHelperProcess(t *testing.T) { helper.RunTest(t, helperProcesses) }

// say prints the helper's progress. It writes at once, so that a kill loses nothing.
func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// runWatch watches a root until SIGTERM: DATABASE ROOT. It prints the log, the end of each check, and its counts.
func runWatch(t *testing.T, args []string) {
	ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGTERM)
	defer stop()
	log := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelDebug})
	r := open(t, args[0], log)
	defer r.Close()
	counts, err := bridge.Run(ctx, r, bridge.Options{
		Root: args[1], Name: "watchdog", Log: slog.New(log), Rescan: time.Second, Looked: func() { say("looked") },
	})
	must(t, err)
	say("counts %+v", counts)
}

// runDrop writes a number of messages like an agent without Mailroom: ROOT NAME COUNT WAY AGENT... With the way
// rename, files appear whole; with write, they appear piece by piece.
func runDrop(t *testing.T, args []string) {
	root, name, way, agents := args[0], args[1], args[3], args[4:]
	count := 0
	_, err := fmt.Sscan(args[2], &count)
	must(t, err)
	for i := range count {
		to := agents[i%len(agents)]
		id := fmt.Sprintf("%s-%d", name, i)
		drop(t, filepath.Join(root, to), id, note(id, "pm", to), way)
	}
}

// drop writes one file into a folder.
func drop(t *testing.T, folder, id, text, way string) {
	t.Helper()
	path := filepath.Join(folder, id+".json")
	if way == "rename" {
		must(t, os.WriteFile(path+".tmp", []byte(text), 0o600))
		must(t, os.Rename(path+".tmp", path))
		return
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	must(t, err)
	defer file.Close()
	for len(text) > 0 {
		n := min(len(text), 40)
		_, err := file.WriteString(text[:n])
		must(t, err)
		text = text[n:]
	}
}

// watching is a watch in this process.
type watching struct {
	t      *testing.T
	looked chan struct{}
	stop   func() bridge.Counts
}

// watch starts a watch. With a rescan of an hour, it checks only when the system reports a change.
func (o *office) watch(rescan time.Duration) *watching {
	o.T.Helper()
	ctx, cancel := context.WithCancel(o.T.Context())
	w := &watching{t: o.T, looked: make(chan struct{}, 1)}
	options := o.options()
	options.Rescan = rescan
	options.Looked = func() {
		select {
		case w.looked <- struct{}{}:
		default: // one is waiting already
		}
	}
	result := make(chan bridge.Counts, 1)
	go func() {
		counts, err := bridge.Run(ctx, o.Engine, options)
		if err != nil {
			o.T.Errorf("the watch: %v", err)
		}
		result <- counts
	}()
	stopped := false
	w.stop = func() bridge.Counts {
		stopped = true
		cancel()
		return <-result
	}
	o.T.Cleanup(func() {
		if !stopped {
			w.stop()
		}
	})
	<-w.looked
	return w
}

// until returns when holds returns true after a check.
func (w *watching) until(holds func() bool) {
	w.t.Helper()
	for !holds() {
		select {
		case <-w.looked:
		case <-w.t.Context().Done():
			w.t.Fatal("the test is over")
		}
	}
}
