// Package orchestratortest contains the test suites that every implementation of the engine's interfaces must pass. A
// test of an implementation calls the suite with a function that creates a new fixture.
package orchestratortest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom/orchestrator"
)

// Fixture is one transport and one recipient without deliveries. Fields that can be nil are nil for transports to
// which they do not apply.
type Fixture struct {
	Transport orchestrator.Transport
	Address   string // canonical, as returned by Check

	// Refused are addresses that Check must reject.
	Refused []string

	// Prepare completes every attempt before it is made, for example with a secret; nil if nothing is missing.
	Prepare func(a *orchestrator.Attempt)

	// Arrived returns the messages at the recipient in order of arrival, including duplicates.
	Arrived func(t *testing.T) []Arrival

	// Tear leaves the data of a process that was killed while it wrote; nil if nothing can be partly written.
	Tear func(t *testing.T)

	// Lose removes the evidence that Recover looks for, as a rotation does; nil if that cannot happen. Each function
	// is a different way, tested separately.
	Lose []func(t *testing.T)

	// Block prevents every delivery to the address until release is called; nil if that is impossible.
	Block func(t *testing.T) (release func())

	// Fail makes the recipient reject everything until restore is called; nil if it never does. Says is a text that
	// the errors must then contain.
	Fail func(t *testing.T) (restore func())
	Says string

	// Patience is how long a transport may take to return, or to begin to wait for the end of its context, before the
	// suite considers it hung. 0 is a minute. Tests do not otherwise depend on it.
	Patience time.Duration
}

// Arrival is one message as received by the recipient.
type Arrival struct {
	ID      string
	Payload json.RawMessage // compact
}

// ExerciseTransport runs the suite. A transport that passes it
//
//   - delivers once: a message reported as delivered is at the recipient exactly once, with its payload unchanged
//     (Payloads, LargestBatch, Concurrent), and any other message is not (BadMessageFailsAlone, EndedContext,
//     Blocked);
//   - fails visibly: every message that the recipient does not have gets an error of its own with the reason, and is
//     delivered once the recipient accepts it (BadMessageFailsAlone, Refused);
//   - respects the deadline: it returns when its context ends, and delivers nothing afterwards (EndedContext,
//     Blocked, RecoverBlocked);
//   - survives a crash between delivery and settling. An orchestrator.Recoverer sets its mark before it delivers,
//     delivers nothing without a mark, and can determine the outcome for a marked message, so that no message arrives
//     twice or never (MarkFails, LeaseLost, Recover..., StrangeNote, LostEvidence). Any other transport uses the same
//     ID and payload when it repeats a message, so that the recipient can drop the message (Repeats);
//   - keeps order per recipient, within a batch and between batches (Order, LargestBatch, Concurrent);
//   - accepts its own canonical addresses unchanged, and rejects invalid ones (Check).
//
// TestSuiteFindsFaults shows which subtest finds which fault. The suite is for transports outside of the database. An
// orchestrator.SetTransport receives its messages in sets.
func ExerciseTransport(t *testing.T, fixture func(t *testing.T) Fixture) {
	tests := []struct {
		name string
		run  func(t *testing.T, f *office)
	}{
		{"Check", checksAddresses},
		{"Order", keepsOrder},
		{"LargestBatch", takesItsLargestBatch},
		{"Payloads", carriesPayloads},
		{"BadMessageFailsAlone", failsBadMessagesAlone},
		{"Refused", failsVisibly},
		{"EndedContext", obeysEndedContext},
		{"Blocked", givesUpWhenBlocked},
		{"Concurrent", servesConcurrentAttempts},
	}
	first := fixture(t)
	if _, ok := first.Transport.(orchestrator.Recoverer); ok {
		tests = append(tests, recoveryTests...)
	} else {
		tests = append(tests, repeatTests...)
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, &office{Fixture: fixture(t)})
		})
	}
	if _, ok := first.Transport.(orchestrator.Recoverer); !ok {
		return
	}
	for i := range first.Lose {
		t.Run(fmt.Sprintf("LostEvidence/%d", i), func(t *testing.T) {
			t.Parallel()
			f := &office{Fixture: fixture(t)}
			reportsLostEvidence(t, f, f.Lose[i])
		})
	}
}

// office is a fixture with a ledger that stands in for the engine's table.
type office struct {
	Fixture
	mu    sync.Mutex
	notes map[string]string // notes stored by Mark, by message ID
	lost  bool              // another process has the lease: Mark fails
	die   bool              // the process dies within Mark, after the note is stored
}

// message returns a message of the suite. IDs are unique within a test.
func message(id string, payload string) orchestrator.Message {
	return orchestrator.Message{
		ID: id, Sender: "architect", Recipient: "builder", Type: "note", Payload: json.RawMessage(payload),
		Status: orchestrator.Pending, CreatedAt: "2025-10-26T10:30:00.000Z", MaxRetries: 3,
	}
}

func numbered(prefix string, n int) (ms []orchestrator.Message) {
	for i := range n {
		ms = append(ms, message(fmt.Sprintf("%s-%04d", prefix, i), fmt.Sprintf(`{"n":%d}`, i)))
	}
	return ms
}

// attempt returns an attempt at messages whose marks go into the ledger.
func (f *office) attempt(ms ...orchestrator.Message) orchestrator.Attempt {
	a := orchestrator.Attempt{
		Recipient: "builder", Address: f.Address, Messages: ms,
		Mark: func(ctx context.Context, note string) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.lost {
				return orchestrator.ErrLeaseLost
			}
			if f.notes == nil {
				f.notes = map[string]string{}
			}
			for i := range ms {
				f.notes[ms[i].ID] = note
			}
			if f.die {
				panic(death{})
			}
			return nil
		},
	}
	if f.Prepare != nil {
		f.Prepare(&a)
	}
	return a
}

// death is the panic that simulates the end of the process.
type death struct{}

// try makes one attempt and returns its errors, or nil if there is not one per message. Any goroutine may call it.
func (f *office) try(t *testing.T, ctx context.Context, ms ...orchestrator.Message) []error {
	t.Helper()
	errs := f.Transport.Deliver(ctx, f.attempt(ms...))
	if len(errs) != len(ms) {
		t.Errorf("Deliver returned %d errors for %d messages", len(errs), len(ms))
		return nil
	}
	return errs
}

// deliver makes one attempt and returns its errors. It ends the test if there is not one error per message.
func (f *office) deliver(t *testing.T, ctx context.Context, ms ...orchestrator.Message) []error {
	t.Helper()
	errs := f.try(t, ctx, ms...)
	if errs == nil {
		t.FailNow()
	}
	return errs
}

// mustDeliver makes one attempt that must succeed.
func (f *office) mustDeliver(t *testing.T, ms ...orchestrator.Message) {
	t.Helper()
	for i, err := range f.deliver(t, t.Context(), ms...) {
		if err != nil {
			t.Fatalf("%s: %v", ms[i].ID, err)
		}
	}
}

// mustArrive checks that the recipient has these messages, each once, in this order.
func (f *office) mustArrive(t *testing.T, ms ...orchestrator.Message) {
	t.Helper()
	var got, want []string
	for _, a := range f.Arrived(t) {
		got = append(got, a.ID)
	}
	for i := range ms {
		want = append(want, ms[i].ID)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("arrived: %s\nwant: %s", strings.Join(got, " "), strings.Join(want, " "))
	}
}

func checksAddresses(t *testing.T, f *office) {
	got, err := f.Transport.Check(f.Address)
	if err != nil || got != f.Address {
		t.Errorf("Check(%q) = %q, %v: a canonical address must stay what it is", f.Address, got, err)
	}
	for _, address := range f.Refused {
		if got, err := f.Transport.Check(address); err == nil {
			t.Errorf("Check(%q) = %q, which must be refused", address, got)
		}
	}
	f.mustArrive(t)
}

func keepsOrder(t *testing.T, f *office) {
	// The order differs from that of the IDs, which must not matter.
	ms := numbered("m", 9)
	slices.Reverse(ms)
	size := f.Transport.MaxBatch()
	if size < 1 {
		t.Fatalf("MaxBatch() = %d", size)
	}
	for batch := range slices.Chunk(ms, min(size, 4)) {
		f.mustDeliver(t, batch...)
	}
	f.mustArrive(t, ms...)
}

func takesItsLargestBatch(t *testing.T, f *office) {
	ms := numbered("m", f.Transport.MaxBatch())
	f.mustDeliver(t, ms...)
	f.mustArrive(t, ms...)
}

// payloads returns JSON texts that a careless transport would change.
func payloads() []string {
	return []string{
		`null`, `true`, `""`, `"text"`, `[]`, `{}`,
		`12345678901234567890.12345678901234567890`, `1e400`, `-0.0`, `1E+2`,
		`"<b>&amp;</b> \u003c"`, `"line\nbreak and \u2028 and \u0000"`, "\"\u2028\u2029\u0085\"",
		`"Grüße, 世界, 👩‍👩‍👧"`, `"\ud83d\ude00 \ufffd"`,
		`{"message_id":"m-0000","z":1,"a":{"z":[1,2,{"message_id":"m-0001"}]},"z":2}`,
		`"` + strings.Repeat("x", 1<<20-2) + `"`,
		`[` + strings.Repeat(`"é\\",`, 150_000) + `0]`,
	}
}

func carriesPayloads(t *testing.T, f *office) {
	var ms []orchestrator.Message
	for i, payload := range payloads() {
		ms = append(ms, message(fmt.Sprintf("m-%04d", i), payload))
	}
	spaced := message("spaced", " {\n\t\"a\" : [ 1 , 2 ]\r\n} ")
	ms = append(ms, spaced)
	for batch := range slices.Chunk(ms, min(f.Transport.MaxBatch(), 7)) {
		f.mustDeliver(t, batch...)
	}
	f.mustArrive(t, ms...)
	for i, a := range f.Arrived(t) {
		var want bytes.Buffer
		if err := json.Compact(&want, ms[i].Payload); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a.Payload, want.Bytes()) {
			t.Errorf("%s arrived as %.200s, want %.200s", a.ID, a.Payload, want.Bytes())
		}
	}
}

// failsBadMessagesAlone sends messages that only a foreign writer can have put into the table.
func failsBadMessagesAlone(t *testing.T, f *office) {
	good := numbered("good", 3)
	bad := []orchestrator.Message{message("no-json", `{"half":`), message("no-utf8", "\"\xff\""),
		message("id\xff", `1`)}
	ms := []orchestrator.Message{good[0], bad[0], bad[1], good[1], bad[2], good[2]}
	for batch := range slices.Chunk(ms, min(f.Transport.MaxBatch(), len(ms))) {
		for i, err := range f.deliver(t, t.Context(), batch...) {
			if isBad := !strings.HasPrefix(batch[i].ID, "good"); isBad != (err != nil) {
				t.Errorf("%q: %v", batch[i].ID, err)
			}
		}
	}
	for _, err := range f.deliver(t, t.Context(), bad[0]) {
		if err == nil {
			t.Error("a batch of nothing but a bad message was delivered")
		}
	}
	f.mustArrive(t, good...)
}

// servesConcurrentAttempts delivers from several goroutines, as for agents that share an address. The order of each
// goroutine must be kept.
func servesConcurrentAttempts(t *testing.T, f *office) {
	const writers, rounds = 4, 5
	size := min(3, f.Transport.MaxBatch())
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for r := range rounds {
				ms := numbered(fmt.Sprintf("w%d-r%d", w, r), size)
				for i, err := range f.try(t, t.Context(), ms...) {
					if err != nil {
						t.Errorf("%s: %v", ms[i].ID, err)
					}
				}
			}
		})
	}
	wg.Wait()
	last, count := map[string]string{}, 0
	for _, a := range f.Arrived(t) {
		writer, rest, _ := strings.Cut(a.ID, "-")
		if rest <= last[writer] {
			t.Errorf("%s arrived after %s-%s", a.ID, writer, last[writer])
		}
		last[writer] = rest
		count++
	}
	if want := writers * rounds * size; count != want {
		t.Errorf("%d messages arrived, not %d", count, want)
	}
}
