package transport_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/transport"
)

// runPoster delivers the unsettled messages one after another, as the router would. When it has delivered as many
// as the last argument, it is killed before it settles the last of them; 0: never.
func runPoster(t *testing.T, args []string) {
	address, secret := args[0], args[1]
	c := &courier{t: t, notebook: args[2], name: "p"}
	count, err := strconv.Atoi(args[3])
	must(t, err)
	last, err := strconv.Atoi(args[4])
	must(t, err)
	w := new(transport.Webhook)
	settled := c.settled()
	for i := range count {
		m := c.message(i)
		if settled[m.ID] {
			continue
		}
		must(t, errors.Join(w.Deliver(t.Context(), orchestrator.Attempt{
			Recipient: "builder", Address: address, Messages: []orchestrator.Message{m}, Secret: secret,
			AllowPrivate: true,
		})...))
		if last--; last == 0 {
			must(t, syscall.Kill(os.Getpid(), syscall.SIGKILL))
		}
		c.settle(m)
	}
}

// executioner kills the process that sent a chosen request, before the response or together with it.
type executioner struct {
	mu       sync.Mutex
	victim   *helper.Process
	left     int // requests until the kill; below 0: never
	answered bool
}

func (e *executioner) answer(w http.ResponseWriter, _ *http.Request, _ *request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.left--
	if e.left != 0 {
		return
	}
	if e.answered {
		w.WriteHeader(http.StatusOK)
		http.NewResponseController(w).Flush()
	}
	unix.Kill(e.victim.ID(), unix.SIGKILL)
}

// A process is killed with SIGKILL hundreds of times: while the receiver has its request, while the response is on
// its way, and between the delivery and its settlement. Every message arrives, in order. Repeats have the same
// webhook-id and the same body, so a receiver that drops repeats gets each message once.
func TestWebhookKill(t *testing.T) {
	t.Parallel()
	rounds, messages := helper.Times(240), helper.Times(700)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	folder := t.TempDir()
	e := &executioner{left: -1}
	r := newReceiver(t, false, e.answer)
	start := func(last int) *helper.Process {
		return helper.Start(t, "poster", r.server.URL+"/", r.secret, folder, strconv.Itoa(messages), strconv.Itoa(last))
	}
	unsettled := 0 // deliveries that were certainly not settled
	for round := range rounds {
		requests, last := 1+random.IntN(4), 0
		e.mu.Lock()
		e.left = -1
		switch round % 3 {
		case 0:
			last = requests
			unsettled++
		default:
			e.left, e.answered = requests, round%3 == 1
		}
		e.victim = start(last)
		e.mu.Unlock()
		if _, err := e.victim.End(); err == nil || err.Error() != "signal: killed" {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	e.mu.Lock()
	e.left = -1
	e.mu.Unlock()
	start(0).Wait()
	mustRepeatOnly(t, r.all(), messages, unsettled, rounds)
}

// mustRepeatOnly checks the requests for messages p-00000 and so on: each message in order, with least to most
// repeats in total.
func mustRepeatOnly(t *testing.T, requests []*request, messages, least, most int) {
	t.Helper()
	known := map[string]*request{}
	var order []string
	for _, q := range requests {
		first := known[q.id]
		if first == nil {
			known[q.id] = q
			order = append(order, q.messageID)
			continue
		}
		if string(first.body) != string(q.body) || q.messageID != order[len(order)-1] {
			t.Errorf("%s came again, as\n%.200s\nafter\n%.200s", q.id, q.body, first.body)
		}
	}
	var want []string
	for i := range messages {
		want = append(want, fmt.Sprintf("p-%05d", i))
	}
	if !slices.Equal(order, want) {
		t.Errorf("%d messages arrived, not %d, or in another order: %q", len(order), messages, order)
	}
	repeats := len(requests) - messages
	t.Logf("%d repeats", repeats)
	if repeats < least || repeats > most {
		t.Errorf("%d repeats, not %d to %d", repeats, least, most)
	}
}
