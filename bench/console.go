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
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
)

// asked are the commands that each view of the console runs to be shown.
var asked = map[string][][2]string{
	"now":        {{"now", `{}`}, {"room", `{}`}, {"stats", `{"since":"1h","every":"1m","waiting":true}`}},
	"messages":   {{"messages_list", `{"limit":100}`}, {"messages_list", `{"agent":"worker3","limit":100}`}, {"messages_list", `{"sender":"sender2","recipient":"worker3","limit":100}`}, {"messages_list", `{"status":"failed","limit":100}`}},
	"message":    {{"trace", `{"message_id":"msg-00000000000000000000001000"}`}, {"why", `{"message_id":"msg-00000000000000000000001000"}`}},
	"agents":     {{"agent_list", `{"backlog":true,"order":"waiting","limit":50}`}},
	"agent":      {{"agent_show", `{"name":"worker3","lately":true}`}, {"stats", `{"agent":"worker3","since":"24h"}`}},
	"threads":    {{"list_threads", `{"all":true,"limit":50}`}},
	"questions":  {{"signal_list", `{"all":true,"limit":100}`}},
	"operations": {{"dead_letters_groups", `{}`}, {"status", `{}`}, {"schedule_list", `{}`}, {"setting_list", `{}`}},
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
	path, err := newMailroom(ctx, env, append(numbered("worker", 10), numbered("sender", 8)...)...)
	if err != nil {
		return nil, err
	}
	if err := (finished{Rows: scaled(env, 1_000_000, 20_000), Status: "delivered", Ended: time.Minute, Senders: 8}).fill(ctx, path); err != nil {
		return nil, err
	}
	token, err := prepareConsole(ctx, path)
	if err != nil {
		return nil, err
	}
	daemon, address, err := serveAt(ctx, env, path)
	if err != nil {
		return nil, err
	}
	sending, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- sendSteadily(sending, path, 2*time.Millisecond) }()
	m := Measures{}
	for view, commands := range asked {
		for _, c := range commands {
			p95, askErr := asks(ctx, address, token, c[0], c[1], 50)
			err = errors.Join(err, askErr)
			m[view+"_p95_ms"] = max(m[view+"_p95_ms"], inMicroseconds(p95)/1000)
		}
	}
	stop()
	return m, errors.Join(err, <-ended, daemon.stop())
}

// prepareConsole adds dead letters, and returns the token of an administrator.
func prepareConsole(ctx context.Context, path string) (token string, err error) {
	r, err := openMailroom(ctx, path)
	if err != nil {
		return "", err
	}
	gone := filepath.Join(filepath.Dir(path), "gone")
	deliver := "jsonl:" + filepath.Join(gone, "mail.jsonl")
	if err := os.Mkdir(gone, 0o700); err != nil {
		return "", errors.Join(err, r.Close())
	}
	_, _, err = agents.Add(ctx, r.Ledger, agents.Update{Name: "gone", Deliver: &deliver})
	if err := errors.Join(err, os.Remove(gone)); err != nil {
		return "", errors.Join(err, r.Close())
	}
	drafts := make([]orchestrator.Draft, 1000)
	for i := range drafts {
		drafts[i] = letter(fmt.Sprintf("sender%d", i%8+1), "gone")
		drafts[i].MaxRetries = new(0)
	}
	_, errs := messages.SendBatch(ctx, r.Ledger, drafts, true)
	_, err = r.DeliverAll(ctx, delivery.Options{})
	errs = append(errs, err)
	token, _, err = agents.IssueToken(ctx, r.Ledger, "boss", true, 0)
	return token, errors.Join(errors.Join(errs...), err, r.Close())
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

// sendSteadily sends a message every so often until ctx ends.
func sendSteadily(ctx context.Context, path string, every time.Duration) error {
	r, err := openMailroom(context.WithoutCancel(ctx), path)
	if err != nil {
		return err
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return r.Close()
		case <-ticker.C:
			if _, err := messages.Send(context.WithoutCancel(ctx), r.Ledger, letter(fmt.Sprintf("sender%d", i%8+1), fmt.Sprintf("worker%d", i%10+1))); err != nil {
				return errors.Join(err, r.Close())
			}
		}
	}
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
