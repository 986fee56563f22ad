package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// series runs cases round by round. Its contestants take turns, each run in a process and a folder of its own.
type series struct {
	mailroom string
	scale    float64
	rounds   int
	base     string // folder on a real disk; what runs keep for later ones stands beside their own
	out      io.Writer
}

// results are the measures of a case by contestant, one per round.
type results map[string][]Measures

// runCase runs all contestants of a case, in an order that rotates with the round.
func (s *series) runCase(ctx context.Context, c Case) (results, error) {
	all := results{}
	for round := range s.rounds {
		for i := range c.Contestants {
			one := c.Contestants[(i+round)%len(c.Contestants)]
			m, err := s.runOnce(ctx, c, one)
			if err != nil {
				return nil, fmt.Errorf("%s, %s, round %d: %w", c.Name, one.Name, round+1, err)
			}
			all[one.Name] = append(all[one.Name], m)
		}
	}
	return all, nil
}

// runOnce runs one contestant in a process of its own.
func (s *series) runOnce(ctx context.Context, c Case, one Contestant) (m Measures, err error) {
	dir, err := os.MkdirTemp(s.base, "run")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	env, err := json.Marshal(Env{Dir: dir, Mailroom: s.mailroom, Scale: s.scale})
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "run", c.Name, one.Name, string(env))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	return m, json.Unmarshal(out, &m)
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
	for _, c := range cases {
		for _, one := range c.Contestants {
			if c.Name == args[0] && one.Name == args[1] {
				m, err := one.Run(ctx, env)
				if err != nil {
					return err
				}
				return json.NewEncoder(out).Encode(m)
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
		for _, name := range slices.Sorted(maps.Keys(all[one.Name][0])) {
			m := summarize(column(all[one.Name], name))
			parts = append(parts, fmt.Sprintf("%s %.4g (%.4g to %.4g)", name, m.median, m.least, m.most))
		}
		fmt.Fprintf(s.out, "  %-24s %s\n", one.Name, strings.Join(parts, ", "))
	}
	for _, t := range c.Targets {
		ratio := summarize(t.ratios(all))
		met, relation := ratio.median >= t.Want, "at least"
		if t.AtMost {
			met, relation = ratio.median <= t.Want, "at most"
		}
		against := t.Measure
		if t.Against != "" {
			against += " / " + t.Against
		}
		fmt.Fprintf(s.out, "  %-5v %-40s %.4g (%.4g to %.4g), wanted %s %.4g\n", met, against, ratio.median, ratio.least, ratio.most, relation, t.Want)
	}
}

// ratios are what a target compares, round by round.
func (t Target) ratios(all results) []float64 {
	mine := column(all["mailroom"], t.Measure)
	if t.Against == "" {
		return mine
	}
	of := t.Of
	if of == "" {
		of = t.Measure
	}
	for i, theirs := range column(all[t.Against], of) {
		mine[i] /= theirs
	}
	return mine
}

func column(rounds []Measures, name string) (values []float64) {
	for _, m := range rounds {
		values = append(values, m[name])
	}
	return values
}

type summary struct{ median, least, most float64 }

func summarize(values []float64) summary {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return summary{(sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[0], sorted[n-1]}
}

// runAll runs the cases that are named, all without names, and writes the raw numbers beside.
func (s *series) runAll(ctx context.Context, names []string, raw string) error {
	if err := os.MkdirAll(s.base, 0o700); err != nil {
		return err
	}
	numbers := map[string]results{}
	for _, c := range cases {
		if len(names) > 0 && !slices.Contains(names, c.Name) {
			continue
		}
		all, err := s.runCase(ctx, c)
		if err != nil {
			return err
		}
		s.print(c, all)
		numbers[c.Name] = all
	}
	if raw == "" {
		return nil
	}
	text, err := json.MarshalIndent(numbers, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Clean(raw), append(text, '\n'), 0o600)
}
