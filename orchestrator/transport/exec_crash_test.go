package transport_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/transport"
)

// runnerCommand records its input, and whether another command was running. The first command leaves a background
// process.
const runnerCommand = `mkdir busy || echo "$MAILROOM_MESSAGE_IDS" >> overlaps; cat >> taken
	[ -e left ] || { sleep 1000 & echo $! > left; }
	rmdir busy`

// runRunner delivers its messages in batches, as the router would, and records the settled ones in the file
// settled. It prints "delivered" when Deliver has returned and nothing is settled yet.
func runRunner(t *testing.T, args []string) {
	folder := args[0]
	count, err := strconv.Atoi(args[1])
	must(t, err)
	seed, err := strconv.ParseUint(args[2], 10, 64)
	must(t, err)
	random := rand.New(rand.NewPCG(seed, 1))
	database := filepath.Join(folder, "mailroom.db")
	text, _ := os.ReadFile(filepath.Join(folder, "settled")) // the file may not exist yet
	for next := strings.Count(string(text), "\n"); next < count; {
		var ms []orchestrator.Message
		for range min(1+random.IntN(5), count-next) {
			ms = append(ms, runnerMessage(next+len(ms)))
		}
		slot := waitForSlot(t, database)
		errs := transport.Exec{}.Deliver(t.Context(), orchestrator.Attempt{
			Recipient: "builder", Address: runnerCommand, Folder: folder, Messages: ms, Slot: slot, Database: database,
		})
		must(t, errors.Join(errs...))
		say("delivered")
		next += len(ms)
		appendTo(t, filepath.Join(folder, "settled"), strings.Repeat("x\n", len(ms)))
		slot.Release()
	}
}

// runnerMessage returns the message with a number. It is always the same.
func runnerMessage(i int) orchestrator.Message {
	random := rand.New(rand.NewPCG(uint64(i), 2))
	return note(fmt.Sprintf("m-%05d", i), `{"text":"`+strings.Repeat("x", random.IntN(1<<(4+i%14)))+`"}`)
}

// waitForSlot takes the slot after waiting until the command of a killed process has ended.
func waitForSlot(t *testing.T, database string) orchestrator.Slot {
	for said := false; ; said = true {
		slot, err := transport.Exec{}.Slot(database, "builder", 1)
		if err == nil {
			return slot
		}
		if !errors.Is(err, orchestrator.ErrNoSlot) {
			t.Fatal(err)
		}
		if !said {
			say("waits")
		}
		runtime.Gosched()
	}
}

// A delivering process is killed with SIGKILL hundreds of times: before it settles a delivery, and at any other
// moment. Every message arrives unchanged and in order. Repeats have the same ID. Two commands never run at once.
func TestExecKill(t *testing.T) {
	t.Parallel()
	const perRound = 4
	rounds := helper.Times(200)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	folder := t.TempDir()
	start := func() *helper.Process {
		return helper.Start(t, "runner", folder, strconv.Itoa(rounds*perRound), strconv.FormatUint(random.Uint64(), 10))
	}
	unsettled, waits, killed := 0, 0, 0
	for range rounds {
		h := start()
		event, alive := <-h.Lines
		for event == "waits" {
			waits++
			event, alive = <-h.Lines
		}
		if !alive || event != "delivered" {
			h.Kill() // everything is delivered
			continue
		}
		if killed++; random.IntN(2) == 0 {
			unsettled++ // most likely; it may be settling right now
		} else {
			for size, more := fileSize(filepath.Join(folder, "taken")),
				random.Int64N(3000); fileSize(filepath.Join(folder, "taken")) < size+more && !ended(h); {
				runtime.Gosched()
			}
		}
		h.Kill()
	}
	start().Wait()
	checkTaken(t, folder, rounds*perRound, killed)
	t.Logf("killed %d times, %d right after the delivery; %d starts had to wait for a command of the killed", killed,
		unsettled, waits)
	if killed < rounds/2 {
		t.Errorf("only %d processes were killed at work", killed)
	}
	text, err := os.ReadFile(filepath.Join(folder, "left"))
	must(t, err)
	left, err := strconv.Atoi(strings.TrimSpace(string(text)))
	must(t, err)
	must(t, unix.Kill(left, unix.SIGKILL))
	for environ := []byte{0}; len(environ) > 0; runtime.Gosched() { // until the process is gone
		environ, _ = os.ReadFile(filepath.Join("/proc", strconv.Itoa(left), "environ"))
	}
	mustBeNobody(t, folder)
}

// ended reports whether a helper has ended, and passes on its output meanwhile.
func ended(h *helper.Process) bool {
	select {
	case _, alive := <-h.Lines:
		return !alive
	default:
		return false
	}
}

// checkTaken checks what the commands received: all messages, unchanged and in order, with repeats only of those
// that a kill left unsettled.
func checkTaken(t *testing.T, folder string, count, kills int) {
	t.Helper()
	if text, err := os.ReadFile(filepath.Join(folder, "overlaps")); err == nil {
		t.Errorf("two commands at once, at %s", text)
	}
	next, repeats := 0, 0
	for _, a := range arrived(t, filepath.Join(folder, "taken")) {
		i, err := strconv.Atoi(strings.TrimPrefix(a.ID, "m-"))
		must(t, err)
		switch {
		case i == next:
			next++
		case i < next:
			repeats++
		default:
			t.Fatalf("%s came before m-%05d", a.ID, next)
		}
		if want := runnerMessage(i); a.ID != want.ID || string(a.Payload) != string(want.Payload) {
			t.Errorf("%s came as %.100s", a.ID, a.Payload)
		}
	}
	if _, torn := lines(t, filepath.Join(folder, "taken")); next != count || len(torn) > 0 {
		t.Errorf("%d messages of %d, and %d torn lines", next, count, len(torn))
	}
	if repeats == 0 || repeats > 5*kills {
		t.Errorf("%d messages came again after %d kills", repeats, kills)
	}
}
