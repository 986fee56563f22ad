package main

import (
	"context"
	"errors"
	"time"
)

var idleDaemon = Case{
	Name:  "idle-daemon",
	Title: "the daemon idle with 1,000 agents registered",
	About: "`mailroom serve` on a database with 1,000 agents and no messages, left alone for 30 s. rss_mb is its resident memory at the " +
		"end, in millions of bytes.",
	Contestants: []Contestant{{Name: "mailroom", Run: runIdle}},
	Targets:     []Target{{Measure: "rss_mb", Want: 30, AtMost: true}},
	Missed: "it was 29.3 before the program could speak MCP, whose SDK makes it 3 MB larger; all of its 19 MB count as resident when it " +
		"was built a moment ago (28.7 in all from a copy of the file). What it allocates is 13 MB: three connections to the database, each with " +
		"the views of 1,000 inboxes in its schema, and 2 MB of Go.",
}

func runIdle(ctx context.Context, env Env) (Measures, error) {
	path, err := newMailroom(ctx, env, numbered("agent", scaled(env, 1000, 50))...)
	if err != nil {
		return nil, err
	}
	daemon, err := serve(ctx, env, path)
	if err != nil {
		return nil, err
	}
	pid := daemon.cmd.Process.Pid
	cpu, err := idleCPU(ctx, pid, scaledTime(env, 30*time.Second, time.Second))
	if err != nil {
		return nil, errors.Join(err, daemon.stop())
	}
	rss, err := vmField(pid, "VmRSS")
	if err := errors.Join(err, daemon.stop()); err != nil {
		return nil, err
	}
	return Measures{"rss_mb": float64(rss) * 1024 / 1e6, "cpu_ms_per_s": cpu}, nil
}
