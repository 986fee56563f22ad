package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// series runs cases round by round. Its contestants take turns, each run in a process and a folder of its own.
type series struct {
	mailroom string
	scale    float64
	rounds   int
	warmUp   int           // rounds before these that count nowhere
	limit    time.Duration // of one run
	base     string        // folder on a real disk; what runs keep for later ones stands beside their own
	out      io.Writer
}

// oneRun is one round of one contestant.
type oneRun struct {
	Measures   Measures  `json:"measures,omitempty"`
	Failed     string    `json:"failed,omitempty"`
	Began      time.Time `json:"began"`
	TookS      float64   `json:"took_s"` // of the whole process, with what comes before and after the measuring
	CPUUserS   float64   `json:"cpu_user_s"`
	CPUSystemS float64   `json:"cpu_system_s"`       // both with the processes that it started and awaited
	PeakKiB    int64     `json:"peak_kib,omitempty"` // largest resident memory of the process itself
}

// results are the runs of a case by contestant, one per round.
type results map[string][]oneRun

// runCase runs all contestants of a case, in an order that rotates with the round. A run that fails is kept as failed.
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

// outcome is what a contestant's process prints.
type outcome struct {
	Measures Measures `json:"measures"`
	PeakKiB  int64    `json:"peak_kib,omitempty"`
}

// runOnce runs one contestant in a process of its own. What goes wrong there is in the oneRun and no error.
func (s *series) runOnce(ctx context.Context, c Case, one Contestant) (r oneRun, err error) {
	dir, err := os.MkdirTemp(s.base, "run")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	env, err := json.Marshal(Env{Dir: dir, Mailroom: s.mailroom, Scale: s.scale})
	if err != nil {
		return r, err
	}
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.limit, fmt.Errorf("killed after %s", s.limit))
	defer cancel()
	cmd := exec.CommandContext(ctx, self, "run", c.Name, one.Name, string(env))
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what it starts is killed with it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	unix.Sync() // or the kernel would write the last run's leftovers during this one
	began := time.Now()
	r.Began = began.UTC().Truncate(time.Millisecond)
	err = cmd.Run()
	r.TookS = time.Since(began).Seconds()
	if state := cmd.ProcessState; state != nil {
		r.CPUUserS, r.CPUSystemS = state.UserTime().Seconds(), state.SystemTime().Seconds()
	}
	var o outcome
	if err == nil {
		err = json.Unmarshal(out.Bytes(), &o)
	}
	if err == nil && len(o.Measures) == 0 {
		err = errors.New("it measured nothing")
	}
	if err == nil {
		r.Measures, r.PeakKiB = o.Measures, o.PeakKiB
		return r, nil
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	r.Failed = failure(err, said.String(), dir)
	return r, nil
}

// failure is what is told of a failed run: how it ended and the end of what it said, without the names of this machine's
// folders.
func failure(err error, said, dir string) string {
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

// runContestant is the process of runOnce: args are a case, a contestant and an Env as JSON.
func runContestant(ctx context.Context, args []string, out io.Writer) error {
	if len(args) != 3 {
		return errors.New("run takes a case, a contestant and an environment")
	}
	var env Env
	if err := json.Unmarshal([]byte(args[2]), &env); err != nil {
		return err
	}
	if c := findCase(args[0]); c != nil {
		for _, one := range c.Contestants {
			if one.Name == args[1] {
				m, err := one.Run(ctx, env)
				if err != nil {
					return err
				}
				peak, _ := vmField(os.Getpid(), "VmHWM") // 0 where there is no /proc
				return json.NewEncoder(out).Encode(outcome{Measures: m, PeakKiB: peak})
			}
		}
	}
	return fmt.Errorf("there is no contestant %s in a case %s", args[1], args[0])
}

// print writes the medians of a case, with minimum and maximum, and how its targets were met.
func (s *series) print(c Case, all results) {
	fmt.Fprintf(s.out, "\n%s: %s\n", c.Name, c.Title)
	for _, one := range c.Contestants {
		var parts []string
		for _, name := range all.measures(one.Name) {
			parts = append(parts, name+" "+summarize(all.column(one.Name, name)).String())
		}
		if failed, of := all.failures(one.Name); failed > 0 {
			parts = append(parts, fmt.Sprintf("FAILED in %d of %d rounds", failed, of))
		}
		fmt.Fprintf(s.out, "  %-24s %s\n", one.Name, strings.Join(parts, ", "))
	}
	for _, t := range c.Targets {
		reached, met := t.reached(all)
		fmt.Fprintf(s.out, "  %-6s %-44s %s, wanted %s\n", met, t.what(), reached.text(t.figure), t.wanted())
	}
}

// what is the figure that a target compares.
func (t Target) what() string {
	switch {
	case t.Against == "":
		return t.Measure
	case t.Of != "":
		return t.Measure + " / " + t.Of + " of " + t.Against
	}
	return t.Measure + " / " + t.Against
}

func (t Target) wanted() string {
	if t.AtMost {
		return "at most " + t.figure(t.Want)
	}
	return "at least " + t.figure(t.Want)
}

// figure writes what the target compares: a ratio or a measure.
func (t Target) figure(v float64) string {
	if t.Against != "" {
		return ratioFigure(v)
	}
	return figure(v)
}

// reached is the median of what a target compares, round by round, and whether it is met. A run of Mailroom's that failed
// meets nothing, however good the others are.
func (t Target) reached(all results) (ratio summary, met string) {
	ratio = summarize(t.ratios(all))
	if failed, _ := all.failures("mailroom"); failed > 0 {
		return ratio, "failed"
	}
	if ratio.n > 0 && (t.AtMost && ratio.median <= t.Want || !t.AtMost && ratio.median >= t.Want) {
		return ratio, "met"
	}
	return ratio, "missed"
}

// ratios are what a target compares, of the rounds in which both contestants succeeded.
func (t Target) ratios(all results) (ratios []float64) {
	of := t.Of
	if of == "" {
		of = t.Measure
	}
	for i, mine := range all["mailroom"] {
		v, ok := mine.Measures[t.Measure]
		switch theirs := all[t.Against]; {
		case !ok:
		case t.Against == "":
			ratios = append(ratios, v)
		case i < len(theirs) && theirs[i].Measures[of] != 0: // nothing is a multiple of nothing
			ratios = append(ratios, v/theirs[i].Measures[of])
		}
	}
	return ratios
}

// failures counts the runs of a contestant that failed, and all of them.
func (r results) failures(contestant string) (failed, all int) {
	for _, one := range r[contestant] {
		if one.Failed != "" {
			failed++
		}
	}
	return failed, len(r[contestant])
}

// column lists one measure of a contestant, of the rounds in which it succeeded.
func (r results) column(contestant, measure string) (values []float64) {
	for _, one := range r[contestant] {
		if v, ok := one.Measures[measure]; ok {
			values = append(values, v)
		}
	}
	return values
}

// measures lists the measures that a contestant has.
func (r results) measures(contestant string) []string {
	names := map[string]bool{}
	for _, one := range r[contestant] {
		for name := range one.Measures {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// summary is the median of n values, and their bounds.
type summary struct {
	median, least, most float64
	n                   int
}

func summarize(values []float64) summary {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return summary{}
	}
	return summary{(sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[0], sorted[n-1], n}
}

func (s summary) String() string { return s.text(figure) }

func (s summary) text(figure func(float64) string) string {
	if s.n == 0 {
		return "failed"
	}
	return figure(s.median) + " (" + figure(s.least) + " to " + figure(s.most) + ")"
}

// ratioFigure writes a ratio, one below a tenth as 1/n.
func ratioFigure(v float64) string {
	if v > 0 && v < 0.09995 {
		return "1/" + figure(1/v)
	}
	return figure(v)
}

// figure writes a number with three digits that mean something or all of its whole part.
func figure(v float64) string {
	abs := math.Abs(v)
	switch {
	case v == 0 || math.IsInf(v, 0) || math.IsNaN(v):
		return strconv.FormatFloat(v, 'g', -1, 64)
	case v < 0:
		return "-" + figure(-v)
	case abs < 0.09995:
		return strconv.FormatFloat(v, 'g', 3, 64)
	case abs < 0.9995:
		return strconv.FormatFloat(v, 'f', 3, 64)
	case abs < 9.995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case abs < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	digits := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// runAll runs the cases that are named, all without names, and puts each into the record when it is done.
func (s *series) runAll(ctx context.Context, names []string, record func(caseRecord) error) error {
	for _, name := range names {
		if !slices.ContainsFunc(cases, func(c Case) bool { return c.Name == name }) {
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
		s.print(c, all)
		err = record(caseRecord{
			Case: c.Name, At: began.UTC().Truncate(time.Second), Scale: s.scale, Rounds: s.rounds, Machine: here, Versions: what, Runs: all,
		})
		if err != nil {
			return err
		}
	}
	return nil
}
