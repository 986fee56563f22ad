// Package corpus stores the malformed inputs of fuzz targets in files that ordinary tests replay.
//
// There is one file per target, testdata/malformed/TARGET.gz in the package of the target: gzipped text with one
// input per line as a quoted Go string, sorted and without duplicates. `zcat` shows it.
package corpus

import (
	"bufio"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var remake = flag.Bool("corpora", false,
	"make the files of malformed inputs anew, from the fuzz cache and from mutations")

// most is the most inputs that a file holds, and longest the most bytes of an input.
const (
	most    = 2800
	longest = 4 << 10
)

// Target is a fuzz target whose malformed inputs are stored.
type Target struct {
	Name    string   // FuzzDecode
	Package string   // import path, under which the fuzz cache keeps the inputs that the fuzzer found
	Seeds   []string // inputs to mutate
	Tokens  []string // texts that a mutation inserts
	// Check fails the test if an input is not handled as promised, and reports whether the input is malformed. The
	// fuzz target calls the same function.
	Check func(t *testing.T, input string) (malformed bool)
}

// File returns the file of a target, relative to the folder of its package.
func File(target string) string { return filepath.Join("testdata", "malformed", target+".gz") }

// Replay checks the inputs of the file: all of them, or every fourth with -short. Each must be malformed, and there
// must be at least atLeast of them. With the flag -corpora, Replay first creates the file.
func (target Target) Replay(t *testing.T, atLeast int) {
	t.Helper()
	if *remake {
		target.remake(t)
	}
	inputs, err := Load(File(target.Name))
	if err != nil {
		t.Fatal(err)
	}
	if len(inputs) < atLeast {
		t.Errorf("%s has %d inputs; want at least %d", target.Name, len(inputs), atLeast)
	}
	for i, input := range inputs {
		if testing.Short() && i%4 != 0 {
			continue
		}
		if i%200 == 0 {
			t.Logf("%d of %d", i, len(inputs)) // shows cmd/tests that the test has not stopped
		}
		if !target.Check(t, input) {
			t.Errorf("%s: %.300q is not malformed", target.Name, input)
		}
		if t.Failed() {
			t.Fatalf("%s: the input was %.3000q", target.Name, input)
		}
	}
}

// remake writes the file with the inputs that the fuzzer found, followed by mutations. Well-formed inputs are
// omitted.
func (target Target) remake(t *testing.T) {
	t.Helper()
	candidates, err := target.found()
	if err != nil {
		t.Fatal(err)
	}
	fromFuzzer := len(candidates)
	candidates = append(candidates, mutations(target.Seeds, target.Tokens, 4*most)...)
	known, kept, kinds := map[string]bool{}, []string{}, 0
	for i, input := range candidates {
		if len(kept) == most {
			break
		}
		if known[input] || len(input) > longest {
			continue
		}
		known[input] = true
		if target.Check(t, input) {
			kept = append(kept, input)
			if i < fromFuzzer {
				kinds++
			}
		}
	}
	slices.Sort(kept)
	if err := store(File(target.Name), kept); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d malformed inputs, %d of them found by the fuzzer", target.Name, len(kept), kinds)
}

// Load reads a file of inputs. Duplicate or unsorted inputs are an error.
func Load(file string) (inputs []string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		input, err := strconv.Unquote(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", file, len(inputs)+1, err)
		}
		if n := len(inputs); n > 0 && inputs[n-1] >= input {
			return nil, fmt.Errorf("%s: line %d is not behind the one before it", file, n+1)
		}
		inputs = append(inputs, input)
	}
	return inputs, lines.Err()
}

// store writes a file of inputs. The same inputs give the same bytes.
func store(file string, inputs []string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	zipped, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	for _, input := range inputs {
		if _, err := io.WriteString(zipped, strconv.Quote(input)+"\n"); err != nil {
			return err
		}
	}
	return errors.Join(zipped.Close(), f.Close())
}

// found reads the first argument of each entry in the fuzz cache. There may be no entries.
func (target Target) found() (inputs []string, err error) {
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(strings.TrimSpace(string(cache)), "fuzz", filepath.FromSlash(target.Package), target.Name)
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			return nil, err
		}
		input, err := firstArgument(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		inputs = append(inputs, input)
	}
	return inputs, err
}

// firstArgument returns the first argument of an entry in the fuzz cache: a line with the version, then one line per
// argument.
func firstArgument(entry string) (string, error) {
	_, rest, _ := strings.Cut(entry, "\n")
	line, _, _ := strings.Cut(rest, "\n")
	quoted, isString := strings.CutPrefix(line, "string(")
	if !isString {
		return "", fmt.Errorf("the first argument is no string: %.100s", line)
	}
	return strconv.Unquote(strings.TrimSuffix(quoted, ")"))
}
