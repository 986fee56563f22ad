package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReport checks that cases measured at different times form one report with complete tables.
func TestReport(t *testing.T) {
	docs := t.TempDir()
	measured := func(name string, scale, rate float64) caseRecord {
		c := caseRecord{
			Case: name, Scale: scale, Rounds: 5, Runs: results{}, Versions: map[string]string{"Mailroom": "abc"},
			Machine: machine{Processor: "Some <CPU> & Co", Processors: 2},
		}
		for i, one := range findCase(name).Contestants {
			for round := range 5 {
				m := Measures{}
				for _, target := range findCase(name).Targets {
					m[target.Measure] = rate * float64((i+1)*(10+round))
				}
				c.Runs[one.Name] = append(c.Runs[one.Name], oneRun{Measures: m})
			}
		}
		return c
	}
	for _, c := range []caseRecord{measured("sends-8", 1, 7), measured("cold", 1, 1), measured("procs-8", 0.1, 1),
		measured("sends-8", 0.1, 3), measured("sends-8", 1, 100)} {
		if err := addToReport(docs, c); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(docs, "benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for _, want := range []string{
		"| rate_per_s / bare-loop | at least 4.20 | 0.500 (0.500 to 0.500) | 0.500 | **missed** |",
		"| mailroom | 1,200 (1,000 to 1,400) | 0 of 5 |",
		"missed in a trial", "sends-8, procs-8, cold: Some <CPU> & Co", "| backlite | **no** |",
		"Eight processes have one database open",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is missing", want)
		}
	}
	columns := 0
	for line := range strings.Lines(page) {
		n := strings.Count(line, "|")
		switch {
		case !strings.HasPrefix(line, "|"):
			columns = 0
		case columns == 0:
			columns = n
		case columns != n:
			t.Errorf("a row of %d bars in a table of %d: %s", n, columns, line)
		}
	}
	if t.Failed() {
		t.Log(page)
	}
}

func TestEveryContestantTellsItsPromise(t *testing.T) {
	for _, c := range cases {
		for _, one := range c.Contestants {
			if promises[one.Name].how == "" && c.Name != pretended.Name && c.Name != endless.Name {
				t.Errorf("%s in %s promises nothing", one.Name, c.Name)
			}
		}
	}
}
