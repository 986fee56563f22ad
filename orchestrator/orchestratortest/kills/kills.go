// Package kills runs readers that read messages through every door of the program, and kills them with SIGKILL at
// random moments. At the end, it compares the messages that are marked as read with the output of the readers. It
// uses the program as a black box, so that it can test any version of it.
//
// # When a message counts as shown
//
// An answer is written when the kernel has accepted all of it. The harness holds the other end of each pipe and
// connection, and reads the remaining data after the kill. A message is shown if it is in a complete answer: a JSON
// document, a line of JSON-RPC, or an event of an HTTP stream. A message in an answer that was cut off is not shown,
// because no parser accepts the answer; the report counts these messages separately.
//
// An HTTP client breaks its connection by closing its own direction, and continues to read. Therefore no data that
// the server's kernel accepted is lost on the way, and the outcome of the race is always known. A client that closes
// both directions uses a separate agent, to which no messages are sent before that.
//
// At the end of the run, all processes have ended. Then each agent reads until there are no more messages, without
// waiting. By then, all messages of a killed reader must be unread again. A message that was shown to no reader is an
// error, regardless of whether it is marked as read or is stuck.
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

// Config configures a run. Seed determines which readers are killed, when, and through which door they read. The
// timing of the processes depends on the machine.
type Config struct {
	Seed     uint64
	Kills    int       // number of readers to kill; before that, one reader survives at each door
	Readers  int       // number of concurrent readers
	Folder   string    // for all files
	Program  []string  // the program under test, with its first arguments
	Database string    // address of an empty place on a PostgreSQL server, or "" for a file in the folder
	Doors    string    // only doors with this prefix in their names; "" for all
	Log      io.Writer // progress messages for people, or nil
}

// agents is the number of agents for which the readers read. It is small, so that two readers often read for the same
// agent.
const agents = 3

// office is one run.
type office struct {
	Config
	db     string
	ctx    context.Context
	fail   context.CancelCauseFunc // ends ctx
	agents []*agent                // agents in the thread
	thread string                  // a thread of all agents
	doors  []*door
	daemon *daemon // for the clients that close their connections
	feeder *feeder
	mail   mail

	deserter  *agent // see byDeserter
	deserting sync.Mutex

	turn   atomic.Int64 // of the doors
	killed atomic.Int64
}

// agent is an agent for which readers read.
type agent struct{ name, token string }

// Run performs a run. It returns an error if it could not perform the run, or if a reader failed that was not killed.
// It keeps the folder.
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

// prepare creates the database, the agents and their thread, and starts the feeder and the daemon.
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

// add adds an agent, and issues a token for it.
func (o *office) add(name string) (*agent, error) {
	if _, err := o.command("agent", "add", name); err != nil {
		return nil, err
	}
	var issued struct{ Token string }
	err := o.answer(&issued, "agent", "token", name)
	return &agent{name, issued.Token}, err
}

// close ends the daemon and the feeder without killing them.
func (o *office) close() (err error) {
	if o.daemon != nil {
		err = o.daemon.stop(true)
	}
	if o.feeder != nil {
		err = errors.Join(err, o.feeder.stop())
	}
	return err
}

// read runs readers at one door after another, until enough of them have been killed.
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

// measure runs a reader without killing it, to measure the time that a reader takes at a door.
func (o *office) measure(d *door) error {
	v := d.draw(o, rand.New(rand.NewPCG(o.Seed, 1<<32)))
	v.stuck, v.spared, v.moment = false, true, patience
	return o.round(d, v)
}

// round sends messages for a reader, starts the reader, and kills it.
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

// drain reads the messages of an agent until there are no more.
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

// environment returns the environment of the program's processes.
func (o *office) environment() []string {
	return append(os.Environ(), "MAILROOM_DB="+o.db, "MAILROOM_AGENT=", "HOME="+o.Folder, "XDG_STATE_HOME=")
}

// pause waits for d. It reports whether ctx is still active.
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
