package transport_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest"
	"mailroom/orchestrator/transport"
)

func TestJSONL(t *testing.T) {
	t.Parallel()
	orchestratortest.ExerciseTransport(t, func(t *testing.T) orchestratortest.Fixture {
		folder := t.TempDir()
		path := filepath.Join(folder, "builder.jsonl")
		away := folder + "-away"
		if err := unix.Mkfifo(filepath.Join(folder, "pipe"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("nothing", filepath.Join(folder, "dangling")); err != nil {
			t.Fatal(err)
		}
		return orchestratortest.Fixture{
			Transport: transport.JSONL{},
			Address:   path,
			Refused: []string{
				"", "/", folder, folder + "/", filepath.Join(folder, "pipe"), "/dev/null", "a\x00b",
				filepath.Join(folder, "dangling"), filepath.Join(folder, strings.Repeat("x", 251)),
			},
			Arrived: func(t *testing.T) []orchestratortest.Arrival { return arrived(t, path) },
			Tear:    func(t *testing.T) { appendTo(t, path, `{"message_id":"second","sender":"arch`) },
			Lose:    losses(path),
			Block:   func(t *testing.T) func() { return hold(t, path) },
			Fail: func(t *testing.T) func() {
				must(t, os.Rename(folder, away))
				return func() { must(t, os.Rename(away, folder)) }
			},
			Says: "does not exist; create it",
		}
	})
}

// losses returns ways in which the lines of a file become unavailable.
func losses(path string) []func(t *testing.T) {
	remove := func(t *testing.T) {
		pass(t, path)
		must(t, os.Remove(path))
	}
	empty := func(t *testing.T) {
		pass(t, path)
		must(t, os.Truncate(path, 0))
	}
	return []func(t *testing.T){
		remove,
		func(t *testing.T) { // like logrotate
			pass(t, path)
			must(t, os.Rename(path, path+".1"))
		},
		func(t *testing.T) { // the inode number may be the same
			remove(t)
			appendTo(t, path, "")
		},
		empty,
		func(t *testing.T) { // and the file has grown since
			empty(t)
			appendTo(t, path, strings.Repeat("{\"message_id\":\"foreign\"}\n", 100))
		},
		func(t *testing.T) { // like an editor
			pass(t, path)
			must(t, os.WriteFile(path+".new", []byte("{}\n"), 0o600))
			must(t, os.Rename(path+".new", path))
		},
		func(t *testing.T) { // from a copy that was made before
			text, err := os.ReadFile(path)
			must(t, err)
			remove(t)
			last := bytes.LastIndexByte(bytes.TrimSuffix(text, []byte("\n")), '\n') + 1
			appendTo(t, path, string(text[:last]))
		},
		func(t *testing.T) { // the same, while the replaced file still exists
			text, err := os.ReadFile(path)
			must(t, err)
			pass(t, path)
			last := bytes.LastIndexByte(bytes.TrimSuffix(text, []byte("\n")), '\n') + 1
			must(t, os.WriteFile(path+".new", text[:last], 0o600))
			must(t, os.Rename(path+".new", path))
		},
	}
}

// The line is the contract with readers of the file.
func TestJSONLLine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "b.jsonl")
	var l notebook
	l.deliver(t, path, orchestrator.Message{
		ID: "msg-1", Sender: "architect", Recipient: "builder", Type: "spec_ready",
		Payload: json.RawMessage(`{"a": "<b>", "n": 1.10}`),
		Status:  orchestrator.Retry, CreatedAt: "2025-10-26T10:30:00.000Z", RetryCount: 2, MaxRetries: 3,
		Error: "no disk", Priority: 9,
		Summary: "s", Context: "c", Action: "interrupt", ThreadID: "t", SessionID: "default", ReplyTo: "msg-0", Hops: 1,
		MulticastID: "mc-1", Group: "all", IdempotencyKey: "k", NextAttemptAt: "2025-10-26T10:31:00.000Z",
		ExpiresAt: "2025-10-27T10:30:00.000Z", LeaseOwner: "host-1", Crashes: 1, TraceID: "0af7", SpanID: "b7ad",
	}, note("msg-2", `null`))
	want := `{"message_id":"msg-1","sender":"architect","recipient":"builder","message_type":"spec_ready","payload":{"a":"<b>","n":1.10},` +
		`"status":"delivered","created_at":"2025-10-26T10:30:00.000Z","retry_count":2,"priority":9,"summary":"s","context":"c",` +
		`"action":"interrupt","thread_id":"t","session_id":"default","reply_to":"msg-0","multicast_id":"mc-1","multicast_target":"all",` +
		`"expires_at":"2025-10-27T10:30:00.000Z","trace_id":"0af7","span_id":"b7ad"}` + "\n" +
		`{"message_id":"msg-2","sender":"architect","recipient":"builder","message_type":"note","payload":null,` +
		`"status":"delivered","created_at":"2025-10-26T10:30:00.000Z","retry_count":0,"priority":0}` + "\n"
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s, %v\nwant\n%s", got, err, want)
	}
	for _, name := range []string{path, path + ".lock"} {
		if info, err := os.Stat(name); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

// A crash may cut the write anywhere. In the end the message is in the file once, and a line that lacks only its
// newline is not written again. Source: engine, "Crash between delivering and settling".
func TestJSONLEveryTear(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"", "{}\n", "{\"message_id\":\"m1\",\"se"} {
		for _, healed := range []bool{false, true} { // another writer comes first
			t.Run(fmt.Sprintf("%q,healed=%v", before, healed), func(t *testing.T) {
				t.Parallel()
				everyTear(t, before, healed)
			})
		}
	}
}

func everyTear(t *testing.T, before string, healed bool) {
	path := filepath.Join(t.TempDir(), "b.jsonl")
	m1, m2, other := note("m1", `"ä"`), note("m2", `2`), note("other", `3`)
	step := 1
	if testing.Short() {
		step = 3
	}
	for cut := len(before); ; cut += step {
		var l notebook
		must(t, os.WriteFile(path, []byte(before), 0o600))
		l.deliver(t, path, m1, m2)
		text, err := os.ReadFile(path)
		must(t, err)
		if cut > len(text) {
			return
		}
		if cut == 0 {
			continue // an empty file does not show whether it was emptied: see the suite's LostEvidence
		}
		must(t, os.Truncate(path, int64(cut)))
		if healed {
			l.deliver(t, path, other)
		}
		for _, m := range []orchestrator.Message{m1, m2} {
			had, err := l.recover(t, path, m)
			if err != nil {
				t.Fatalf("cut at %d: %v", cut, err)
			}
			if !had {
				l.deliver(t, path, m)
			}
			if again, err := l.recover(t, path, m); !again || err != nil {
				t.Fatalf("cut at %d: after all, Recover of %s: %v, %v", cut, m.ID, again, err)
			}
		}
		got := map[string]int{}
		for _, a := range arrived(t, path) {
			got[a.ID]++
		}
		if got["m1"] != 1 || got["m2"] != 1 {
			after, _ := os.ReadFile(path)
			t.Fatalf("cut at %d: %v\n%s", cut, got, after)
		}
	}
}

// A message that could not be written is not blocked by changes to the file before the next attempt.
func TestJSONLForgetsWhatItDidNotWrite(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "b.jsonl")
	var l notebook
	m := note("m", `1`)
	ctx, cancel := context.WithCancel(t.Context())
	a := l.attempt(path, m)
	mark := a.Mark
	a.Mark = func(ctx context.Context, note string) error {
		cancel()
		return mark(ctx, note)
	}
	if err := (transport.JSONL{}).Deliver(ctx, a)[0]; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	must(t, os.Remove(path))
	if had, err := l.recover(t, path, m); had || err != nil {
		t.Errorf("Recover: %v, %v", had, err)
	}
}

// polled is a context that signals each check of its end.
type polled struct {
	context.Context
	looks chan struct{}
}

func (p polled) Done() <-chan struct{} {
	select {
	case p.looks <- struct{}{}:
	default:
	}
	return p.Context.Done()
}

// A lock on a removed lock file excludes nobody, so nobody may rely on one.
func TestJSONLRemovedSideFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "b.jsonl")
	releaseOld := hold(t, path)
	ctx := polled{t.Context(), make(chan struct{})}
	var held atomic.Bool
	var l notebook
	a := l.attempt(path, note("m", `1`))
	mark := a.Mark
	a.Mark = func(ctx context.Context, note string) error {
		if held.Load() {
			return errors.New("the attempt goes on while another holds the lock")
		}
		return mark(ctx, note)
	}
	result := make(chan error, 1)
	go func() { result <- transport.JSONL{}.Deliver(ctx, a)[0] }()
	<-ctx.looks // it is waiting for the lock
	other := filepath.Join(t.TempDir(), "b.jsonl")
	releaseNew := hold(t, other)
	must(t, os.Rename(other+".lock", path+".lock")) // in one step, so that the attempt cannot get in between
	held.Store(true)
	releaseOld()
	for range 5 { // it has the old file by now, and waits again
		select {
		case <-ctx.looks:
		case err := <-result:
			t.Fatalf("it came back: %v", err)
		}
	}
	held.Store(false)
	releaseNew()
	for {
		select {
		case <-ctx.looks:
		case err := <-result:
			must(t, err)
			return
		}
	}
}

// A program that appends without the lock loses nothing.
func TestJSONLForeignAppend(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "b.jsonl")
	var l notebook
	a := l.attempt(path, note("m", `1`))
	mark := a.Mark
	a.Mark = func(ctx context.Context, note string) error {
		appendTo(t, path, "{\"message_id\":\"foreign\"}\n")
		return mark(ctx, note)
	}
	must(t, transport.JSONL{}.Deliver(t.Context(), a)[0])
	got := arrived(t, path)
	if len(got) != 2 || got[0].ID != "foreign" || got[1].ID != "m" {
		t.Errorf("arrived: %v", got)
	}
	if had, err := l.recover(t, path, note("m", `1`)); !had || err != nil {
		t.Errorf("Recover: %v, %v", had, err)
	}
}
