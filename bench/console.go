package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/traffic"
)

// asked lists the commands that each view of the console runs when it is shown.
var asked = map[string][][2]string{
	"now": {{"now", `{}`}, {"room", `{}`}, {"stats", `{"since":"1h","every":"1m","waiting":true}`},
		{"doctor", `{"try":false,"quick":true}`}},
	"messages": {{"messages_list", `{"limit":400}`}, {"messages_list", `{"agent":"worker3","limit":400}`},
		{"messages_list", `{"sender":"sender2","recipient":"worker3","limit":400}`},
		{"messages_list", `{"pair":["sender2","worker2"],"limit":400}`},
		{"messages_list", `{"status":"dead","limit":400}`}, {"messages_list", `{"status":"pending","limit":400}`},
		{"messages_list", `{"message_type":"nothing_of_the_kind","limit":400}`},
		{"messages_list", `{"thread_id":"thread-none","limit":400}`}, {"status", `{}`}},
	"message": {{"trace", `{"message_id":"msg-00000000000000000000001000"}`},
		{"why", `{"message_id":"msg-00000000000000000000001000"}`}},
	"agents":    {{"agent_list", `{"backlog":true,"order":"waiting","limit":50}`}},
	"agent":     {{"agent_show", `{"name":"worker3","lately":true}`}, {"stats", `{"agent":"worker3","since":"24h"}`}},
	"threads":   {{"list_threads", `{"all":true,"limit":50}`}},
	"questions": {{"signal_list", `{"all":true,"limit":100}`}},
	"operations": {{"dead_letters_groups", `{}`}, {"status", `{}`}, {"schedule_list", `{}`}, {"setting_list", `{}`},
		{"agent_list", `{}`}},
}

var consoleCase = Case{
	Name:  "console",
	Title: "the commands of the console's views, with 1,000,000 messages and 3,000,000 trace rows",
	About: "`mailroom serve` runs on a database with 1,000,000 delivered and read messages, their inbox rows, 3,000,000 trace " +
		"rows, and 1,000 dead letters. Meanwhile, a process sends 500 messages a second. The case calls the commands that the " +
		"console's views run, each of them 50 times, over HTTP. Each figure is the 95th percentile of the slowest command of a " +
		"view.",
	Contestants: []Contestant{{Name: "mailroom", Run: runConsole}},
	Targets:     consoleTargets(),
}

func consoleTargets() (list []Target) {
	for view := range asked {
		list = append(list, Target{Measure: view + "_p95_ms", Want: 100, AtMost: true})
	}
	slices.SortFunc(list, func(a, b Target) int { return strings.Compare(a.Measure, b.Measure) })
	return list
}

func runConsole(r *Run) Measures {
	path := r.kept("console", r.scaled(1_000_000, 20_000), r.consoleDatabase)
	c := r.serveConsole(path)
	r.startSending(path)
	m := Measures{}
	for view, commands := range asked {
		for _, command := range commands {
			p95 := must(c.asks(r.ctx, command[0], command[1], 50))
			m[view+"_p95_ms"] = max(m[view+"_p95_ms"], milliseconds(p95))
		}
	}
	return m
}

// consoleDatabase creates a database with the given number of finished messages and a thousand dead letters, and
// counts the traces, as a daemon does gradually.
func (r *Run) consoleDatabase(rows int) (path string) {
	path = r.newMailroom(append(numbered("worker", 10), numbered("sender", 8)...)...)
	finished{Rows: rows, Status: "delivered", Ended: time.Minute, Senders: 8}.fill(path)
	gone := filepath.Join(r.Dir, "gone")
	drafts := make([]orchestrator.Draft, 1000)
	for i := range drafts {
		drafts[i] = letter(fmt.Sprintf("sender%d", i%8+1), "gone")
		drafts[i].MaxRetries = new(0)
	}
	check(os.Mkdir(gone, 0o700))
	r.within(path, func(e *delivery.Engine) {
		r.addAgent(e, agents.Update{Name: "gone", Deliver: new("jsonl:" + filepath.Join(gone, "mail.jsonl"))})
		check(os.Remove(gone))
		check(messages.SendBatch(r.ctx, e.Ledger, drafts, true)[0].Refused)
		must(e.DeliverAll(r.ctx, delivery.Options{}))
		check(traffic.Count(r.ctx, e.Ledger))
	})
	return path
}

// console is a daemon with an endpoint, and a token that has all rights.
type console struct {
	*served
	token string
}

func (r *Run) serveConsole(path string) (c console) {
	r.within(path, func(e *delivery.Engine) {
		var err error
		c.token, _, err = agents.IssueToken(r.ctx, e.Ledger, "boss", true, 0)
		check(err)
	})
	c.served = r.serve(path, "--listen", "127.0.0.1:0", "--rate", "1000000")
	return c
}

// request sends a request to the console.
func (c console) request(ctx context.Context, method, path, body string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.address+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("Content-Type", "application/json")
	return http.DefaultClient.Do(request)
}

// asks runs a command over HTTP n times, and returns the 95th percentile of its duration.
func (c console) asks(ctx context.Context, command, params string, n int) (time.Duration, error) {
	var took []time.Duration
	for range n {
		began := time.Now()
		response, err := c.request(ctx, http.MethodPost, "/v1/commands/"+command, params)
		if err != nil {
			return 0, err
		}
		body, err := io.ReadAll(response.Body)
		took = append(took, time.Since(began))
		response.Body.Close()
		if err == nil && response.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s %s: %s", command, params, body)
		}
		if err != nil {
			return 0, err
		}
	}
	slices.Sort(took)
	return took[len(took)*95/100], nil
}

// steadily sends 500 messages a second, and records the duration of each send.
type steadily struct {
	mu   sync.Mutex
	took []time.Duration
}

// startSending starts sending from eight agents to ten agents, until the end of the run.
func (r *Run) startSending(path string) *steadily {
	s, e, ended := &steadily{}, r.open(path), make(chan error, 1)
	until, stop := context.WithCancel(r.ctx)
	go func() { ended <- s.send(r.ctx, until, e) }()
	r.after(func() error { stop(); return <-ended })
	return s
}

func (s *steadily) send(ctx, until context.Context, e *delivery.Engine) error {
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for i := 0; ; i++ {
		select {
		case <-until.Done():
			return nil
		case <-ticker.C:
		}
		began := time.Now()
		d := letter(fmt.Sprintf("sender%d", i%8+1), fmt.Sprintf("worker%d", i%10+1))
		if _, err := messages.Send(ctx, e.Ledger, d); err != nil {
			return err
		}
		s.mu.Lock()
		s.took = append(s.took, time.Since(began))
		s.mu.Unlock()
	}
}

// lately returns the median duration of the sends since the last call.
func (s *steadily) lately() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	took := s.took
	s.took = nil
	expectSome(len(took))
	return medianOf(took)
}
