package main

import "time"

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

func runIdle(r *Run) Measures {
	daemon := r.serve(r.newMailroom(numbered("agent", r.scaled(1000, 50))...))
	pid := daemon.cmd.Process.Pid
	cpu := r.idleCPU(pid, r.scaledTime(30*time.Second, time.Second))
	return Measures{"rss_mb": float64(must(vmField(pid, "VmRSS"))) * 1024 / 1e6, "cpu_ms_per_s": cpu}
}
