package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"
)

var idle = Case{
	Name:  "idle",
	Title: "a daemon and an MCP server that have nothing to do, with 1,000 agents registered",
	About: "`mailroom serve` and `mailroom mcp` on a database with 1,000 agents and no messages, left alone for 30 s, one after the other. " +
		"daemon_mb and mcp_mb are their resident memory at the end, in millions of bytes; the measures that end with private_mb are what they " +
		"allocated themselves, and those with cpu_ms_per_s the processor time that they used a second. The rest are pages of the program's file, which all of its processes share.",
	Contestants: []Contestant{{Name: "mailroom", Run: runIdle}},
	Targets: []Target{
		{Measure: "daemon_mb", Want: 30, AtMost: true}, {Measure: "daemon_cpu_ms_per_s", Want: 0.5, AtMost: true},
		{Measure: "mcp_mb", Want: 18, AtMost: true},
	},
	Missed: "a kernel that maps files by large pages counts nearly all of the program's file as resident, 25 MB of it, in each of its processes; " +
		"it is in memory once. What the daemon does each second takes 0.33 million instructions, which is a tenth of a millisecond; but it does so at " +
		"two times of the second (the schedule deliver_all, and the look for changed plans), and Go's scheduler runs some 30 threads for that, which costs " +
		"80 µs each on a machine within a virtual one such as this.",
}

func runIdle(r *Run) Measures {
	path := r.newMailroom(numbered("agent", r.scaled(1000, 50))...)
	m := Measures{}
	watch := func(name string, pid int) {
		m[name+"_cpu_ms_per_s"] = r.idleCPU(pid, r.scaledTime(30*time.Second, time.Second))
		m[name+"_mb"] = float64(must(vmField(pid, "VmRSS"))) * 1024 / 1e6
		m[name+"_private_mb"] = float64(must(vmField(pid, "RssAnon"))) * 1024 / 1e6
	}
	r.withMCP(path, func(pid int) { watch("mcp", pid) })
	watch("daemon", r.serve(path).cmd.Process.Pid)
	return m
}

// withMCP calls f with the process of an MCP server whose client has listed its tools.
func (r *Run) withMCP(path string, f func(pid int)) {
	cmd := exec.CommandContext(r.ctx, r.Mailroom, "mcp", "--db", path, "--as", "agent1")
	cmd.Dir = filepath.Dir(path)
	in, out := must(cmd.StdinPipe()), must(cmd.StdoutPipe())
	check(cmd.Start())
	client := newWire(out, in)
	ask := func(request string) {
		check(client.say(json.RawMessage(request)))
		var answer struct{ Result, Error json.RawMessage }
		for answer.Result == nil { // notices may come before it
			check(client.hear(&answer))
			if answer.Error != nil {
				check(fmt.Errorf("%s: %s", request, answer.Error))
			}
		}
	}
	ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},` +
		`"clientInfo":{"name":"bench","version":"1"}}}`)
	check(client.say(json.RawMessage(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)))
	ask(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	f(cmd.Process.Pid)
	check(in.Close())
	check(cmd.Wait())
}
