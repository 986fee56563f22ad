package torture

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"mailroom/orchestrator/orchestratortest/history"
)

// Report holds the actions and the results of a run.
type Report struct {
	history.Result
	Seed      uint64
	Began     time.Time
	For, Took time.Duration
	Leftovers []string

	Processes, Kills, Massacres, Pauses, Outages int
	Restarts, Unsure, TurnedAway                 int // restarts of the server, and their consequences
	Acknowledged, Unanswered, Handed             int
}

// Failed reports whether there were violations or leftovers.
func (r *Report) Failed() bool { return len(r.Violations) > 0 || len(r.Leftovers) > 0 }

// Check checks the data that a run left in its folder.
func Check(ctx context.Context, folder string) (Report, error) {
	events, err := history.Read(filepath.Join(folder, historyName))
	if err != nil {
		return Report{}, err
	}
	var r Report
	r.Result, err = history.Check(ctx, Evidence(folder, events))
	asked, told := map[string]bool{}, map[string]bool{}
	for _, e := range events {
		switch e.Kind {
		case history.Started:
			r.Processes++
		case history.Killed:
			r.Kills++
		case history.Paused:
			r.Pauses++
		case history.Asked:
			asked[e.Token] = true
		case history.Acknowledged:
			told[e.Token] = true
		case history.Unsure:
			r.Unsure++
		case history.Handed:
			r.Handed += len(e.IDs)
		}
	}
	r.Acknowledged, r.Unanswered = len(told), len(asked)-len(told)
	return r, err
}

// Evidence returns the data that a run left in its folder, for history.Check.
func Evidence(folder string, events []history.Event) history.Evidence {
	database := filepath.Join(folder, databaseName)
	if address, err := os.ReadFile(filepath.Join(folder, addressName)); err == nil {
		database = string(address)
	}
	return history.Evidence{Database: database, Files: files(folder), Folders: folders(folder),
		Diaries: diaries(folder), Events: events}
}

// History reads the history of a run.
func History(folder string) ([]history.Event, error) {
	return history.Read(filepath.Join(folder, historyName))
}

func (t *tally) into(r *Report) {
	r.Kills, r.Massacres = int(t.kills.Load()), int(t.massacres.Load())
	r.Pauses, r.Outages = int(t.pauses.Load()), int(t.outages.Load())
	r.Restarts, r.TurnedAway = int(t.restarts.Load()), int(t.turnedAway.Load())
}

// Problems lists the violations and the leftovers.
func (r *Report) Problems() (list []string) {
	for _, v := range r.Violations {
		list = append(list, v.String())
	}
	for _, left := range r.Leftovers {
		list = append(list, "leftovers: "+left)
	}
	return list
}

// Markdown returns the report as a section of docs/guarantees.md.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Run on %s with `make torture SEED=%d FOR=%s`: %s of activity, %s in all.\n\n",
		r.Began.UTC().Format(time.DateOnly),
		r.Seed, short(r.For), short(r.For), short(r.Took))
	fmt.Fprintf(&b, "| what | number |\n|---|---|\n")
	for _, line := range []struct {
		what string
		n    int
	}{
		{"processes started", r.Processes},
		{"processes killed with SIGKILL", r.Kills},
		{"times when all running processes were killed at the same time", r.Massacres},
		{"times when a process was suspended (SIGSTOP) and continued", r.Pauses},
		{"times when a transport's folder was removed", r.Outages},
		{"sends that were acknowledged", r.Acknowledged},
		{"sends without an answer, because the process was killed first", r.Unanswered},
		{"all messages, including reports of dead letters", r.Messages},
		{"deliveries to inboxes", r.Deliveries["inbox"]},
		{"deliveries to jsonl files", r.Deliveries["jsonl"]},
		{"deliveries to folders", r.Deliveries["dir"]},
		{"commands that were run", r.Runs["exec"]},
		{"requests to the web server", r.Runs["webhook"]},
		{"messages that a command or the web server refused permanently", r.Refused},
		{"attempts that a command or the web server deferred", r.PutOff},
		{"partial lines that a kill left in a file, and that Mailroom repaired", r.Torn},
		{"messages that readers received", r.Handed},
		{"attempts that failed", r.Climbed},
		{"dead letters", r.DeadLetters},
		{"leases that expired because the process died or was suspended for too long", r.Crashed},
		{"deliveries that Mailroom found after a lease expired, and did not repeat", r.Found},
		{"results that arrived after the lease was lost, and changed nothing", r.Late},
		{"rows in `message_trace`", r.Traced},
	} {
		fmt.Fprintf(&b, "| %s | %s |\n", line.what, grouped(line.n))
	}
	fmt.Fprintf(&b, "\n| check | checked | violations |\n|---|---|---|\n")
	violated := map[string]int{}
	for _, v := range r.Violations {
		violated[v.Check]++
	}
	for _, check := range history.Checks {
		fmt.Fprintf(&b, "| %s | %s | %d |\n", check.About, grouped(r.Counts[check.Name]), violated[check.Name])
	}
	fmt.Fprintf(&b, "| No process, open file, socket, lock, WAL, or stray file remains. | 1 | %d |\n",
		len(r.Leftovers))
	return b.String()
}

// short formats a duration, rounded to seconds.
func short(d time.Duration) string {
	text := d.Round(time.Second).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	return text
}

// grouped formats a number with thousands separators.
func grouped(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Markers around the report in docs/guarantees.md.
const beginMark, endMark = "<!-- torture: begin -->", "<!-- torture: end -->"

// Insert puts a report between the markers of a document.
func Insert(document, report string) (string, error) {
	before, rest, found := strings.Cut(document, beginMark)
	_, after, ended := strings.Cut(rest, endMark)
	if !found || !ended {
		return "", errors.New("the markers " + beginMark + " and " + endMark + " are missing")
	}
	return before + beginMark + "\n" + report + endMark + after, nil
}
