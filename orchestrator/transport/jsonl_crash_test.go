package transport_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/transport"
)

// A courier is a helper process that delivers its messages, NAME-00000 and so on, as the router would. It first
// recovers, one by one, the messages that an earlier process of its name marked and did not settle. Its table is a
// folder: notes/ID is the mark of a message, and settled-NAME lists the settled IDs. A kill loses nothing of
// either.
type courier struct {
	t              *testing.T
	by             carrier
	path, notebook string
	name           string
	random         *rand.Rand
}

// carrier is a transport that can recover the results of its deliveries.
type carrier interface {
	orchestrator.Transport
	orchestrator.Recoverer
}

// runCourier delivers until no message is left. It prints "marked" when a mark is stored, and "written" when
// Deliver has returned and nothing is settled yet.
func runCourier(t *testing.T, args []string) {
	count, err := strconv.Atoi(args[3])
	must(t, err)
	seed, err := strconv.ParseUint(args[4], 10, 64)
	must(t, err)
	carriers := map[string]carrier{"jsonl": transport.JSONL{}, "dir": transport.Dir{}}
	c := &courier{t: t, by: carriers[args[5]], path: args[0], notebook: args[1], name: args[2],
		random: rand.New(rand.NewPCG(seed, 1))}
	most, err := strconv.Atoi(args[6])
	must(t, err)
	settled := c.settled()
	var batch []orchestrator.Message
	size := 0
	for i := range count {
		m := c.message(i)
		if settled[m.ID] {
			continue
		}
		mark, err := os.ReadFile(filepath.Join(c.notebook, "notes", m.ID))
		if err != nil {
			if len(batch) == 0 {
				size = 1 + c.random.IntN(most)
			}
			if batch = append(batch, m); len(batch) == size {
				c.deliver(batch...)
				batch = nil
			}
			continue
		}
		m.Mark = string(mark)
		earlier := orchestrator.Attempt{Recipient: "builder", Address: c.path, Messages: []orchestrator.Message{m}}
		delivered, err := c.by.Recover(t.Context(), earlier)
		must(t, err)
		if delivered {
			say("found")
			c.settle(m)
		} else {
			say("missing")
			c.deliver(m)
		}
	}
	if len(batch) > 0 {
		c.deliver(batch...)
	}
}

// message returns the message with a number. It is always the same.
func (c *courier) message(i int) orchestrator.Message {
	random := rand.New(rand.NewPCG(uint64(i), 2))
	m := note(fmt.Sprintf("%s-%05d", c.name, i), `{"text":"`+strings.Repeat("x", random.IntN(1<<(4+i%12)))+`"}`)
	m.Sender, m.Crashes = c.name, 1 // an earlier process may have died with it
	return m
}

func (c *courier) deliver(ms ...orchestrator.Message) {
	errs := c.by.Deliver(c.t.Context(), orchestrator.Attempt{
		Recipient: "builder", Address: c.path, Messages: ms,
		Mark: func(_ context.Context, note string) error {
			for i := range ms {
				name := filepath.Join(c.notebook, "notes", ms[i].ID)
				if err := os.WriteFile(name+".new", []byte(note), 0o600); err != nil {
					return err
				}
				if err := os.Rename(name+".new", name); err != nil {
					return err
				}
			}
			say("marked")
			return nil
		},
	})
	for _, err := range errs {
		must(c.t, err)
	}
	say("written")
	c.settle(ms...)
}

func (c *courier) settle(ms ...orchestrator.Message) {
	var ids strings.Builder
	for i := range ms {
		ids.WriteString(ms[i].ID + "\n")
	}
	appendTo(c.t, c.settledPath(), ids.String())
	say("settled")
}

func (c *courier) settledPath() string { return filepath.Join(c.notebook, "settled-"+c.name) }

func (c *courier) settled() map[string]bool {
	ids := map[string]bool{}
	text, _ := os.ReadFile(c.settledPath()) // the file may not exist yet
	for id := range strings.Lines(string(text)) {
		ids[strings.TrimSuffix(id, "\n")] = true
	}
	return ids
}

// Two couriers that share a file are repeatedly killed with SIGKILL at any point of an attempt: after the mark,
// during the write, before the settlement. In the end every message is in the file once, in order for each courier.
func TestJSONLKill(t *testing.T) {
	t.Parallel()
	rounds, messages := helper.Times(30), helper.Times(2500)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	folder := t.TempDir()
	path := filepath.Join(folder, "b.jsonl")
	must(t, os.Mkdir(filepath.Join(folder, "notes"), 0o700))
	must(t, os.WriteFile(path, []byte("{\"message_id\":\"a-00000\",\"sender\":\"torn"), 0o600))
	start := func(name string) *helper.Process {
		seed := strconv.FormatUint(random.Uint64(), 10)
		return helper.Start(t, "courier", path, folder, name, strconv.Itoa(messages), seed, "jsonl", "40")
	}
	for range rounds {
		a, b := start("a"), start("b")
		killSomewhere(random, path, a, b)
		killSomewhere(random, path, b, a)
	}
	a, b := start("a"), start("b")
	a.Wait()
	b.Wait()
	whole, torn := lines(t, path)
	for _, text := range torn {
		if !bytes.HasPrefix(text, []byte(`{"message_id"`)) && !bytes.HasPrefix([]byte(`{"message_id"`), text) {
			t.Errorf("a torn line that nobody began: %.100s", text)
		}
	}
	t.Logf("%d torn lines", len(torn))
	mustBeWhole(t, arrivedIDs(t, path), messages, "a", "b")
	if want := 2 * messages; len(whole) != want {
		t.Errorf("%d lines, not %d", len(whole), want)
	}
}

// killSomewhere lets a process run a few steps and kills it, at once or when it has written some more. Meanwhile it
// passes on the other process's events.
func killSomewhere(random *rand.Rand, path string, victim, other *helper.Process) {
	defer victim.Kill()
	for range 1 + random.IntN(12) {
		if _, ok := next(victim, other); !ok {
			return
		}
	}
	if random.IntN(3) == 0 {
		return
	}
	for {
		event, ok := next(victim, other)
		if !ok {
			return
		}
		if event == "marked" {
			break
		}
	}
	// Kill it in the middle of the write, if that takes long enough: the file grows page by page.
	size, more := fileSize(path), 1+random.Int64N(200_000)
	for {
		select {
		case <-victim.Lines:
			return
		case <-other.Lines:
		default:
			if fileSize(path) >= size+more {
				return
			}
			runtime.Gosched()
		}
	}
}

// next waits for the next event of a process. It passes on the other process's events, so that that process does
// not block on a full channel.
func next(h, other *helper.Process) (event string, ok bool) {
	events := other.Lines
	for {
		select {
		case event, ok = <-h.Lines:
			return event, ok
		case _, alive := <-events:
			if !alive {
				events = nil
			}
		}
	}
}

func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

func arrivedIDs(t *testing.T, paths ...string) (ids []string) {
	t.Helper()
	for _, path := range paths {
		for _, a := range arrived(t, path) {
			ids = append(ids, a.ID)
		}
	}
	return ids
}

// mustBeWhole checks that every message of the couriers is there once, in order.
func mustBeWhole(t *testing.T, ids []string, messages int, couriers ...string) {
	t.Helper()
	count, last := map[string]int{}, map[string]string{}
	for _, id := range ids {
		name, _, _ := strings.Cut(id, "-")
		if id <= last[name] {
			t.Errorf("%s stands after %s", id, last[name])
		}
		last[name] = id
		count[id]++
	}
	for _, name := range couriers {
		for i := range messages {
			if id := fmt.Sprintf("%s-%05d", name, i); count[id] != 1 {
				t.Errorf("%s is there %d times", id, count[id])
			}
		}
	}
}

// Three processes write to one file while it is rotated under the lock. No line is lost, torn or duplicated.
func TestJSONLSharedAndRotated(t *testing.T) {
	t.Parallel()
	const messages = 600
	folder := t.TempDir()
	path := filepath.Join(folder, "b.jsonl")
	must(t, os.Mkdir(filepath.Join(folder, "notes"), 0o700))
	names := []string{"a", "b", "c"}
	var couriers []*helper.Process
	for i, name := range names {
		couriers = append(couriers, helper.Start(t, "courier",
			path, folder, name, strconv.Itoa(messages), strconv.Itoa(i), "jsonl", "40"))
	}
	var parts []string
	for i := 0; i < len(couriers); {
		if _, alive := <-couriers[i].Lines; !alive {
			couriers[i].Wait()
			i++
			continue
		}
		if len(parts) < 50 && fileSize(path) > 0 {
			part := fmt.Sprintf("%s.%d", path, len(parts))
			release := hold(t, path)
			must(t, os.Rename(path, part))
			release()
			parts = append(parts, part)
		}
	}
	parts = append(parts, path)
	for _, part := range parts {
		if _, torn := lines(t, part); len(torn) > 0 {
			t.Errorf("%s has torn lines", part)
		}
	}
	t.Logf("rotated %d times", len(parts)-1)
	mustBeWhole(t, arrivedIDs(t, parts...), messages, names...)
}
