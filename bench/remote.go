package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"mailroom/commands/surface/remote"
	"mailroom/orchestrator/store"
)

var remoteCase = Case{
	Name:  "remote",
	Title: "a place that has joined over TLS, on the same machine",
	About: "While a daemon runs, the program starts, sends one message, and ends, 100 times. mailroom sends over TLS to the daemon, as a " +
		"place that has joined. mailroom-file writes to the file. `send_ms` is the median of the time from the start of the process " +
		"to its end. `hook_p95_ms` is the longest time of 95 of 100 hooks that find no messages. `waiters_mib` is the resident memory " +
		"of the daemon while 200 places wait for messages, each over its own connection.",
	Contestants: []Contestant{{Name: "mailroom", Run: runRemote}, {Name: "mailroom-file", Run: runBesideDaemon}},
	Targets: []Target{
		{Measure: "send_ms", Against: "mailroom-file", Want: 2.5, AtMost: true},
		{Measure: "hook_p95_ms", Want: 50, AtMost: true},
		{Measure: "waiters_mib", Want: 60, AtMost: true},
	},
}

const remoteWaiters = 200

// sendsOf measures the duration of a process that sends a message.
func (r *Run) sendsOf(env []string, flags ...string) time.Duration {
	return timed(r.scaled(100, 10), func() { r.rest(15 * time.Millisecond) }, func() {
		cmd := exec.CommandContext(r.ctx, r.Mailroom, append(flags, "send", "--recipient", "recipient", "--message-type", "task_assignment",
			"--payload", letterPayload)...)
		cmd.Env, cmd.Dir = env, r.Dir
		if out, err := cmd.CombinedOutput(); err != nil {
			check(fmt.Errorf("%v: %w: %s", cmd.Args, err, out))
		}
	})
}

func runBesideDaemon(r *Run) Measures {
	path := r.newMailroom("sender", "recipient")
	r.serve(path, "--socket", "off")
	return Measures{"send_ms": milliseconds(r.sendsOf(os.Environ(), "--db", path, "--as", "sender"))}
}

func runRemote(r *Run) Measures {
	path := r.newMailroom("sender", "recipient")
	s := r.serve(path, "--listen", "0.0.0.0:0", "--rate", "100000", "--socket", "off")
	out := must(exec.CommandContext(r.ctx, r.Mailroom, "invite", "sender", "--db", path, "--host", "127.0.0.1", "--json").Output())
	var invited struct{ Link string }
	check(json.Unmarshal(out, &invited))
	join := exec.CommandContext(r.ctx, r.Mailroom, "join", "--print", invited.Link)
	join.Dir = r.Dir
	printed := strings.Fields(string(must(join.Output())))
	env := append(os.Environ(), printed...)
	m := Measures{"send_ms": milliseconds(r.sendsOf(env))}

	var took []time.Duration
	for range r.scaled(100, 20) {
		cmd := exec.CommandContext(r.ctx, r.Mailroom, "hook", "PostToolUse", "--host", "claude", "--as", "sender")
		cmd.Env, cmd.Dir = env, r.Dir
		cmd.Stdin = strings.NewReader(`{"session_id":"one","transcript_path":"","hook_event_name":"PostToolUse","tool_name":"Bash"}`)
		began := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			check(fmt.Errorf("%v: %w: %s", cmd.Args, err, out))
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	m["hook_p95_ms"] = milliseconds(took[len(took)*95/100])

	db, token := strings.TrimPrefix(printed[0], "MAILROOM_DB="), strings.TrimPrefix(printed[1], "MAILROOM_TOKEN=")
	place := must(remote.Parse(db))
	ctx, cancel := context.WithCancel(r.ctx)
	var all sync.WaitGroup
	for range remoteWaiters {
		all.Go(func() {
			client := remote.NewClient(place, place.Pin, token, func(ctx context.Context) (net.Conn, error) { return place.Dial(ctx, remote.Dialing{}) })
			defer client.Close()
			client.Run(ctx, &remote.Request{Args: []string{"wait", "--wait-for", "recipient", "--timeout", "600"}}, remote.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard})
		})
	}
	e := r.open(path)
	for again := time.NewTicker(20 * time.Millisecond); ; <-again.C {
		var waiting int64
		check(e.Store.Read(r.ctx, func(c *store.Conn) (err error) {
			waiting, err = c.Number(`SELECT count(*) FROM waits`)
			return err
		}))
		if waiting == remoteWaiters {
			again.Stop()
			break
		}
	}
	m["waiters_mib"] = float64(must(vmField(s.cmd.Process.Pid, "VmRSS"))) / 1024
	cancel()
	all.Wait()
	return m
}
