package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"mailroom/orchestrator/orchestratortest/history"
)

// process is a process of the program or of the helper.
type process struct {
	o      *office
	name   string
	began  int64 // ns since 1970, before the start
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    io.ReadCloser
	errors bytes.Buffer
	said   string // the answer, for a fault

	mu     sync.Mutex
	ended  bool
	killed bool
}

// register lists the running processes.
type register struct {
	mu      sync.Mutex
	running []*process
	count   map[string]int // names used so far
	dead    []string       // killed processes whose leases have not been ended
}

// start starts a process with pipes. The caller must call wait.
func (o *office) start(kind string, program []string, args ...string) (*process, error) {
	p := &process{o: o}
	r := &o.register
	r.mu.Lock()
	if r.count == nil {
		r.count = map[string]int{}
	}
	r.count[kind]++
	p.name = fmt.Sprintf("%s.%d", kind, r.count[kind])
	r.mu.Unlock()
	p.cmd = exec.Command(program[0], append(program[1:len(program):len(program)], args...)...)
	p.cmd.Env = o.environment(p.name)
	p.cmd.Stderr = &p.errors
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if p.out, err = p.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	p.began = time.Now().UnixNano()
	o.log.Add(history.Event{At: p.began, Kind: history.Started, Process: p.name, Text: args[0]})
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.running = append(r.running, p)
	r.mu.Unlock()
	return p, nil
}

// notHad is the exit status of a command that could not use the database. This status is not a fault if a server may
// be unavailable.
const notHad = 75

// wait waits for the end of a process whose output was read to its end. An exit status that is not allowed is a
// fault, unless the process was killed.
func (p *process) wait(allowed ...int) {
	p.in.Close()
	err := p.cmd.Wait()
	p.mu.Lock()
	p.ended = true
	killed := p.killed
	p.mu.Unlock()
	p.o.register.remove(p)
	status := p.cmd.ProcessState.ExitCode()
	p.o.log.Add(history.Event{Kind: history.Ended, Process: p.name, PID: p.cmd.ProcessState.Pid(),
		Text: strings.TrimSpace(p.cmd.ProcessState.String() + "\n" + p.errors.String())})
	for _, s := range append(allowed, 0) {
		if status == s {
			return
		}
	}
	if !killed && p.o.Database != "" && status == notHad {
		p.o.tally.turnedAway.Add(1)
		p.o.say("%s: turned away: %s", p.name, strings.TrimSpace(p.errors.String()))
		return
	}
	if !killed {
		p.fault("%v: %s", err, strings.TrimSpace(p.said+"\n"+p.errors.String()))
	}
}

func (p *process) fault(format string, args ...any) {
	p.o.log.Add(history.Event{Kind: history.Fault, Process: p.name, Text: fmt.Sprintf(format, args...)})
}

// wasKilled reports whether SIGKILL was sent to the process.
func (p *process) wasKilled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.killed
}

// kill sends SIGKILL, which also ends a stopped process. It reports whether it sent the signal.
func (p *process) kill() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || p.killed {
		return false
	}
	// The event is recorded first: from here on, a missing answer is no fault.
	p.o.log.Add(history.Event{Kind: history.Killed, Process: p.name})
	p.killed = true
	return p.cmd.Process.Signal(syscall.SIGKILL) == nil
}

// signal sends another signal.
func (p *process) signal(s syscall.Signal) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.ended && p.cmd.Process.Signal(s) == nil
}

func (r *register) remove(p *process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, other := range r.running {
		if other == p {
			r.running = append(r.running[:i], r.running[i+1:]...)
			break
		}
	}
	if p.wasKilled() {
		r.dead = append(r.dead, p.name)
	}
}

// any returns a random running process, or nil if there is none.
func (r *register) any(random *rand.Rand) *process {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.running) == 0 {
		return nil
	}
	return r.running[random.IntN(len(r.running))]
}

func (r *register) all() []*process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*process(nil), r.running...)
}

// killAll kills all running processes and returns their number.
func (r *register) killAll() (n int) {
	for _, p := range r.all() {
		if p.kill() {
			n++
		}
	}
	return n
}

// takeDead returns the processes that were killed since its last call.
func (r *register) takeDead() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	dead := r.dead
	r.dead = nil
	return dead
}

// finish reads the remaining output of a process and waits for its end.
func (p *process) finish(allowed ...int) []byte {
	p.in.Close()
	out, _ := io.ReadAll(p.out) // a killed process may leave incomplete output
	p.said = string(out[:min(len(out), 1000)])
	p.wait(allowed...)
	return out
}

// once runs the program until it ends or is killed, and decodes its answer. ok reports whether the answer is
// complete.
func (o *office) once(kind string, answer any, allowed []int, args ...string) (p *process, ok bool) {
	p, err := o.start(kind, o.Program, args...)
	if err != nil {
		o.fault(kind, err)
		return nil, false
	}
	out := p.finish(allowed...)
	return p, json.Unmarshal(out, answer) == nil
}

// environment returns the environment of a process of the program, which acts under the name instance.
func (o *office) environment(instance string) []string {
	return append(os.Environ(), "MAILROOM_DB="+o.db, "MAILROOM_AGENT=", "HOME="+o.Folder, "XDG_STATE_HOME=",
		"MAILROOM_OUTPUT=json", "ORCHESTRATOR_INSTANCE_ID="+instance)
}

// command runs the program while no process is killed. It returns an error if the program fails.
func (o *office) command(ctx context.Context, kind string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, o.Program[0], append(o.Program[1:len(o.Program):len(o.Program)], args...)...)
	cmd.Env = o.environment(kind)
	var errors bytes.Buffer
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("%s: %w\n%s%s", strings.Join(args, " "), err, out, errors.String())
	}
	return out, nil
}
