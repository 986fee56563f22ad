package program_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"mailroom/orchestrator/program"
)

// Megabytes of output take only the memory of the tails, and the text reports how much is omitted. See
// TestLogIsBounded for longer logs.
func TestOutputIsBounded(t *testing.T) {
	t.Parallel()
	for _, log := range []string{"", filepath.Join(t.TempDir(), "log")} {
		got := run(t, program.Command{Text: `echo first; yes 'ü' | head -c 3000000; echo last`, Log: log})
		checkTails(t, got.Output, "first\n"+strings.Repeat("ü\n", 1_000_000)+"last\n")
	}
}

// However the output is split into writes, the text is valid UTF-8, contains the first and the last bytes, and
// accounts for every byte.
func TestTails(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{0, 1, program.TailSize - 1, program.TailSize, program.TailSize + 1,
			2*program.TailSize - 1,
			2 * program.TailSize, 2*program.TailSize + 1, 3*program.TailSize + 7, 9 * program.TailSize}).Draw(t, "size")
		unit := rapid.SampledFrom([]string{"x", "ü", "世", "👩", "ab世", "\xff", "a\x00"}).Draw(t, "unit")
		text := strings.Repeat(unit, size/len(unit)) + strings.Repeat("y", size%len(unit))
		var tails program.Tails
		for rest := text; rest != ""; {
			n := min(rapid.SampledFrom([]int{1, 7, 1000, 4096, 5000, 30_000}).Draw(t, "write"), len(rest))
			if took, err := tails.Write([]byte(rest[:n])); took != n || err != nil {
				t.Fatalf("Write took %d of %d: %v", took, n, err)
			}
			rest = rest[n:]
		}
		checkTails(t, tails.String(), text)
	})
}

type fataler interface {
	Fatalf(format string, args ...any)
}

func checkTails(t fataler, got, text string) {
	if !utf8.ValidString(got) || strings.Contains(got, "\x00") {
		t.Fatalf("%q is not fit to be stored", got)
	}
	clean := func(s string) string {
		return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	}
	if len(text) <= 2*program.TailSize {
		if got != clean(text) {
			t.Fatalf("%.100q became %.100q", text, got)
		}
		return
	}
	before, after, found := strings.Cut(got, "\n[... ")
	number, after, found2 := strings.Cut(after, " bytes omitted ...]\n")
	var left int
	if _, err := fmt.Sscan(number, &left); !found || !found2 || err != nil {
		t.Fatalf("no note in %.100q: %v", got, err)
	}
	if least := len(text) - 2*program.TailSize; left < least || left > least+2*(utf8.UTFMax-1) {
		t.Fatalf("%d bytes are said to be left out; of %d", left, len(text))
	}
	if !strings.HasPrefix(clean(text), before) || !strings.HasSuffix(clean(text), after) {
		t.Fatalf("%.100q is not the beginning and the end of %.100q", got, text)
	}
}

func TestReadLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	for _, size := range []int{0, 1, 4095, 4096, 4097, 8191, 8192, 8193, 100_000} {
		text := strings.Repeat("ü世", size)[:size]
		must(t, os.WriteFile(path, []byte(text), 0o600))
		got, err := program.ReadLog(path)
		must(t, err)
		checkTails(t, got, text)
	}
	if _, err := program.ReadLog(path + ".missing"); err == nil {
		t.Error("a log that is not there was read")
	}
}
