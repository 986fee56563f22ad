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
	Name: "send-stdin", Title: "send --stdin, 100,000 lines",
	About: "The program reads 100,000 messages as lines of JSON, makes each durable with its trace, and answers each with a line; " +
		"from its start to its end. one-transaction inserts the same rows into the same table, without traces, decoding or " +
		"answers, in a single transaction with a prepared statement.",
	Contestants: []Contestant{
		{Name: "mailroom", Run: stdinMailroom},
		{Name: "one-transaction", Run: stdinOneTransaction},
	},
	Missed: "the engine by itself makes 88,000 a second of such batches (insert, trace, commit, sync and checkpoints: 11 µs a message); that it is " +
		"not reached is the decoding and the answering on the other processor, which also collects the garbage.",
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

// countAnswers counts the lines that say success.
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
