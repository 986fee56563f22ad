package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test program act as the program, which starts itself.
func TestMain(m *testing.M) {
	cases = append(cases, pretended, endless)
	if len(os.Args) > 1 && os.Args[1] == "run" {
		main()
		return
	}
	os.Exit(m.Run())
}

var pretended = Case{
	Name: "pretended", Title: "a case for the tests",
	Contestants: []Contestant{
		{Name: "works", Run: func(r *Run) Measures {
			check(os.WriteFile(filepath.Join(r.Dir, "leftover"), nil, 0o600))
			return Measures{"rate_per_s": 7 * r.Scale}
		}},
		{Name: "fails", Run: func(r *Run) Measures {
			r.after(func() error { return errors.New("nor here") })
			check(errors.New("not in " + r.Dir))
			return Measures{"rate_per_s": 1}
		}},
	},
}

var endless = Case{
	Name: "endless", Title: "another",
	Contestants: []Contestant{
		{Name: "hangs", Run: func(*Run) Measures {
			cmd := exec.Command("sleep", "1000")
			cmd.Stderr = os.Stderr // the child keeps it open
			check(cmd.Run())
			return nil
		}},
	},
}

func TestEveryRunIsKept(t *testing.T) {
	s := series{scale: 0.5, rounds: 2, warmUp: 1, limit: time.Minute, base: t.TempDir(), out: io.Discard}
	all, err := s.runCase(t.Context(), pretended)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all["works"] {
		if r.Failed != "" || r.Measures["rate_per_s"] != 3.5 {
			t.Errorf("%+v", r)
		}
	}
	for _, r := range all["fails"] {
		if !strings.Contains(r.Failed, "not in DIR") || !strings.Contains(r.Failed, "nor here") || r.Measures != nil {
			t.Errorf("%+v", r)
		}
	}
	if failed, of := all.failures("fails"); failed != 2 || of != 2 || len(all["works"]) != 2 {
		t.Errorf("%d of %d failed, %d worked", failed, of, len(all["works"]))
	}
	first, second := all["works"][0].Began.Before(all["fails"][0].Began),
		all["works"][1].Began.Before(all["fails"][1].Began)
	if first == second {
		t.Error("the order does not rotate")
	}
	if left, err := os.ReadDir(s.base); err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

func TestARunThatHangsIsKilled(t *testing.T) {
	s := series{scale: 1, rounds: 1, limit: 100 * time.Millisecond, base: t.TempDir(), out: io.Discard}
	r, err := s.runOnce(t.Context(), endless, endless.Contestants[0])
	if err != nil || r.Failed != "killed after 100ms" || r.Measures != nil {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestASeriesEndsWhenAsked(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	asked := errors.New("asked")
	cancel(asked)
	s := series{scale: 1, rounds: 1, limit: time.Minute, base: t.TempDir(), out: io.Discard}
	if _, err := s.runCase(ctx, pretended); !errors.Is(err, asked) {
		t.Errorf("%v", err)
	}
}

// TestRatiosAreTakenWithinARound checks that a ratio compares runs of the same round, and that a failed run is left
// out and never counts as a figure.
func TestRatiosAreTakenWithinARound(t *testing.T) {
	rate := func(v float64) oneRun { return oneRun{Measures: Measures{"rate_per_s": v}} }
	all := results{
		"mailroom": {rate(10), rate(40), rate(90), {Failed: "it broke"}},
		"other":    {rate(10), rate(20), {Failed: "it broke"}, rate(1)},
	}
	target := Target{Measure: "rate_per_s", Against: "other", Want: 1.5}
	if got := target.ratios(all); !slices.Equal(got, []float64{1, 2}) {
		t.Errorf("ratios %v; want 1 and 2", got)
	}
	if reached, met := target.reached(all); reached.median != 1.5 || met != "failed" {
		t.Errorf("one run of Mailroom's failed, and it reached %v, %s", reached, met)
	}
	all["mailroom"][3] = rate(0.5)
	if reached, met := target.reached(all); reached.median != 1 || met != "missed" {
		t.Errorf("reached %v, %s", reached, met)
	}
	target.Want = 1
	if _, met := target.reached(all); met != "met" {
		t.Errorf("exactly what is wanted: %s", met)
	}
	target.AtMost, target.Want = true, 0.99
	if _, met := target.reached(all); met != "missed" {
		t.Error("a bound that was passed counts as met")
	}
	if got := target.ratios(results{"mailroom": {rate(1)}, "other": {rate(0)}}); len(got) > 0 {
		t.Errorf("divided by nothing: %v", got)
	}
	if reached, met := target.reached(results{}); reached.String() != "failed" || met != "missed" {
		t.Errorf("without any run: %v, %s", reached, met)
	}
}

func TestFigures(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.004: "0.004", 0.08123: "0.0812", 0.51: "0.510", 0.999: "0.999", 0.99951: "1.00", -5: "-5.00",
		999.6: "1,000", 4.2: "4.20", 31.25: "31.2", 812.4: "812", 1000: "1,000", 97123.4: "97,123",
		1234567: "1,234,567",
	} {
		if got := figure(v); got != want {
			t.Errorf("figure(%v) is %q; want %q", v, got, want)
		}
	}
	for v, want := range map[float64]string{1.0 / 30: "1/30.0", 0.004: "1/250", 0.85: "0.850", 0: "0"} {
		if got := ratioFigure(v); got != want {
			t.Errorf("ratioFigure(%v) is %q; want %q", v, got, want)
		}
	}
}

// TestFailuresAreShown checks that the report lists every failed run, and that no result ignores a failed run.
func TestFailuresAreShown(t *testing.T) {
	rate := func(v float64) oneRun { return oneRun{Measures: Measures{"rate_per_s": v}} }
	r := record{Cases: []caseRecord{{Case: "sends-1", Scale: 1, Rounds: 5, Runs: results{
		"mailroom": {rate(10), {Failed: "it\nbroke"}}, "bare-loop": {rate(1), rate(1)},
		"river": {{Failed: "no"}, {Failed: "no"}},
	}}}}
	var page strings.Builder
	r.summary(&page)
	r.Cases[0].section(&page, *findCase("sends-1"))
	for _, want := range []string{
		"| at least 0.900 | 10.0 (10.0 to 10.0) | | **failed** |", "| mailroom | 10.0 (10.0 to 10.0) | 1 of 2 |",
		"| bare-loop | 1.00 (1.00 to 1.00) | 0 of 2 |", "| river | | 2 of 2 |", "Round 2 of mailroom failed: it broke",
		"Round 1 of river failed: no",
	} {
		if !strings.Contains(strings.ReplaceAll(page.String(), "|  |", "| |"), want) {
			t.Errorf("%q is missing in\n%s", want, page.String())
		}
	}
}

// TestCasesAreWhole checks that every target compares existing contestants, and that the names of cases and
// contestants are unique.
func TestCasesAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range cases {
		if c.Name == pretended.Name || c.Name == endless.Name {
			continue
		}
		if seen[c.Name] || c.Title == "" || c.About == "" || len(c.Targets) == 0 {
			t.Errorf("the case %q is a double or incomplete", c.Name)
		}
		seen[c.Name] = true
		names := map[string]bool{}
		for _, one := range c.Contestants {
			if names[one.Name] || one.Run == nil {
				t.Errorf("%s: the contestant %q is a double or does nothing", c.Name, one.Name)
			}
			names[one.Name] = true
		}
		for _, target := range c.Targets {
			if !names["mailroom"] || (target.Against != "" && !names[target.Against]) {
				t.Errorf("%s: a target compares with %q, which there is not", c.Name, target.Against)
			}
		}
	}
}
