package main

import (
	"fmt"
	"os/exec"
	"strings"
	"time"
)

var hook = Case{
	Name:  "hook",
	Title: "a hook that has no messages to show to its agent host",
	About: "An agent host starts `mailroom hook` after each tool call of its model, and waits until the hook ends. The case starts " +
		"the hook 100 times with an event of a known session, and the hook finds no message. Alternating with the hook, the case " +
		"runs `mailroom --version`, which only starts and ends. The figures are medians of the time from the start of the process " +
		"to its end. `ratio` is `hook_ms` divided by `version_ms`.",
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
	call() // the first call records the session
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
