package transport_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/corpus"
	"mailroom/orchestrator/transport"
)

// healSeeds lists what a crash may leave after the last whole line: the line of the message "lost", whole or not,
// lines of others before it, and noise.
var healSeeds = []string{
	``, "\n", `{"message_id":"lost"}`, `{"message_id":"lost"}` + "\n",
	`{"message_id":"lost","sender":"architect","recipient":"builder","message_type":"note","payload":{"n":1},"status":"delivered"}` + "\n",
	`{"message_id":"other","payload":"\"message_id\":\"lost\""}` + "\n" + `{"message_id":"lost","sender":"arch`,
	`{"message_id":"other","payload":{"message_id":"lost"}}` + "\n\n" + `{"message_id":"los`,
	"\x00\x00\x00\x00\x00\x00\x00\x00", "\xff\xfe{\"message_id\":\"lost\"}\n", `[{"message_id":"lost"}]` + "\n",
	`{"message_id":["lost"]}` + "\r\n",
}

var errDied = errors.New("the process died here")

// dies marks messages like an attempt, and writes nothing.
func (l *notebook) dies(t *testing.T, path string, m orchestrator.Message) {
	t.Helper()
	a := l.attempt(path, m)
	mark := a.Mark
	a.Mark = func(ctx context.Context, note string) error { return errors.Join(mark(ctx, note), errDied) }
	if err := errors.Join(transport.JSONL{}.Deliver(t.Context(), a)...); !errors.Is(err, errDied) {
		t.Fatalf("the attempt that died says %v", err)
	}
}

// mustRecover checks the result of Recover for a message.
func (l *notebook) mustRecover(t *testing.T, path, id string, want bool) {
	t.Helper()
	if got, err := l.recover(t, path, note(id, `1`)); err != nil || got != want {
		t.Fatalf("Recover of %s: %t, %v; want %t", id, got, err, want)
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	return string(b)
}

// linesOf counts the lines that a reader would take for the message. A last line without its newline counts. A line
// with an ID that is escaped in another way than ours does not.
func linesOf(text, id string) (n int) {
	for line := range strings.SplitSeq(text, "\n") {
		var l struct {
			ID string `json:"message_id"`
		}
		if json.Unmarshal([]byte(line), &l) == nil && l.ID == id && strings.Contains(line, `"`+id+`"`) {
			n++
		}
	}
	return n
}

// checkHealing checks the recovery of an attempt to write "lost" that died, with tail in the file since. Whatever
// tail is, none of its bytes is changed, "lost" is found if its line is whole and otherwise written once, the next
// line begins after a newline, and every delivered message is found again.
func checkHealing(t *testing.T, tail string) (malformed bool) {
	folder, err := os.MkdirTemp(inMemory(t), "mailroom-test-*")
	must(t, err)
	defer os.RemoveAll(folder)
	path, l := filepath.Join(folder, "b.jsonl"), &notebook{}
	l.deliver(t, path, note("kept-1", `{"n":1.10}`), note("kept-2", `2`))
	l.dies(t, path, note("lost", `3`))
	appendTo(t, path, tail)
	left := content(t, path)
	if strings.Count(left[:len(left)-len(tail)], "\n") != 2 {
		t.Fatalf("before the crash the file was %q", left)
	}

	there := linesOf(tail, "lost")
	l.mustRecover(t, path, "lost", there > 0)
	recovered := content(t, path)
	if recovered != left && (there == 0 || recovered != left+"\n" || strings.HasSuffix(left, "\n")) {
		t.Fatalf("Recover made %q of %q", recovered, left)
	}
	want := []string{"lost", "after"}
	if there > 0 {
		want = want[1:]
	}
	for _, id := range want {
		l.deliver(t, path, note(id, `4`))
	}
	healed := content(t, path)
	rest, ok := strings.CutPrefix(healed, recovered)
	if !strings.HasSuffix(recovered, "\n") {
		ok = ok && strings.HasPrefix(rest, "\n")
		rest = strings.TrimPrefix(rest, "\n")
	}
	if !ok {
		t.Fatalf("what stood there, %q, became %q", recovered, healed)
	}
	mustBeLines(t, rest, want)
	if got := linesOf(healed, "lost"); got != max(1, there) {
		t.Errorf("lost is there %d times; want %d", got, max(1, there))
	}
	for _, id := range []string{"kept-1", "kept-2", "lost", "after"} {
		l.mustRecover(t, path, id, true)
	}
	l.dies(t, path, note("never", `5`))
	l.mustRecover(t, path, "never", false)
	if again := content(t, path); again != healed {
		t.Errorf("looking for messages made %q of %q", again, healed)
	}
	return !wellFormed(tail)
}

// inMemory returns a folder for many short-lived files. Syncs are free there if the system has a file system in
// memory.
func inMemory(t *testing.T) string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() && unix.Access("/dev/shm", unix.W_OK) == nil {
		return "/dev/shm"
	}
	return t.TempDir()
}

// mustBeLines checks that a text consists of one line for each ID.
func mustBeLines(t *testing.T, text string, ids []string) {
	t.Helper()
	var got []string
	for line := range strings.Lines(text) {
		var l struct {
			ID string `json:"message_id"`
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil || !strings.HasSuffix(line, "\n") {
			t.Fatalf("the line %q is no whole one: %v", line, err)
		}
		got = append(got, l.ID)
	}
	if strings.Join(got, " ") != strings.Join(ids, " ") {
		t.Fatalf("the lines are of %v; want %v", got, ids)
	}
}

// wellFormed reports whether a text consists of whole lines of JSON objects.
func wellFormed(text string) bool {
	for line := range strings.Lines(text) {
		var object map[string]json.RawMessage
		if !strings.HasSuffix(line, "\n") || json.Unmarshal([]byte(line), &object) != nil || object == nil {
			return false
		}
	}
	return true
}

func FuzzJSONLHealing(f *testing.F) {
	for _, seed := range healSeeds {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, tail string) { checkHealing(t, tail) })
}

// TestMalformedJSONL replays the stored inputs of FuzzJSONLHealing.
func TestMalformedJSONL(t *testing.T) {
	t.Parallel()
	corpus.Target{
		Name: "FuzzJSONLHealing", Package: "mailroom/orchestrator/transport", Seeds: healSeeds,
		Tokens: []string{"\n", "\r", `"`, `{`, `}`, `\`, "\x00", "\xff", `{"message_id":"lost"}`,
			`"message_id":"lost",`, "\n" + `{"message_id":"after"}`},
		Check: checkHealing,
	}.Replay(t, 2500)
}

// TestLinesOf checks the helper linesOf.
func TestLinesOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		``: 0, `{"message_id":"lost"}`: 1, `{"message_id":"lost"`: 0, `{"x":{"message_id":"lost"}}`: 0,
		strings.Repeat(`{"message_id":"lost"}`+"\n", 2): 2, string(bytes.Repeat([]byte{0}, 9)): 0,
	} {
		if got := linesOf(text, "lost"); got != want {
			t.Errorf("%q has %d lines of it; want %d", text, got, want)
		}
	}
}
