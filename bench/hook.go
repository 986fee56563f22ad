package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

var hook = Case{
	Name:  "hook",
	Title: "a hook of an agent host that has nothing to show",
	About: "An agent host starts `mailroom hook` after each tool call of its model, and waits for it. The program is started with an " +
		"event of a session that is known, finds no message and ends, 100 times; in turns with it `mailroom --version`, which only starts and ends. " +
		"Medians from the start of the process to its end; ratio is that of the two.",
	Contestants: []Contestant{{Name: "mailroom", Run: runHook}},
	Targets:     []Target{{Measure: "ratio", Want: 2, AtMost: true}},
}

func runHook(ctx context.Context, env Env) (Measures, error) {
	path, err := newMailroom(ctx, env, "recipient")
	if err != nil {
		return nil, err
	}
	const event = `{"session_id":"one","transcript_path":"","hook_event_name":"PostToolUse","tool_name":"Bash"}`
	once := func(input string, args ...string) error {
		cmd := exec.CommandContext(ctx, env.Mailroom, args...)
		cmd.Stdin = strings.NewReader(input)
		if out, err := cmd.CombinedOutput(); err != nil || input != "" && len(out) > 0 {
			return fmt.Errorf("%v: %w: %s", cmd.Args, err, out)
		}
		return nil
	}
	call := func() error {
		return once(event, "hook", "PostToolUse", "--host", "claude", "--as", "recipient", "--db", path)
	}
	if err := call(); err != nil { // the session is noted
		return nil, err
	}
	var versions []time.Duration
	between := func() error {
		began := time.Now()
		err := once("", "--version")
		versions = append(versions, time.Since(began))
		return err
	}
	hooks, err := timed(scaled(env, 100, 10), between, call)
	if err != nil {
		return nil, err
	}
	version := medianOf(versions)
	return Measures{
		"hook_ms": inMicroseconds(hooks) / 1000, "version_ms": inMicroseconds(version) / 1000, "ratio": float64(hooks) / float64(version),
	}, nil
}
