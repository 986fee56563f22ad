package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

var sendStdin = Case{
	Name: "send-stdin", Title: "`send --stdin` with 100,000 lines",
	About: "The program reads 100,000 messages as lines of JSON, stores each message durably with its trace, and answers each line with " +
		"a line. The time runs from the program's start to its end. one-transaction inserts the same rows into the same table in a " +
		"single transaction with a prepared statement, without traces, decoding, or answers.",
	Contestants: []Contestant{
		{Name: "mailroom", Run: stdinMailroom},
		{Name: "one-transaction", Run: stdinOneTransaction},
	},
	Missed: "The engine alone stores 88,000 messages a second in such batches, at 11 µs a message for the insert, trace, commit, " +
		"sync, and checkpoints. The program does not reach this rate because it also decodes lines and writes answers. It does " +
		"this work on the other processor, which also runs the garbage collector.",
	Targets: []Target{{Measure: "rate_per_s", Against: "one-transaction", Want: 0.55}},
}

func stdinMailroom(r *Run) Measures {
	path, lines := r.newMailroom("sender", "recipient"), r.scaled(100_000, 1000)
	input := must(os.Create(filepath.Join(r.Dir, "lines")))
	defer input.Close()
	w := bufio.NewWriter(input)
	for range lines {
		fmt.Fprintf(w, `{"sender":"sender","recipient":"recipient","message_type":"task_assignment","payload":%s}`+"\n",
			letterPayload)
	}
	check(w.Flush())
	must(input.Seek(0, 0))
	answers := must(os.Create(filepath.Join(r.Dir, "answers")))
	defer answers.Close()
	cmd := exec.CommandContext(r.ctx, r.Mailroom, "send", "--stdin", "--db", path)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = input, answers, os.Stderr
	m := r.rate(func() int {
		check(cmd.Run())
		return lines
	})
	must(answers.Seek(0, 0))
	expect(countAnswers(answers), lines)
	return m
}

// countAnswers returns the number of answers in a file that report success.
func countAnswers(file *os.File) (n int) {
	for dec := json.NewDecoder(bufio.NewReader(file)); dec.More(); {
		var answer struct{ Success bool }
		check(dec.Decode(&answer))
		if answer.Success {
			n++
		}
	}
	return n
}

func stdinOneTransaction(r *Run) Measures {
	path, lines := r.newMailroom("sender", "recipient"), r.scaled(100_000, 1000)
	return r.rate(func() int {
		check(r.openGreedy(path, "sender").write(lines, false))
		return lines
	})
}
