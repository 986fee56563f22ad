package main

import (
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
	Targets:     []Target{{Measure: "ratio", Want: 1.5, AtMost: true}},
}

func runHook(r *Run) Measures {
	path := r.newMailroom("recipient")
	const event = `{"session_id":"one","transcript_path":"","hook_event_name":"PostToolUse","tool_name":"Bash"}`
	once := func(input string, args ...string) {
		cmd := exec.CommandContext(r.ctx, r.Mailroom, args...)
		cmd.Stdin = strings.NewReader(input)
		if out, err := cmd.CombinedOutput(); err != nil || input != "" && len(out) > 0 {
			check(fmt.Errorf("%v: %w: %s", cmd.Args, err, out))
		}
	}
	call := func() { once(event, "hook", "PostToolUse", "--host", "claude", "--as", "recipient", "--db", path) }
	call() // the session is noted
	var versions []time.Duration
	hooks := timed(r.scaled(100, 10), func() {
		began := time.Now()
		once("", "--version")
		versions = append(versions, time.Since(began))
	}, call)
	version := medianOf(versions)
	return Measures{
		"hook_ms": milliseconds(hooks), "version_ms": milliseconds(version), "ratio": float64(hooks) / float64(version),
	}
}
