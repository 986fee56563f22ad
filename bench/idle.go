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
	Title: "an idle daemon and an idle MCP server, with 1,000 registered agents",
	About: "`mailroom serve` and `mailroom mcp` each run for 30 s, one after the other, on a database with 1,000 agents and no messages. " +
		"`daemon_mb` and `mcp_mb` are their resident memory at the end, in millions of bytes. The measures that end with `private_mb` " +
		"are the memory that the processes allocated themselves. The rest of the memory is pages of the program's file, which all " +
		"processes of the program share. The measures that end with `cpu_ms_per_s` are the processor time that the processes used per " +
		"second.",
	Contestants: []Contestant{{Name: "mailroom", Run: runIdle}},
	Targets: []Target{
		{Measure: "daemon_mb", Want: 30, AtMost: true}, {Measure: "daemon_cpu_ms_per_s", Want: 0.5, AtMost: true},
		{Measure: "mcp_mb", Want: 18, AtMost: true},
	},
	Missed: "A kernel that maps files in large pages counts nearly all of the program's file (25 MB) as resident in each process " +
		"of the program. The file is in memory only once. The daemon's work takes 0.33 million instructions each second, which is " +
		"a tenth of a millisecond. However, the daemon becomes active twice each second: once for the schedule deliver_all, and " +
		"once to look for changed schedules. For this work, Go's scheduler runs about 30 threads, which costs 80 µs for each " +
		"thread on a nested virtual machine such as this one.",
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

// withMCP starts an MCP server, lists its tools as a client, and calls f with the process ID of the server.
func (r *Run) withMCP(path string, f func(pid int)) {
	cmd := exec.CommandContext(r.ctx, r.Mailroom, "mcp", "--db", path, "--as", "agent1")
	cmd.Dir = filepath.Dir(path)
	in, out := must(cmd.StdinPipe()), must(cmd.StdoutPipe())
	check(cmd.Start())
	client := newWire(out, in)
	ask := func(request string) {
		check(client.say(json.RawMessage(request)))
		var answer struct{ Result, Error json.RawMessage }
		for answer.Result == nil { // notifications may precede the answer
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
