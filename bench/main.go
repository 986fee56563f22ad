package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run is what the program does: everything, or as a process that it started itself a contestant or a role.
func run(ctx context.Context, args []string) (err error) {
	if len(args) > 0 && args[0] == "role" {
		return runRole(ctx, args[1:])
	}
	if len(args) > 0 && args[0] == "run" {
		return runContestant(ctx, args[1:], os.Stdout)
	}
	d := series{out: os.Stdout}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&d.mailroom, "mailroom", "../bin/mailroom", "the built `program`")
	flags.Float64Var(&d.scale, "scale", 1, "multiplies sizes and counts; 0.05 for a trial")
	flags.IntVar(&d.rounds, "rounds", 5, "how often the contestants take turns")
	flags.IntVar(&d.warmUp, "warm-up", 1, "rounds before these that are not counted")
	flags.DurationVar(&d.limit, "limit", 15*time.Minute,
		"a single run that takes longer is killed and counts as failed")
	flags.StringVar(&d.base, "dir", "",
		"`folder` on the disk to measure, which keeps the large databases for the next "+
			"time; without it one in the present folder, removed afterwards")
	docs := flags.String("docs", "",
		"`folder` of the report: the numbers go into benchmarks/results.json, the page is "+
			"made of them; without it nothing is kept")
	render := flags.Bool("report", false, "measure nothing, make the report anew from the numbers in -docs")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if *render {
		return writeReport(*docs)
	}
	if d.mailroom, err = filepath.Abs(d.mailroom); err != nil {
		return err
	}
	if _, err := os.Stat(d.mailroom); err != nil {
		return fmt.Errorf("%w; `make build` makes it", err)
	}
	if d.base == "" {
		if d.base, err = os.MkdirTemp(".", "measured"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(d.base)) }()
	}
	if d.base, err = filepath.Abs(d.base); err != nil {
		return err
	}
	if kind := fileSystem(d.base); kind == "tmpfs" || kind == "ramfs" {
		return fmt.Errorf("%s is in memory (%s): name a folder on a disk with -dir", d.base, kind)
	}
	keep := func(caseRecord) error { return nil }
	if *docs != "" {
		keep = func(c caseRecord) error { return addToReport(*docs, c) }
	}
	return d.runAll(ctx, flags.Args(), keep)
}
