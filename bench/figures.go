package main

import (
	"maps"
	"math"
	"slices"
	"strconv"
)

// results holds the runs of a case by contestant, one for each round.
type results map[string][]oneRun

// what returns the name of the figure that the target compares.
func (t Target) what() string {
	if t.Against == "" {
		return t.Measure
	}
	return t.Measure + " / " + t.Against
}

func (t Target) wanted() string {
	if t.AtMost {
		return "at most " + t.figure(t.Want)
	}
	return "at least " + t.figure(t.Want)
}

// figure formats a value that the target compares, either a ratio or a measure.
func (t Target) figure(v float64) string {
	if t.Against != "" {
		return ratioFigure(v)
	}
	return figure(v)
}

// reached returns the median of the target's figure over all rounds, and the result: met, missed or failed. If any
// run of Mailroom failed, the result is failed, regardless of the other runs.
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

// ratios returns the target's figure for each round in which both contestants succeeded.
func (t Target) ratios(all results) (ratios []float64) {
	for i, mine := range all["mailroom"] {
		v, ok := mine.Measures[t.Measure]
		switch theirs := all[t.Against]; {
		case !ok:
		case t.Against == "":
			ratios = append(ratios, v)
		case i < len(theirs) && theirs[i].Measures[t.Measure] != 0: // a measure of 0 has no ratio
			ratios = append(ratios, v/theirs[i].Measures[t.Measure])
		}
	}
	return ratios
}

// failures returns how many runs of a contestant failed, and how many runs there are.
func (r results) failures(contestant string) (failed, all int) {
	for _, one := range r[contestant] {
		if one.Failed != "" {
			failed++
		}
	}
	return failed, len(r[contestant])
}

// column returns one measure of a contestant, for each round in which the contestant succeeded.
func (r results) column(contestant, measure string) (values []float64) {
	for _, one := range r[contestant] {
		if v, ok := one.Measures[measure]; ok {
			values = append(values, v)
		}
	}
	return values
}

// measures returns the names of a contestant's measures, sorted.
func (r results) measures(contestant string) []string {
	names := map[string]bool{}
	for _, one := range r[contestant] {
		for name := range one.Measures {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// summary holds the median, the minimum and the maximum of n values.
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

// ratioFigure formats a ratio. A ratio of less than a tenth becomes 1/n.
func ratioFigure(v float64) string {
	if v > 0 && v < 0.09995 {
		return "1/" + figure(1/v)
	}
	return figure(v)
}

// figure formats a number with three significant digits, or with all digits of its integer part.
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
