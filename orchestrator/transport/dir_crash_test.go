package transport_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"mailroom/orchestrator/letter"
	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/transport"
)

// A reader is a helper process that takes messages out of a folder at once: it reads a file, records its ID and
// removes the file. It fails if it finds anything except whole messages. A stop file ends it.
type reader struct {
	t            *testing.T
	inbox, taken string
}

func runReader(t *testing.T, args []string) {
	r := &reader{t: t, inbox: args[0], taken: args[1]}
	stop := args[2]
	watcher, err := fsnotify.NewWatcher()
	must(t, err)
	defer watcher.Close()
	must(t, watcher.Add(r.inbox))
	must(t, watcher.Add(filepath.Dir(stop)))
	say("ready")
	for {
		_, err := os.Stat(stop)
		r.take()
		if err == nil {
			return
		}
		select {
		case <-watcher.Events:
		case err := <-watcher.Errors:
			must(t, err)
		}
	}
}

// take takes the existing messages of each sender in the order of their times. A listing may miss a file that is
// older than one that it contains. Therefore take makes a second listing and takes no file that is newer than the
// newest of the first.
func (r *reader) take() {
	until := map[string]time.Time{}
	for name, at := range r.list() {
		if sender := senderOf(name); at.After(until[sender]) {
			until[sender] = at
		}
	}
	times := r.list()
	var names []string
	for name, at := range times {
		if !at.After(until[senderOf(name)]) {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return times[a].Compare(times[b]) })
	for _, name := range names {
		path := filepath.Join(r.inbox, name)
		text, err := os.ReadFile(path)
		must(r.t, err)
		l, err := letter.Parse(text)
		if err != nil {
			r.t.Fatalf("%s is no whole message: %v\n%.200s", name, err, text)
		}
		appendTo(r.t, r.taken, l.ID+"\n")
		must(r.t, os.Remove(path))
	}
}

func senderOf(name string) string {
	sender, _, _ := strings.Cut(name, "-")
	return sender
}

// list returns the times of the files in the folder. Nothing else removes files from it.
func (r *reader) list() map[string]time.Time {
	entries, err := os.ReadDir(r.inbox)
	must(r.t, err)
	times := map[string]time.Time{}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") {
			r.t.Fatalf("there is a file that is no message: %q", e.Name())
		}
		info, err := e.Info()
		must(r.t, err)
		times[e.Name()] = info.ModTime()
	}
	return times
}

// Two couriers that share a folder are killed with SIGKILL hundreds of times, at any point of an attempt, while a
// reader takes the messages at once. In the end the reader has received each message once, in order for each
// courier, with no partial file, and nothing is left staged.
func TestDirKill(t *testing.T) {
	t.Parallel()
	rounds, messages := helper.Times(110), helper.Times(600)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	root, notebook, signals := realTempDir(t), t.TempDir(), t.TempDir()
	must(t, os.Mkdir(filepath.Join(notebook, "notes"), 0o700))
	inbox, taken, stop := filepath.Join(root, "builder"), filepath.Join(notebook, "taken"),
		filepath.Join(signals, "stop")
	must(t, os.Mkdir(inbox, 0o700))
	reader := helper.Start(t, "reader", inbox, taken, stop)
	if event := <-reader.Lines; event != "ready" {
		t.Fatal(event)
	}
	start := func(name string) *helper.Process {
		seed := strconv.FormatUint(random.Uint64(), 10)
		return helper.Start(t, "courier", root, notebook, name, strconv.Itoa(messages), seed, "dir", "8")
	}
	kills := 0
	for range rounds {
		a, b := start("a"), start("b")
		kills += killAtRandom(random, a, b) + killAtRandom(random, b, a)
	}
	a, b := start("a"), start("b")
	a.Wait()
	b.Wait()
	must(t, os.WriteFile(stop, nil, 0o600))
	reader.Wait()
	text, err := os.ReadFile(taken)
	must(t, err)
	ids := strings.Fields(string(text))
	mustBeWhole(t, ids, messages, "a", "b")
	if len(ids) != 2*messages {
		t.Errorf("%d messages were taken, not %d", len(ids), 2*messages)
	}
	if left := files(t, root, transport.StagingFolder); !slices.Equal(left, []string{"README"}) {
		t.Errorf("left on their way: %q", left)
	}
	t.Logf("%d kills in the middle of something", kills)
}

// killAtRandom lets a process run a few steps and kills it at once or a moment later. It returns 1 if the process
// was still at work.
func killAtRandom(random *rand.Rand, victim, other *helper.Process) int {
	defer victim.Kill()
	for range 1 + random.IntN(6) {
		if _, ok := next(victim, other); !ok {
			return 0
		}
	}
	for range random.IntN(3000) {
		runtime.Gosched()
	}
	return 1
}

// Three processes write to one agent's folder while it is repeatedly moved away. No message is lost or duplicated,
// and the order of each process is kept.
func TestDirSharedAndMovedAway(t *testing.T) {
	t.Parallel()
	const messages = 200
	root, notebook := realTempDir(t), t.TempDir()
	must(t, os.Mkdir(filepath.Join(notebook, "notes"), 0o700))
	names := []string{"a", "b", "c"}
	var couriers []*helper.Process
	for i, name := range names {
		couriers = append(couriers, helper.Start(t, "courier",
			root, notebook, name, strconv.Itoa(messages), strconv.Itoa(i), "dir", "8"))
	}
	var parts []string
	for i := 0; i < len(couriers); {
		if _, alive := <-couriers[i].Lines; !alive {
			couriers[i].Wait()
			i++
			continue
		}
		part := "builder." + strconv.Itoa(len(parts))
		if os.Rename(filepath.Join(root, "builder"), filepath.Join(root, part)) == nil {
			parts = append(parts, part)
		}
	}
	var ids []string
	for _, part := range append(parts, "builder") {
		for _, name := range files(t, root, part) {
			ids = append(ids, strings.TrimSuffix(name, ".json"))
		}
	}
	t.Logf("moved away %d times", len(parts))
	mustBeWhole(t, ids, messages, names...)
	if len(ids) != len(names)*messages {
		t.Errorf("%d messages, not %d", len(ids), len(names)*messages)
	}
}
