// Package torture runs real processes of the program on one database (senders, daemons, readers, cleaners). At
// random, it kills them with SIGKILL, stops them, and takes folders away from them. At the end, it compares the
// remaining data with the answers that the processes gave. Package history makes the comparison.
package torture

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"mailroom/orchestrator/orchestratortest/history"
)

// Config configures a run. Seed determines which actions affect which processes, and when. The timing of the
// processes depends on the machine, so that the same seed makes the same failure likely, but not certain.
type Config struct {
	Seed    uint64
	For     time.Duration // duration of the activity; coming to rest and the checks take longer
	Folder  string        // for all files; created if necessary
	Program []string      // the program under test, with its first arguments
	Helper  []string      // a program that calls Helper
	Log     io.Writer     // progress messages for people

	// Database is the address of an empty place on a PostgreSQL server. If it is "", the database is a file in the
	// folder. Restart, if not nil, restarts that server, or a program in front of it, without a clean shutdown. It is
	// called every few seconds until it returns ErrEnough. Undoes is set if it may undo commits that are not synced.
	Database string
	Restart  func() error
	Undoes   bool
}

// Names of the files in a run's folder.
const (
	databaseName = "mailroom.db"
	historyName  = "history.jsonl"
	seedName     = "seed"
	addressName  = "address" // the database's, if it is on a server
	takenName    = "taken"   // folder into which files are taken away
	shakyName    = "shaky"   // folder that is temporarily taken away
	solidName    = "solid"
)

// settings lists the settings of a run that differ from the defaults: a retry schedule with short, unusual delays,
// and small claims, so that more claims are active when a process is killed.
var settings = [][2]string{
	{"retry.ladder", "70ms,190ms,430ms"}, {"delivery.timeout", "3s"}, {"delivery.claim_size", "40"},
}

// office is one run.
type office struct {
	Config
	db       string
	log      *history.Log
	ctx      context.Context // ends at the end of the activity
	done     context.Context // ends when even coming to rest takes too long
	register register
	receiver receiver
	tally    tally
	actors   sync.WaitGroup
}

// Run performs a run and checks it. It keeps the folder. The report contains the violations. Run returns an error if
// it could not perform the run, or if the run did not come to rest; the error contains the seed and the folder.
func Run(ctx context.Context, c Config) (report Report, err error) {
	began := time.Now()
	o, err := open(ctx, c)
	if err != nil {
		return Report{}, err
	}
	for _, step := range []func() error{o.receiver.listen, o.prepare, o.act, o.rest, o.receiver.close, o.log.Close} {
		if err := step(); err != nil {
			o.register.killAll()
			o.receiver.close()
			o.log.Close() // so that the history so far can be read
			return Report{}, fmt.Errorf("%w (seed %d, in %s)", err, c.Seed, c.Folder)
		}
	}
	left := o.leftovers()
	report, err = Check(ctx, c.Folder)
	report.Seed, report.Began, report.For, report.Took = c.Seed, began, c.For, time.Since(began)
	report.Leftovers = left
	o.tally.into(&report)
	return report, err
}

func open(ctx context.Context, c Config) (*office, error) {
	folder, err := filepath.Abs(c.Folder)
	if err != nil {
		return nil, err
	}
	c.Folder = folder
	for _, name := range []string{"", shakyName, solidName, filepath.Join(takenName, boxed),
		filepath.Join(takenName, stored)} {
		if err := os.MkdirAll(filepath.Join(folder, name), 0o700); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(filepath.Join(folder, seedName), fmt.Appendln(nil, c.Seed), 0o600); err != nil {
		return nil, err
	}
	log, err := history.Create(filepath.Join(folder, historyName))
	if err != nil {
		return nil, err
	}
	o := &office{Config: c, db: filepath.Join(folder, databaseName), log: log, done: ctx}
	if c.Database != "" {
		o.db = c.Database
		if err := os.WriteFile(filepath.Join(folder, addressName), []byte(c.Database), 0o600); err != nil {
			return nil, err
		}
	}
	o.receiver = receiver{folder: folder, seed: c.Seed, fault: o.fault}
	return o, nil
}

// dice returns the random numbers of an actor. They are independent of how often other actors use theirs.
func (o *office) dice(actor string) *rand.Rand {
	h := fnv.New64a()
	io.WriteString(h, actor)
	return rand.New(rand.NewPCG(o.Seed, h.Sum64()))
}

// between returns a random duration of at least low and less than high.
func between(random *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(random.Int64N(int64(high-low)))
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

// Agents in a run. The transports of filed, backed and shaky are files, and those of boxed and stored are folders.
// The files and folders of backed, shaky and stored are in the folder that is taken away. The messages of worked go
// to a command, and those of posted to a web server.
var (
	sendersNames = []string{"ann", "bob", "cid"}
	readers      = []string{"inboxed", "mixed"}
	targets      = []string{"inboxed", "mixed", "filed", "filed", "backed", "shaky", "shaky"}
)

const boxed, stored, worked, posted = "boxed", "stored", "worked", "posted"

// agents returns the arguments of `agent add` for each agent.
func (o *office) agents() [][]string {
	shaky, solid := filepath.Join(o.Folder, shakyName), filepath.Join(o.Folder, solidName)
	list := [][]string{
		{"inboxed"}, {"mixed"}, {"keyed"},
		{"filed", "--deliver", "jsonl:" + filepath.Join(solid, "filed.jsonl")},
		{"shaky", "--deliver", "jsonl:" + filepath.Join(shaky, "shaky.jsonl")},
		{"backed", "--deliver", "jsonl:" + filepath.Join(shaky, "backed.jsonl"), "--fallback",
			"jsonl:" + filepath.Join(solid, "fallback.jsonl")},
		{boxed, "--deliver", "dir:" + filepath.Join(solid, boxName)},
		{stored, "--deliver", "dir:" + filepath.Join(shaky, boxName)},
		{worked, "--deliver", "exec:" + o.worker()},
		{posted, "--deliver", "webhook:" + o.receiver.url(), "--secret", o.receiver.secret(), "--allow-private"},
	}
	for _, name := range sendersNames {
		list = append(list, []string{name})
	}
	return list
}

// files returns the paths of the files of jsonl transports.
func files(folder string) []string {
	return []string{
		filepath.Join(folder, solidName, "filed.jsonl"), filepath.Join(folder, solidName, "fallback.jsonl"),
		filepath.Join(folder, shakyName, "shaky.jsonl"), filepath.Join(folder, shakyName, "backed.jsonl"),
	}
}

// boxName is the root of a dir transport.
const boxName = "box"

// folders returns the folders to which dir transports deliver, and the folders to which their files are taken away.
func folders(folder string) []history.Folder {
	return []history.Folder{
		{Recipient: boxed, Inbox: filepath.Join(folder, solidName, boxName, boxed),
			Taken: filepath.Join(folder, takenName, boxed)},
		{Recipient: stored, Inbox: filepath.Join(folder, shakyName, boxName, stored),
			Taken: filepath.Join(folder, takenName, stored)},
	}
}

// diaries returns the diaries of the commands and of the web server.
func diaries(folder string) []history.Diary {
	return []history.Diary{
		{Recipient: worked, Kind: "exec", Path: filepath.Join(folder, worked+".jsonl")},
		{Recipient: posted, Kind: "webhook", Path: filepath.Join(folder, posted+".jsonl")},
	}
}

// prepare creates the database, its agents, its settings and its witness.
func (o *office) prepare() error {
	o.createUnderFire(o.dice("creation"))
	if _, err := o.command(o.done, "setup", "--db", o.db, "init"); err != nil {
		return err
	}
	for _, a := range o.agents() {
		if _, err := o.command(o.done, "setup", append([]string{"agent", "add"}, a...)...); err != nil {
			return err
		}
	}
	for _, s := range settings {
		if _, err := o.command(o.done, "setup", "setting", "set", s[0], s[1]); err != nil {
			return err
		}
	}
	return history.Witness(o.done, o.db)
}

// createUnderFire starts several concurrent processes that create the database, and kills some of them. The surviving
// processes must succeed.
func (o *office) createUnderFire(random *rand.Rand) {
	for range 10 {
		var making sync.WaitGroup
		for range 3 {
			p, err := o.start("maker", o.Program, "--db", o.db, "init")
			if err != nil {
				o.fault("maker", err)
				return
			}
			end := between(random, 0, 60*time.Millisecond)
			making.Go(func() { p.finish() })
			making.Go(func() {
				if pause(o.done, end) && p.kill() {
					o.tally.kills.Add(1)
				}
			})
		}
		making.Wait()
	}
}

// act runs all actors until the time has passed.
func (o *office) act() error {
	ctx, stop := context.WithTimeout(o.done, o.For)
	defer stop()
	o.ctx = ctx
	acting := map[string]func(string, *rand.Rand){
		"lines-0": o.sendLines, "lines-1": o.sendLines, "keyed": o.sendKeyed, "single": o.sendSingly,
		"api": o.sendFromGo, "raw": o.sendRaw,
		"daemon-0": o.serve, "daemon-1": o.serve, "delivery": o.deliver, "cleaner": o.clean, "looker": o.look,
		"reader-0": o.read, "reader-1": o.read, "taker": o.take, "meddler": o.meddle,
		"killer": o.kill, "pauser": o.pauseSome, "breaker": o.breakFolder, "reaper": o.reap, "teller": o.tell,
	}
	if o.Database != "" { // as many processes as on three machines
		for name, act := range map[string]func(string, *rand.Rand){
			"lines-2": o.sendLines, "api-1": o.sendFromGo, "daemon-2": o.serve, "delivery-1": o.deliver,
			"delivery-2": o.deliver,
			"reader-2":   o.read, "reader-3": o.read, "restarter": o.restart,
		} {
			acting[name] = act
		}
	}
	for name, act := range acting {
		o.actors.Go(func() { o.guard(name, func() { act(name, o.dice(name)) }) })
	}
	o.actors.Wait()
	return o.done.Err()
}

// guard runs f. It records a panic in f as a fault, so that the run ends cleanly.
func (o *office) guard(name string, f func()) {
	defer func() {
		if p := recover(); p != nil {
			o.fault(name, fmt.Errorf("the driver panicked: %v", p))
		}
	}()
	f()
}

// fault records an error of the driver itself.
func (o *office) fault(name string, err error) {
	o.log.Add(history.Event{Kind: history.Fault, Process: name, Text: err.Error()})
}

func (o *office) say(format string, args ...any) {
	if o.Log != nil {
		fmt.Fprintf(o.Log, format+"\n", args...)
	}
}

// tell periodically prints the progress of the run.
func (o *office) tell(string, *rand.Rand) {
	began := time.Now()
	for pause(o.ctx, 10*time.Second) {
		o.say("%4.0f s: %d processes, %d killed, %d sends acknowledged, %d messages handed to readers",
			time.Since(began).Seconds(),
			o.log.Count(history.Started), o.log.Count(history.Killed), o.log.Count(history.Acknowledged),
			o.tally.handed.Load())
	}
}
