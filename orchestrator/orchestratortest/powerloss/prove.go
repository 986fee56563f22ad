package powerloss

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Plan configures the examination of a recording.
type Plan struct {
	Points int
	Seed   uint64
	// Strict means that a name is durable only when its folder has been synced. Otherwise, any sync makes all names
	// durable.
	Strict bool
	// Ignore simulates a bug: it drops the syncs for which it returns true, as if the program did not call them. If
	// Ignore is nil, no syncs are dropped. No power failure is simulated before the first dropped sync, because until
	// then the bug has no effect.
	Ignore func(s Sync) bool
	// Mute simulates a bug: it ignores the answers of the commands for which it returns true, as if the program wrote
	// them last of all. If Mute is nil, no answers are ignored.
	Mute func(by string) bool
	// Until ends the examination of a simulated bug when a violation contains this text. "" matches any violation.
	Until string
	// Progress, if not nil, is called after every hundredth power failure with their number.
	Progress func(cuts int)
}

// Sync is a call of a recording that makes data durable.
type Sync struct {
	Call string // fsync or fdatasync
	// Of is the kind of the file: wal, db, journal, jsonl, staged (a file on its way into the folder), staging (the
	// folder of the staged files) or other.
	Of string
	// By is the command of the process: "serve", "send", "wait", ...
	By string
}

// Report is the result of an examination.
type Report struct {
	Points     int
	Steps      int
	Counted    map[string]int // system calls by kind, over the whole recording
	Sent       int            // sends that were answered, over the whole recording
	Read       int            // messages printed by waits
	Written    int            // lines of jsonl files, and files in the folder
	Violations []Violation
}

// Violation is a power failure after which a guarantee did not hold.
type Violation struct {
	After int // the number of steps before the power failure
	Line  int // the line of the log
	Call  string
	Seed  uint64
	Wrong []string
}

func (v Violation) String() string {
	return fmt.Sprintf("after step %d (line %d, %s), seed %d: %q", v.After, v.Line, v.Call, v.Seed, v.Wrong)
}

// says reports whether one of the complaints contains a text.
func (v Violation) says(text string) bool {
	return slices.ContainsFunc(v.Wrong, func(w string) bool { return strings.Contains(w, text) })
}

// Examine simulates power failures at many moments of a recording and checks the files after each. It works in the
// folder of the recording, and changes it.
func (rec *Recording) Examine(ctx context.Context, p Plan) (*Report, error) {
	r, err := newReplay(rec.Load.Root, p.Strict, rec.steps)
	if err != nil {
		return nil, err
	}
	if p.Ignore != nil {
		r.ignoring = func(s step) bool {
			_, name, _ := descriptor(s.args[0])
			return p.Ignore(Sync{s.name, kindOf(name), r.command[r.group[s.thread]]})
		}
	}
	if p.Mute != nil {
		r.muted = func(s step) bool { return p.Mute(r.command[r.group[s.thread]]) }
	}
	planted := p.Ignore != nil || p.Mute != nil
	st, err := newStage(rec.Load)
	if err != nil {
		return nil, err
	}
	trials := rec.choose(rand.New(rand.NewPCG(p.Seed, 1)), p.Points)
	report := &Report{Steps: len(rec.steps), Counted: r.counted}
	for i, s := range rec.steps {
		for len(trials) > 0 && trials[0].after <= i {
			if err := rec.cut(ctx, r, st, trials[0], report, p.Progress); err != nil {
				return nil, err
			}
			trials = trials[1:]
			if n := len(report.Violations); n > 0 && planted && report.Violations[n-1].says(p.Until) {
				return report, nil
			}
		}
		if err := r.do(s); err != nil {
			return nil, err
		}
	}
	for _, t := range trials {
		if err := rec.cut(ctx, r, st, t, report, p.Progress); err != nil {
			return nil, err
		}
	}
	report.Sent, report.Read, report.Written = len(r.told.sent)+len(r.told.refused), len(r.told.read),
		len(r.told.written)
	return report, nil
}

// cut simulates one power failure and checks the files. It does nothing if the plan drops syncs and none has been
// dropped yet.
func (rec *Recording) cut(ctx context.Context, r *replay, st *stage, t trial, report *Report,
	progress func(cuts int)) error {
	if r.ignoring != nil && r.ignored == 0 {
		return nil
	}
	if err := st.put(r.disk.crash(rand.New(rand.NewPCG(t.seed, 2)))); err != nil {
		return err
	}
	if report.Points++; progress != nil && report.Points%100 == 0 {
		progress(report.Points)
	}
	r.firstAttempts()
	if wrong := st.check(ctx, &r.told); len(wrong) > 0 {
		v := Violation{After: t.after, Seed: t.seed, Wrong: wrong}
		if t.after > 0 {
			s := rec.steps[t.after-1]
			v.Line, v.Call = s.line, fmt.Sprintf("%s(%.80s, ...)", s.name, s.args[0])
		}
		report.Violations = append(report.Violations, v)
	}
	return ctx.Err()
}

// Faithful checks that the recording is complete: the content of the files according to the model must equal the
// content of the files at the end. It must be called before Examine.
func (rec *Recording) Faithful() error {
	r, err := newReplay(rec.Load.Root, true, rec.steps)
	if err != nil {
		return err
	}
	for _, s := range rec.steps {
		if err := r.do(s); err != nil {
			return err
		}
	}
	found := map[string]bool{}
	err = filepath.WalkDir(rec.Load.Root, func(name string, e os.DirEntry, err error) error {
		if err != nil || fleeting(name) || e.IsDir() {
			return err
		}
		found[name] = true
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if n := r.disk.memory[name]; n == nil || n.file == nil || !bytes.Equal(n.file.memory, content) {
			return fmt.Errorf("the recording does not lead to what %s holds", name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for name, n := range r.disk.memory {
		if n.file != nil && !found[name] {
			return fmt.Errorf("the recording leads to %s, which is not there", name)
		}
	}
	return nil
}

// String returns the report as one paragraph.
func (r *Report) String() string {
	return fmt.Sprintf("%d power cuts with %d violations, in %d steps of a recording with %d acknowledged sends, %d messages printed by waits,"+
		" %d messages in files; system calls: %v", r.Points, len(r.Violations), r.Steps, r.Sent, r.Read, r.Written,
		r.Counted)
}
