package main

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// TestRatiosAreTakenWithinARound: a ratio compares what ran in one round, a failed run is left out and never counts as a
// figure.
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
	if reached, met := target.reached(all); reached.median != 1.5 || met != "met" {
		t.Errorf("reached %v, %s", reached, met)
	}
	target.AtMost, target.Want = true, 1
	if _, met := target.reached(all); met != "missed" {
		t.Error("a bound that was passed counts as met")
	}
	if reached, met := target.reached(results{}); reached.String() != "failed" || met != "missed" {
		t.Errorf("without any run: %v, %s", reached, met)
	}
}

func TestFigures(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.004: "1/250", 0.51: "0.51", 4.2: "4.20", 31.25: "31.2", 812.4: "812", 1000: "1,000", 97123.4: "97,123", 1234567: "1,234,567",
	} {
		if got := figure(v); got != want {
			t.Errorf("figure(%v) is %q; want %q", v, got, want)
		}
	}
}

// TestChartIsWellFormed: names may hold anything.
func TestChartIsWellFormed(t *testing.T) {
	chart := barChart("rate_per_s", []bar{{"mailroom", summarize([]float64{1, 2, 3})}, {`<&">`, summarize([]float64{5})}})
	for d := xml.NewDecoder(strings.NewReader(chart)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, chart)
		}
	}
}

// TestCasesAreWhole: every target compares contestants that there are, and no two cases or contestants share a name.
func TestCasesAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range cases {
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
