// Command torture runs processes of mailroom on one database, kills them, and checks the remaining data. `make
// torture` runs it.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/torture"
	"mailroom/orchestrator/transport"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "helper" {
		os.Exit(torture.Helper(os.Args[2:], map[string]orchestrator.Transport{
			"inbox": transport.Inbox{}, "jsonl": transport.JSONL{}, "dir": transport.Dir{}, "exec": transport.Exec{},
			"webhook": new(transport.Webhook),
		}))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	violated, err := run(ctx)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(70)
	case violated:
		os.Exit(1)
	}
}

func run(ctx context.Context) (violated bool, err error) {
	seed := flag.Uint64("seed", 0, "what to do to whom and when; 0 draws one")
	length := flag.Duration("for", 10*time.Minute, "how long to go on")
	folder := flag.String("dir", "",
		"folder for the database, the files and the history; a new one below the temporary folder")
	program := flag.String("program", "bin/mailroom", "the program to torture")
	database := flag.String("db", "",
		"address of an empty place on a PostgreSQL server for the database, instead of a file")
	document := flag.String("report", "", "document into which the report goes, between its markers")
	check := flag.String("check", "", "run nothing, and check what an earlier run left in this folder")
	flag.Parse()
	if *check != "" {
		report, err := torture.Check(ctx, *check)
		if err != nil {
			return false, err
		}
		return tell(&report, *check), nil
	}
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	own := *folder == ""
	if own {
		if *folder, err = os.MkdirTemp("", "mailroom-torture-"); err != nil {
			return false, err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	fmt.Printf("seed %d, for %s, in %s\n", *seed, *length, *folder)
	report, err := torture.Run(ctx, torture.Config{
		Seed: *seed, For: *length, Folder: *folder, Database: *database, Program: []string{*program},
		Helper: []string{self, "helper"}, Log: os.Stdout,
	})
	if err != nil {
		return false, err
	}
	fmt.Print("\n", report.Markdown())
	if tell(&report, *folder) {
		return true, nil
	}
	if *document != "" {
		if err := publish(*document, &report); err != nil {
			return false, err
		}
	}
	if own {
		return false, os.RemoveAll(*folder)
	}
	return false, nil
}

// tell prints the violations, and reports whether there were any.
func tell(report *torture.Report, folder string) bool {
	for _, problem := range report.Problems() {
		fmt.Println(problem)
	}
	if report.Failed() {
		fmt.Printf("\nNot everything was kept. The database, the files, history.jsonl and the seed are in %s\n", folder)
		return true
	}
	fmt.Println("\nEverything was kept.")
	return false
}

// publish inserts the report into a document.
func publish(document string, report *torture.Report) error {
	before, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	after, err := torture.Insert(string(before), report.Markdown())
	if err != nil {
		return fmt.Errorf("%s: %w", document, err)
	}
	return os.WriteFile(document, []byte(after), 0o644)
}
