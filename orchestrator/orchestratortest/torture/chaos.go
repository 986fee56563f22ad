package torture

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"mailroom/orchestrator/orchestratortest/history"
)

// tally counts actions.
type tally struct {
	kills, massacres, pauses, outages, restarts, turnedAway, reaped, handed atomic.Int64
}

// kill kills a process from time to time. Sometimes it kills all processes at once, so that the next process finds a
// database that no other process has open.
func (o *office) kill(_ string, random *rand.Rand) {
	longest := 250 * time.Millisecond
	if o.Database != "" { // a command has to connect first
		longest = 600 * time.Millisecond
	}
	for pause(o.ctx, between(random, 20*time.Millisecond, longest)) {
		if random.IntN(40) == 0 {
			o.tally.kills.Add(int64(o.register.killAll()))
			o.tally.massacres.Add(1)
			continue
		}
		if p := o.register.any(random); p != nil && p.kill() {
			o.tally.kills.Add(1)
		}
	}
}

// pauseSome stops a process for a moment, at any point: in the turnstile, in a transaction, or between a delivery and
// its settlement. Sometimes it also ends the leases of the process, as if the process had been stopped for longer.
func (o *office) pauseSome(_ string, random *rand.Rand) {
	for pause(o.ctx, between(random, 200*time.Millisecond, 1500*time.Millisecond)) {
		p := o.register.any(random)
		if p == nil || !p.signal(syscall.SIGSTOP) {
			continue
		}
		o.tally.pauses.Add(1)
		o.log.Add(history.Event{Kind: history.Paused, Process: p.name})
		pause(o.ctx, between(random, 20*time.Millisecond, 700*time.Millisecond))
		if random.IntN(3) == 0 {
			// This fails if the process is stopped within a transaction, whose lock blocks this connection, too.
			o.endLeases([]string{p.name}, 50*time.Millisecond)
			pause(o.ctx, between(random, 20*time.Millisecond, 700*time.Millisecond))
		}
		p.signal(syscall.SIGCONT)
	}
}

// breakFolder takes a folder away for a while, so that deliveries into it fail.
func (o *office) breakFolder(name string, random *rand.Rand) {
	folder := filepath.Join(o.Folder, shakyName)
	for pause(o.ctx, between(random, 300*time.Millisecond, 2*time.Second)) {
		err := os.Rename(folder, folder+".away")
		if err == nil {
			o.tally.outages.Add(1)
			pause(o.ctx, between(random, 30*time.Millisecond, 1800*time.Millisecond))
			err = os.Rename(folder+".away", folder)
		}
		if err != nil {
			o.fault(name, err)
			return
		}
	}
}

// reap ends most leases of killed processes, as time would. The other leases expire by themselves.
func (o *office) reap(name string, random *rand.Rand) {
	for pause(o.ctx, between(random, 50*time.Millisecond, 800*time.Millisecond)) {
		var dead []string
		for _, process := range o.register.takeDead() {
			if random.IntN(10) > 0 {
				dead = append(dead, process)
			}
		}
		if err := o.endLeases(dead, 30*time.Second); err != nil && o.Database == "" {
			// A server may be unavailable. The leases then expire by themselves.
			o.fault(name, err)
		}
	}
}

// endLeases sets the ends of the leases of some processes into the past.
func (o *office) endLeases(dead []string, patience time.Duration) error {
	if len(dead) == 0 {
		return nil
	}
	db, err := history.OpenPlain(o.db, patience)
	if err != nil {
		return err
	}
	defer db.Close()
	marks := make([]string, len(dead))
	args := make([]any, len(dead))
	for i := range dead {
		marks[i], args[i] = "$"+strconv.Itoa(i+1), dead[i]
	}
	res, err := db.ExecContext(o.done, `UPDATE agent_message SET lease_until = '2000-01-01T00:00:00.000Z'
		WHERE status IN ('pending','retry') AND lease_token <> '' AND lease_owner IN (`+strings.Join(marks, ",")+`)`,
		args...)
	if err != nil {
		return fmt.Errorf("ending leases: %w", err)
	}
	n, err := res.RowsAffected()
	o.tally.reaped.Add(n)
	return err
}

// ErrEnough is returned by a Restart that must not be called again.
var ErrEnough = errors.New("the server fails no more")

// restart restarts the server every few seconds, as after a short power failure.
func (o *office) restart(name string, random *rand.Rand) {
	for o.Restart != nil && pause(o.ctx, between(random, 6*time.Second, 10*time.Second)) {
		if o.Undoes {
			o.log.Add(history.Event{Kind: history.Failing, Process: name})
		}
		err := o.Restart()
		if o.Undoes {
			o.log.Add(history.Event{Kind: history.Repaired, Process: name})
		}
		if errors.Is(err, ErrEnough) {
			return
		}
		if err != nil {
			o.fault(name, err)
			return
		}
		o.tally.restarts.Add(1)
	}
}
