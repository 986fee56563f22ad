package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// series runs cases round by round. The contestants of a case take turns. Each run has its own process and folder.
type series struct {
	mailroom string
	scale    float64
	rounds   int
	warmUp   int           // rounds that run first and are not counted
	limit    time.Duration // the time limit of one run
	// base is a folder on a real disk. It contains the folders of the runs, and the databases that runs keep for
	// later runs.
	base string
	out  io.Writer
}

// oneRun is the result of one contestant in one round.
type oneRun struct {
	Measures Measures  `json:"measures,omitempty"`
	Failed   string    `json:"failed,omitempty"`
	Began    time.Time `json:"began"`
}

// runCase runs all contestants of a case, in an order that rotates with the round. A failed run is recorded as
// failed.
func (s *series) runCase(ctx context.Context, c Case) (results, error) {
	all := results{}
	for round := range s.warmUp + s.rounds {
		for i := range c.Contestants {
			one := c.Contestants[(i+round)%len(c.Contestants)]
			r, err := s.runOnce(ctx, c, one)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if err != nil {
				return nil, err
			}
			if r.Failed != "" {
				fmt.Fprintf(s.out, "%s, %s, round %d failed: %s\n", c.Name, one.Name, round-s.warmUp+1, r.Failed)
			}
			if round >= s.warmUp {
				all[one.Name] = append(all[one.Name], r)
			}
		}
	}
	return all, nil
}

// runOnce runs one contestant in a new process. A failure of that process is recorded in the oneRun, and is not
// returned as an error.
func (s *series) runOnce(ctx context.Context, c Case, one Contestant) (r oneRun, err error) {
	dir, err := os.MkdirTemp(s.base, "run")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	what, err := json.Marshal(Run{Dir: dir, Mailroom: s.mailroom, Scale: s.scale})
	if err != nil {
		return r, err
	}
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.limit, fmt.Errorf("killed after %s", s.limit))
	defer cancel()
	cmd := exec.CommandContext(ctx, self, "run", c.Name, one.Name, string(what))
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // kill the processes that it starts, too
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	unix.Sync() // otherwise the kernel would write the previous run's data during this run
	r.Began = time.Now().UTC().Truncate(time.Millisecond)
	err = cmd.Run()
	if err == nil {
		err = json.Unmarshal(out.Bytes(), &r.Measures)
	}
	if err == nil && len(r.Measures) == 0 {
		err = errors.New("it measured nothing")
	}
	if err != nil {
		r.Failed = failed(cmp.Or(context.Cause(ctx), err), said.String(), dir)
	}
	return r, nil
}

// failed describes a failed run: its error and the end of its error output. The name of the run's folder is removed.
func failed(err error, said, dir string) string {
	const most = 500
	said = strings.TrimSpace(said)
	if len(said) > most {
		said = "..." + strings.ToValidUTF8(said[len(said)-most:], "")
	}
	text := err.Error()
	if said != "" {
		text += ": " + said
	}
	return strings.ReplaceAll(text, dir, "DIR")
}

// runContestant is the main function of the process that runOnce starts. args are a case, a contestant and a Run as
// JSON. runContestant writes the measures to out.
func runContestant(ctx context.Context, args []string, out io.Writer) error {
	if len(args) != 3 {
		return errors.New("run takes a case, a contestant and an environment")
	}
	r := &Run{ctx: ctx}
	if err := json.Unmarshal([]byte(args[2]), r); err != nil {
		return err
	}
	for _, c := range cases {
		for _, one := range c.Contestants {
			if c.Name == args[0] && one.Name == args[1] {
				var m Measures
				if err := r.do(func() { m = one.Run(r) }); err != nil {
					return err
				}
				return json.NewEncoder(out).Encode(m)
			}
		}
	}
	return fmt.Errorf("there is no contestant %s in a case %s", args[1], args[0])
}

// runAll runs the named cases, or all cases if names is empty. It records each case when the case has ended.
func (s *series) runAll(ctx context.Context, names []string, record func(caseRecord) error) error {
	for _, name := range names {
		if findCase(name) == nil {
			return fmt.Errorf("there is no case %s", name)
		}
	}
	if err := os.MkdirAll(s.base, 0o700); err != nil {
		return err
	}
	here, err := thisMachine(s.base)
	if err != nil {
		return err
	}
	what, err := versions(ctx, s.mailroom)
	if err != nil {
		return err
	}
	for _, c := range cases {
		if len(names) > 0 && !slices.Contains(names, c.Name) {
			continue
		}
		began := time.Now()
		here.Load = load()
		all, err := s.runCase(ctx, c)
		if err != nil {
			return err
		}
		measured := caseRecord{
			Case: c.Name, At: began.UTC().Truncate(time.Second), Scale: s.scale, Rounds: s.rounds, Machine: here,
			Versions: what, Runs: all,
		}
		measured.print(s.out, c)
		if err := record(measured); err != nil {
			return err
		}
	}
	return nil
}
