package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
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
	Targets: []Target{{Measure: "rate_per_s", Against: "one-transaction", Want: 0.5}},
}

func stdinMailroom(ctx context.Context, env Env) (m Measures, err error) {
	path, err := newMailroom(ctx, env, "sender", "recipient")
	if err != nil {
		return nil, err
	}
	lines := scaled(env, 100_000, 1000)
	input, err := os.Create(filepath.Join(env.Dir, "lines"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, input.Close()) }()
	w := bufio.NewWriter(input)
	for range lines {
		fmt.Fprintf(w, `{"sender":"sender","recipient":"recipient","message_type":"task_assignment","payload":%s}`+"\n", letterPayload)
	}
	if err := w.Flush(); err != nil {
		return nil, err
	}
	if _, err := input.Seek(0, 0); err != nil {
		return nil, err
	}
	answers, err := os.Create(filepath.Join(env.Dir, "answers"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, answers.Close()) }()
	cmd := exec.CommandContext(ctx, env.Mailroom, "send", "--stdin", "--db", path)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = input, answers, os.Stderr
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	took := time.Since(began)
	if answered, err := countAnswers(answers.Name()); err != nil || answered != lines {
		return nil, errors.Join(err, fmt.Errorf("%d of %d lines were answered well", answered, lines))
	}
	return Measures{"rate_per_s": float64(lines) / took.Seconds()}, nil
}

// countAnswers counts the lines that say success.
func countAnswers(path string) (n int, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	dec := json.NewDecoder(bufio.NewReader(file))
	for dec.More() {
		var answer struct{ Success bool }
		if err := dec.Decode(&answer); err != nil {
			return n, err
		}
		if answer.Success {
			n++
		}
	}
	return n, nil
}

func stdinOneTransaction(ctx context.Context, env Env) (Measures, error) {
	path, err := newMailroom(ctx, env, "sender", "recipient")
	if err != nil {
		return nil, err
	}
	lines := scaled(env, 100_000, 1000)
	began := time.Now()
	g, err := openGreedy(path, "sender")
	if err != nil {
		return nil, err
	}
	if _, err := g.begin.Exec(nil); err != nil {
		return nil, err
	}
	for range lines {
		if _, _, err := g.insert(); err != nil {
			return nil, err
		}
	}
	if _, err := g.commit.Exec(nil); err != nil {
		return nil, err
	}
	took := time.Since(began)
	return Measures{"rate_per_s": float64(lines) / took.Seconds()}, g.close()
}
