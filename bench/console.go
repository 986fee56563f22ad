package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/traffic"
)

// asked are the commands that each view of the console runs to be shown.
var asked = map[string][][2]string{
	"now": {{"now", `{}`}, {"room", `{}`}, {"stats", `{"since":"1h","every":"1m","waiting":true}`}, {"doctor", `{"try":false,"quick":true}`}},
	"messages": {{"messages_list", `{"limit":400}`}, {"messages_list", `{"agent":"worker3","limit":400}`}, {"messages_list", `{"sender":"sender2","recipient":"worker3","limit":400}`},
		{"messages_list", `{"pair":["sender2","worker2"],"limit":400}`}, {"messages_list", `{"status":"dead","limit":400}`}, {"messages_list", `{"status":"pending","limit":400}`},
		{"messages_list", `{"message_type":"nothing_of_the_kind","limit":400}`}, {"messages_list", `{"thread_id":"thread-none","limit":400}`}, {"status", `{}`}},
	"message":    {{"trace", `{"message_id":"msg-00000000000000000000001000"}`}, {"why", `{"message_id":"msg-00000000000000000000001000"}`}},
	"agents":     {{"agent_list", `{"backlog":true,"order":"waiting","limit":50}`}},
	"agent":      {{"agent_show", `{"name":"worker3","lately":true}`}, {"stats", `{"agent":"worker3","since":"24h"}`}},
	"threads":    {{"list_threads", `{"all":true,"limit":50}`}},
	"questions":  {{"signal_list", `{"all":true,"limit":100}`}},
	"operations": {{"dead_letters_groups", `{}`}, {"status", `{}`}, {"schedule_list", `{}`}, {"setting_list", `{}`}, {"agent_list", `{}`}},
}

var consoleCase = Case{
	Name:  "console",
	Title: "what the views of the console ask, at 1,000,000 messages and 3,000,000 trace rows",
	About: "`mailroom serve` on a database with 1,000,000 messages that were delivered and read, their inbox and 3,000,000 trace rows, and 1,000 dead letters, while a process " +
		"sends 500 messages a second. Each command that a view of the console runs is asked over HTTP 50 times; a figure is the 95th percentile of the slowest of a view's.",
	Contestants: []Contestant{{Name: "mailroom", Run: runConsole}},
	Targets:     consoleTargets(),
}

func consoleTargets() (list []Target) {
	for view := range asked {
		list = append(list, Target{Measure: view + "_p95_ms", Want: 100, AtMost: true})
	}
	slices.SortFunc(list, func(a, b Target) int { return bytes.Compare([]byte(a.Measure), []byte(b.Measure)) })
	return list
}

func runConsole(ctx context.Context, env Env) (Measures, error) {
	path, err := consoleDatabase(ctx, env)
	if err != nil {
		return nil, err
	}
	token, err := administrator(ctx, path)
	if err != nil {
		return nil, err
	}
	daemon, address, err := serveAt(ctx, env, path)
	if err != nil {
		return nil, err
	}
	sending := startSending(ctx, path)
	m := Measures{}
	for view, commands := range asked {
		for _, c := range commands {
			p95, askErr := asks(ctx, address, token, c[0], c[1], 50)
			err = errors.Join(err, askErr)
			m[view+"_p95_ms"] = max(m[view+"_p95_ms"], inMicroseconds(p95)/1000)
		}
	}
	return m, errors.Join(err, sending.end(), daemon.stop())
}

// consoleDatabase returns a database with a million messages that have ended, and a thousand dead letters. The first round makes it,
// beside the folder of its run, where the later ones find it.
func consoleDatabase(ctx context.Context, env Env) (path string, err error) {
	rows := scaled(env, 1_000_000, 20_000)
	final := filepath.Join(filepath.Dir(env.Dir), fmt.Sprintf("console-%d", rows))
	path = filepath.Join(final, "mailroom.db")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	made, err := makeConsoleDatabase(ctx, env, rows)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(final, 0o700); err != nil {
		return "", err
	}
	return path, os.Rename(made, path)
}

// makeConsoleDatabase makes a database with so many messages that have ended, and a thousand dead letters.
func makeConsoleDatabase(ctx context.Context, env Env, rows int) (path string, err error) {
	path, err = newMailroom(ctx, env, append(numbered("worker", 10), numbered("sender", 8)...)...)
	if err != nil {
		return "", err
	}
	if err := (finished{Rows: rows, Status: "delivered", Ended: time.Minute, Senders: 8}).fill(ctx, path); err != nil {
		return "", err
	}
	return path, addDeadLetters(ctx, path)
}

// addDeadLetters adds a thousand dead letters, and counts what the traces tell, as a daemon does by and by.
func addDeadLetters(ctx context.Context, path string) error {
	r, err := openMailroom(ctx, path)
	if err != nil {
		return err
	}
	gone := filepath.Join(filepath.Dir(path), "gone")
	deliver := "jsonl:" + filepath.Join(gone, "mail.jsonl")
	if err := os.Mkdir(gone, 0o700); err != nil {
		return errors.Join(err, r.Close())
	}
	_, _, err = agents.Add(ctx, r.Ledger, agents.Update{Name: "gone", Deliver: &deliver})
	if err := errors.Join(err, os.Remove(gone)); err != nil {
		return errors.Join(err, r.Close())
	}
	drafts := make([]orchestrator.Draft, 1000)
	for i := range drafts {
		drafts[i] = letter(fmt.Sprintf("sender%d", i%8+1), "gone")
		drafts[i].MaxRetries = new(0)
	}
	outs := messages.SendBatch(ctx, r.Ledger, drafts, true)
	_, err = r.DeliverAll(ctx, delivery.Options{})
	return errors.Join(outs[0].Refused, err, traffic.Count(ctx, r.Ledger), r.Close())
}

// administrator returns a token with the right to everything.
func administrator(ctx context.Context, path string) (token string, err error) {
	r, err := openMailroom(ctx, path)
	if err != nil {
		return "", err
	}
	token, _, err = agents.IssueToken(ctx, r.Ledger, "boss", true, 0)
	return token, errors.Join(err, r.Close())
}

// serveAt is serve with an endpoint, whose address it returns.
func serveAt(ctx context.Context, env Env, path string) (*served, string, error) {
	cmd := exec.CommandContext(ctx, env.Mailroom, "serve", "--db", path, "--listen", "127.0.0.1:0", "--rate", "1000000", "--json")
	cmd.Dir = filepath.Dir(path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	var hello struct{ Listening string }
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &hello)
	}
	if err != nil {
		return nil, "", fmt.Errorf("mailroom serve says %s: %w", line, errors.Join(err, cmd.Process.Kill(), cmd.Wait()))
	}
	return &served{cmd}, hello.Listening, nil
}

// steadily sends 500 messages a second until it is ended, and notes how long each send took.
type steadily struct {
	stop  context.CancelFunc
	ended chan error

	mu   sync.Mutex
	took []time.Duration
}

// startSending begins to send, from eight agents to ten.
func startSending(ctx context.Context, path string) *steadily {
	until, stop := context.WithCancel(ctx)
	s := &steadily{stop: stop, ended: make(chan error, 1)}
	go func() { s.ended <- s.send(ctx, until, path) }()
	return s
}

func (s *steadily) send(ctx, until context.Context, path string) error {
	r, err := openMailroom(ctx, path)
	if err != nil {
		return err
	}
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for i := 0; ; i++ {
		select {
		case <-until.Done():
			return r.Close()
		case <-ticker.C:
		}
		began := time.Now()
		if _, err := messages.Send(ctx, r.Ledger, letter(fmt.Sprintf("sender%d", i%8+1), fmt.Sprintf("worker%d", i%10+1))); err != nil {
			return errors.Join(err, r.Close())
		}
		s.mu.Lock()
		s.took = append(s.took, time.Since(began))
		s.mu.Unlock()
	}
}

// lately returns how long the sends since the last call took, in order of length.
func (s *steadily) lately() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	took := s.took
	s.took = nil
	slices.Sort(took)
	return took
}

// end stops it.
func (s *steadily) end() error {
	s.stop()
	return <-s.ended
}

// asks runs a command over HTTP n times, and returns the 95th percentile of how long it took.
func asks(ctx context.Context, address, token, command, params string, n int) (time.Duration, error) {
	var took []time.Duration
	for range n {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/v1/commands/"+command, bytes.NewBufferString(params))
		if err != nil {
			return 0, err
		}
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set("Content-Type", "application/json")
		began := time.Now()
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return 0, err
		}
		body, err := io.ReadAll(response.Body)
		took = append(took, time.Since(began))
		if err := errors.Join(err, response.Body.Close()); err != nil {
			return 0, err
		}
		if response.StatusCode != http.StatusOK {
			return 0, fmt.Errorf("%s %s: %s", command, params, body)
		}
	}
	slices.Sort(took)
	return took[len(took)*95/100], nil
}
