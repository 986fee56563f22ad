// Package kills lets readers take mail by every door of the program, kills them with SIGKILL at random moments, and
// holds what is marked as read at the end to what they had written until then. It uses the program as a black box, so
// that it measures any version of it.
//
// # What counts as shown
//
// An answer was written when the kernel had taken all of it: the harness holds the other end of each pipe and
// connection, and reads what is in there after the kill. A message is shown when it stands in an answer that is whole:
// a JSON document, a line of JSON-RPC, an event of an HTTP stream. What stands in an answer that was cut off is not
// shown, since no parser takes it; the report counts it apart.
//
// A client of HTTP breaks its connection by ending its own direction of it, and reads on: so nothing that the server's
// kernel has taken is lost on the way, and what comes of the race is always known. A client that closes both directions
// has an agent of its own, to whom nothing is sent before.
//
// At the end all processes are gone. Then each agent reads until nothing comes any more, without waiting: whatever a
// dead reader had must be unread again by then. A message that nobody was shown is an error, be it that it is marked as
// read or that it is stuck.
package kills

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Config says what to run. Seed decides who is killed when, and by which door; how the processes' work falls together
// is the machine's affair.
type Config struct {
	Seed     uint64
	Kills    int       // how many readers to kill; before, one lives at each door
	Readers  int       // how many there are at once
	Folder   string    // for everything that is written
	Program  []string  // the program under test, with its first arguments
	Database string    // address of an empty place on a PostgreSQL server; "": a file in the folder
	Doors    string    // only doors whose names begin so; "": all
	Log      io.Writer // what goes on, for people; nil: nothing
}

// agents is how many agents the readers read for, so that two of them often read for the same one.
const agents = 3

// office is one run.
type office struct {
	Config
	db     string
	ctx    context.Context
	fail   context.CancelCauseFunc // ends ctx
	agents []*agent                // that take part in the thread
	thread string                  // a thread of all agents
	doors  []*door
	daemon *daemon // of the clients that break their connections
	feeder *feeder
	mail   mail

	deserter  *agent // see byDeserter
	deserting sync.Mutex

	turn   atomic.Int64 // of the doors
	killed atomic.Int64
}

// agent is one for whom readers read.
type agent struct{ name, token string }

// Run makes a run. An error means that it could not be made, or that a reader failed that was not killed; the folder
// stays as it is.
func Run(ctx context.Context, c Config) (report Report, err error) {
	began := time.Now()
	o := &office{Config: c, db: c.Database}
	if o.db == "" {
		o.db = filepath.Join(c.Folder, "mailroom.db")
	}
	o.ctx, o.fail = context.WithCancelCause(ctx)
	defer o.fail(nil)
	if err := o.prepare(); err != nil {
		return Report{}, errors.Join(err, o.close())
	}
	for _, d := range o.doors {
		if err := o.measure(d); err != nil {
			return Report{}, errors.Join(fmt.Errorf("%s: %w", d.name, err), o.close())
		}
	}
	var readers sync.WaitGroup
	for lane := range c.Readers {
		readers.Go(func() { o.read(rand.New(rand.NewPCG(c.Seed, uint64(lane)))) })
	}
	readers.Wait()
	err = o.close()
	if cause := context.Cause(o.ctx); cause != nil {
		return Report{}, errors.Join(cause, err)
	}
	for _, a := range append(o.agents, o.deserter) {
		if err == nil {
			err = o.drain(a)
		}
	}
	if err != nil {
		return Report{}, err
	}
	report = Report{Seed: c.Seed, Kills: int(o.killed.Load()), Rounds: int(o.turn.Load()), Took: time.Since(began)}
	for _, d := range o.doors {
		report.Doors = append(report.Doors, Door{d.name, int(d.kills.Load()), int(d.late.Load()), d.window()})
	}
	return report, o.mail.judge(ctx, o.db, &report)
}

// prepare makes the database, the agents and their thread, and starts who sends and the daemon.
func (o *office) prepare() error {
	if _, err := o.command("--db", o.db, "init"); err != nil {
		return err
	}
	if _, err := o.command("agent", "add", writer); err != nil {
		return err
	}
	var names []string
	for i := range agents {
		a, err := o.add(fmt.Sprintf("reader%d", i))
		if err != nil {
			return err
		}
		o.agents, names = append(o.agents, a), append(names, a.name)
	}
	var err error
	if o.deserter, err = o.add("deserter"); err != nil {
		return err
	}
	var made struct{ ThreadID string }
	err = o.answer(&made, "coral", "create-thread", "--as", writer, "--thread-name", "all", "--participant-ids",
		strings.Join(names, ","))
	if err != nil {
		return err
	}
	o.thread = made.ThreadID
	for _, d := range allDoors() {
		if strings.HasPrefix(d.name, o.Doors) {
			o.doors = append(o.doors, d)
		}
	}
	if len(o.doors) == 0 {
		return fmt.Errorf("there is no door whose name begins with %q", o.Doors)
	}
	if o.feeder, err = o.startFeeder(); err != nil {
		return err
	}
	o.daemon, err = o.startDaemon()
	return err
}

// add makes an agent, with a token.
func (o *office) add(name string) (*agent, error) {
	if _, err := o.command("agent", "add", name); err != nil {
		return nil, err
	}
	var issued struct{ Token string }
	err := o.answer(&issued, "agent", "token", name)
	return &agent{name, issued.Token}, err
}

// close ends the processes that are still there, in order.
func (o *office) close() (err error) {
	if o.daemon != nil {
		err = o.daemon.stop(true)
	}
	if o.feeder != nil {
		err = errors.Join(err, o.feeder.stop())
	}
	return err
}

// read lets readers take mail by one door after the other, until enough of them were killed.
func (o *office) read(random *rand.Rand) {
	defer func() {
		if p := recover(); p != nil {
			o.fail(fmt.Errorf("the harness panicked: %v", p))
		}
	}()
	for o.ctx.Err() == nil && int(o.killed.Load()) < o.Kills {
		turn := o.turn.Add(1)
		if turn > int64(20*o.Kills+1000) {
			o.fail(fmt.Errorf("of %d readers only %d could be killed before they ended", turn, o.killed.Load()))
		}
		d := o.doors[int(turn)%len(o.doors)]
		v := d.draw(o, random)
		if err := o.round(d, v); err != nil && o.ctx.Err() == nil {
			o.fail(fmt.Errorf("%s: %w", d.name, err))
		}
		if n := o.killed.Load(); o.Log != nil && turn%100 == 0 {
			fmt.Fprintf(o.Log, "%d readers, %d killed, %d messages\n", turn, n, o.mail.count())
		}
	}
}

// measure lets one reader live, to find out how long it takes at a door.
func (o *office) measure(d *door) error {
	v := d.draw(o, rand.New(rand.NewPCG(o.Seed, 1<<32)))
	v.stuck, v.spared, v.moment = false, true, patience
	return o.round(d, v)
}

// round sends what a reader is to find, lets it read, and kills it.
func (o *office) round(d *door, v visit) error {
	if !d.arriving {
		if err := o.feed(d, &v); err != nil {
			return err
		}
	}
	out, err := d.way(o, d, &v)
	if err != nil {
		return err
	}
	switch {
	case v.spared && out.took == 0:
		return fmt.Errorf("no answer within %s", patience)
	case v.spared:
	case out.killed:
		o.killed.Add(1)
		d.kills.Add(1)
	default:
		d.late.Add(1)
	}
	d.learn(&v, &out)
	for _, a := range out.answers {
		o.mail.shown(a)
	}
	return nil
}

// drain lets an agent read until nothing is left.
func (o *office) drain(a *agent) error {
	doors := [][]string{{"read", a.name, "--batch-size", "100"}}
	if a != o.deserter {
		doors = append(doors, []string{"thread", "show", o.thread, "--as", a.name})
	}
	for _, words := range doors {
		for {
			text, err := o.command(words...)
			if err != nil {
				return err
			}
			if o.mail.shown(answer{a.name, text, true}) == 0 {
				break
			}
		}
	}
	return nil
}

// environment is that of the program's processes.
func (o *office) environment() []string {
	return append(os.Environ(), "MAILROOM_DB="+o.db, "MAILROOM_AGENT=", "HOME="+o.Folder, "XDG_STATE_HOME=")
}

// pause waits, and reports false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
