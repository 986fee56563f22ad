package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// costsGolden is the file with the costs of the commands in TestCosts: a line for each, with millions of
// instructions, and how often the command waits for the disk.
const costsGolden = "testdata/costs.golden"

const quietHook = "a hook that finds nothing"

// TestCosts checks that the instructions of frequent commands are within 3 % of the golden file, and that their syncs
// are equal. A change that makes a command more or less expensive updates the file with -update. Time is not used,
// because it varies much more. The file names its version of Go; another version generates other instructions, so 15
// % are allowed. The same holds for a hook, which searches for its host among all processes above it.
func TestCosts(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"valgrind", "strace"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	golden, err := os.ReadFile(costsGolden)
	if err != nil && !*update {
		t.Fatal(err)
	}
	compiler := runtime.Version() + " " + runtime.GOARCH
	tolerance := 0.03
	if !strings.HasPrefix(string(golden), compiler+"\n") {
		tolerance = 0.15
	}
	p := newCounted(t)
	lines := strings.Repeat(`{"sender":"a","recipient":"b","message_type":"note","payload":{"n":1}}`+"\n", 1000)
	measured := compiler + "\n" +
		p.cost(3, "version", "", "--version") +
		p.cost(3, "a cold send", "", "send", "--as", "a", "c", "hello") +
		// Without --atomic, the number of batches depends on how fast the lines arrive.
		p.cost(1, "send --stdin --atomic of 1,000 lines", lines, "send", "--stdin", "--atomic") +
		p.cost(1, "deliver_all of 1,002 messages", "", "deliver_all") +
		p.hook()
	if *update {
		if err := os.WriteFile(costsGolden, []byte(measured), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	was, is := strings.Split(string(golden), "\n")[1:], strings.Split(measured, "\n")[1:]
	if !slices.EqualFunc(was, is, func(a, b string) bool { return costsTheSame(a, b, tolerance) }) {
		t.Errorf("the costs have changed, by more than %.0f %% or in their syncs; if that is meant: "+
			"go test ./cmd/mailroom -run '^TestCosts$' -update\nbefore\n%snow\n%s", 100*tolerance, golden, measured)
	}
}

// costLine matches a line of the golden file: its subject, instructions and syncs.
var costLine = regexp.MustCompile(`^(.*): (\d+\.\d+) million instructions, (\d+) syncs$`)

func costsTheSame(was, is string, tolerance float64) bool {
	a, b := costLine.FindStringSubmatch(was), costLine.FindStringSubmatch(is)
	if a == nil || b == nil {
		return was == is
	}
	before, _ := strconv.ParseFloat(a[2], 64)
	now, _ := strconv.ParseFloat(b[2], 64)
	if a[1] == quietHook {
		tolerance = max(tolerance, 0.15)
	}
	return a[1] == b[1] && math.Abs(now-before) <= tolerance*before && a[3] == b[3]
}

// counted is the program, built without the tags and the linking of the release, so that nothing is recompiled for
// this test. It has two databases: one for the runs whose instructions are counted, and one for those whose syncs
// are.
type counted struct {
	t                         *testing.T
	program                   string
	forInstructions, forSyncs string              // folders
	before                    func(folder string) // called before each counted run
}

func newCounted(t *testing.T) *counted {
	p := &counted{t: t, program: filepath.Join(t.TempDir(), "mailroom"), forInstructions: t.TempDir(), forSyncs: t.TempDir(), before: func(string) {}}
	if text, err := exec.Command("go", "build", "-o", p.program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, folder := range []string{p.forInstructions, p.forSyncs} {
		for _, words := range []string{"init", "agent add a", "agent add b", "agent add c", "send --as a c first"} {
			p.run(folder, "", append([]string{p.program}, strings.Fields(words)...)...)
		}
	}
	return p
}

// run runs a command line with the database of a folder, and returns its standard error.
func (p *counted) run(folder, in string, line ...string) (told string) {
	p.t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Stderr = folder, strings.NewReader(in), &stderr
	// Valgrind runs one thread at a time. It does not support the signals with which Go preempts a goroutine, nor the
	// instruction rdtscp, with which Go waits for a lock.
	cmd.Env = append(os.Environ(), "HOME="+folder, "XDG_STATE_HOME="+folder, "MAILROOM_DB=x.db", "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1,cpu.rdtscp=off")
	if err := cmd.Run(); err != nil {
		p.t.Fatalf("%s: %v\n%s", strings.Join(line, " "), err, stderr.Bytes())
	}
	return stderr.String()
}

// hook returns the line of a hook without new messages. An uncounted hook before each run records that for a minute.
func (p *counted) hook() string {
	p.t.Helper()
	const event = `{"session_id":"one"}`
	hook := func(name string) []string { return []string{"hook", name, "--host", "claude", "--as", "a"} }
	p.before = func(folder string) {
		long := time.Now().Add(-time.Hour)
		for range 2 {
			// Make the file look as if it had not been written recently.
			if err := os.Chtimes(filepath.Join(folder, "x.db"), long, long); err != nil {
				p.t.Fatal(err)
			}
			p.run(folder, event, append([]string{p.program}, hook("PostToolUse")...)...)
		}
	}
	defer func() { p.before = func(string) {} }()
	for _, folder := range []string{p.forInstructions, p.forSyncs} {
		p.run(folder, event, append([]string{p.program}, hook("SessionStart")...)...)
	}
	return p.cost(3, quietHook, event, hook("PostToolUse")...)
}

var (
	instructionsOfThread = regexp.MustCompile(`Total instructions: (\d+)`)
	syncCall             = regexp.MustCompile(`(?m)\b(?:fsync|fdatasync|sync_file_range)\(`)
)

// cost runs a command with each of the databases, and returns its line. The background work of Go varies by more than
// the changes that the test must detect, so the instructions are the fewest of several runs.
func (p *counted) cost(runs int, what, in string, args ...string) string {
	p.t.Helper()
	fewest, blocks := math.MaxInt, filepath.Join(p.t.TempDir(), "blocks") // a file for each thread
	for range runs {
		p.before(p.forInstructions)
		told := p.run(p.forInstructions, in, append([]string{"valgrind", "--tool=exp-bbv", "--instr-count-only=yes",
			"--bb-out-file=" + blocks, p.program}, args...)...)
		instructions := 0
		for _, match := range instructionsOfThread.FindAllStringSubmatch(told, -1) {
			n, _ := strconv.Atoi(match[1])
			instructions += n
		}
		fewest = min(fewest, instructions)
		p.t.Logf("%s: %d instructions", what, instructions) // shows the progress beside other tests
	}
	p.before(p.forSyncs)
	told := p.run(p.forSyncs, in, append([]string{"strace", "-f", "-e", "trace=fsync,fdatasync,sync_file_range",
		p.program}, args...)...)
	return fmt.Sprintf("%s: %.2f million instructions, %d syncs\n", what, float64(fewest)/1e6,
		len(syncCall.FindAllString(told, -1)))
}
