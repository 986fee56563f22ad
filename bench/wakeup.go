package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/process"
	"mailroom/orchestrator/reading"
)

var wakeup = Case{
	Name:  "wakeup",
	Title: "wake-up, idle, from the start of send in one process until wait in another has the claimed message",
	About: "One process waits, another sends, each of them open already; 200 messages, one at a time, with pauses between them. The time " +
		"runs until the waiter has the message and its claim is stored: with JetStream, which is a third process on a TCP port of this " +
		"machine, until its acknowledgement is confirmed (received_us is the time until the message is there). River polls once a second, its default, and is asked for " +
		"fewer messages. cpu_ms_per_s is what the waiting process uses while nothing happens, over 20 s: `mailroom wait`, as it is shipped, and " +
		"with the others a process of the benchmark, of which some 0.2 are its own. Backlite is missing: " +
		"it never learns of what another process adds.",
	Contestants: []Contestant{
		{Name: "mailroom", Run: wakeupMailroom},
		{Name: "jetstream-always", Run: wakeupJetStream},
		{Name: "river", Run: wakeupRiver},
	},
	Missed: "a message is two durable transactions, the sender's and the waiter's claim; JetStream syncs the first and keeps the second in memory. " +
		"The two syncs overlap, since the waiter is rung before the disk has the message. In a process that was idle every statement runs " +
		"with cold caches and reads its pages anew: 220 µs until the sender has committed, 80 until the waiter has heard and begins, 300 for " +
		"what it reads and writes (half of that when warm), 270 for the disk.",
	Targets: []Target{
		{Measure: "median_us", Against: "jetstream-always", Want: 1.2, AtMost: true},
		{Measure: "median_us", Against: "river", Want: 1.0 / 50, AtMost: true},
		{Measure: "cpu_ms_per_s", Want: 0.3, AtMost: true},
	},
}

// wakeupParams say to what the two processes connect.
type wakeupParams struct {
	Design string // mailroom, jetstream or river
	Where  string // path or URL
}

// woken is what the waiter says of a message. All times are of the machine's start.
type woken struct {
	Sent     time.Duration // as the message says
	Received time.Duration // the message was there
	Claimed  time.Duration // and nobody else will get it
}

// stampedPayload is a letter that says when it was sent.
type stampedPayload struct {
	Sent time.Duration `json:"sent"`
}

func stamped() []byte { return fmt.Appendf(nil, `{"sent":%d}`, uptime()) }

func sentAt(payload []byte) (time.Duration, error) {
	var p stampedPayload
	err := json.Unmarshal(payload, &p)
	return p.Sent, err
}

// ringerRole sends one message for each line that it hears.
func ringerRole(ctx context.Context, up *wire, raw json.RawMessage) error {
	var p wakeupParams
	if err := json.Unmarshal(raw, &p); err != nil {
		return err
	}
	send, end, err := openRinger(ctx, p)
	if err != nil {
		return err
	}
	if err := up.say("ready"); err != nil {
		return err
	}
	var line string
	for up.hear(&line) == nil {
		if err := send(); err != nil {
			return err
		}
	}
	return end()
}

func openRinger(ctx context.Context, p wakeupParams) (send func() error, end func() error, err error) {
	switch p.Design {
	case "jetstream":
		js, conn, err := dialJetStream(p.Where)
		return func() error {
			_, err := js.Publish(ctx, "sent.recipient", stamped())
			return err
		}, func() error { conn.Close(); return nil }, err
	case "river":
		db, err := openRiver(p.Where)
		if err != nil {
			return nil, nil, err
		}
		client, err := riverInserter(db)
		return func() error {
			_, err := client.Insert(ctx, riverArgs{Body: stamped()}, nil)
			return err
		}, db.Close, err
	}
	r, err := openMailroom(ctx, p.Where)
	return func() error {
		_, err := messages.Send(ctx, r.Ledger, orchestrator.Draft{Sender: "sender", Recipient: "recipient", Type: "note", Payload: stamped()})
		return err
	}, r.Close, err
}

// waiterRole says when each message came.
func waiterRole(ctx context.Context, up *wire, raw json.RawMessage) error {
	var p wakeupParams
	if err := json.Unmarshal(raw, &p); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	came := make(chan woken, 16)
	ended := make(chan error, 1)
	go func() { ended <- waitFor(ctx, p, came) }()
	go func() {
		up.untilClosed()
		cancel()
	}()
	for {
		select {
		case w := <-came:
			if err := up.say(w); err != nil {
				return err
			}
		case err := <-ended:
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

// waitFor receives messages until ctx ends. The first value on came, without times, says that it is listening.
func waitFor(ctx context.Context, p wakeupParams, came chan<- woken) error {
	switch p.Design {
	case "jetstream":
		return waitForJetStream(ctx, p.Where, came)
	case "river":
		db, err := openRiver(p.Where)
		if err != nil {
			return err
		}
		defer db.Close()
		client, err := startRiverWorker(ctx, db, func(body []byte) {
			now := uptime()
			if sent, err := sentAt(body); err == nil {
				came <- woken{Sent: sent, Received: now, Claimed: now}
			}
		})
		if err != nil {
			return err
		}
		came <- woken{}
		<-ctx.Done()
		return client.StopAndCancel(context.WithoutCancel(ctx))
	}
	r, err := openMailroom(ctx, p.Where)
	if err != nil {
		return err
	}
	defer r.Close()
	came <- woken{}
	lease := messages.ReadingLease{Holder: "wait", Writer: process.Self()}
	for {
		got, _, err := reading.Wait(ctx, r.Ledger, reading.Options{Recipient: "recipient", Timeout: time.Hour, Limit: 1, Lease: lease})
		if err != nil {
			return err
		}
		now := uptime()
		for _, m := range got {
			sent, err := sentAt(m.Payload)
			if err != nil {
				return err
			}
			came <- woken{Sent: sent, Received: now, Claimed: now}
		}
		if err := reading.Written(ctx, r.Ledger, got, lease); err != nil {
			return err
		}
	}
}

func waitForJetStream(ctx context.Context, url string, came chan<- woken) error {
	js, conn, err := dialJetStream(url)
	if err != nil {
		return err
	}
	defer conn.Close()
	consumer, err := js.CreateConsumer(ctx, "SENT", jetstream.ConsumerConfig{Durable: "waiter", AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	consuming, err := consumer.Consume(func(m jetstream.Msg) {
		w := woken{Received: uptime()}
		err := m.DoubleAck(ctx)
		w.Claimed = uptime()
		if err == nil {
			w.Sent, err = sentAt(m.Data())
		}
		if err != nil {
			failed <- err
			return
		}
		came <- w
	})
	if err != nil {
		return err
	}
	defer consuming.Stop()
	came <- woken{}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

func wakeupMailroom(ctx context.Context, env Env) (Measures, error) {
	path, err := newMailroom(ctx, env, "sender", "recipient")
	if err != nil {
		return nil, err
	}
	return measureWakeup(ctx, env, wakeupParams{Design: "mailroom", Where: path}, 200)
}

func wakeupRiver(ctx context.Context, env Env) (Measures, error) {
	path, db, err := newRiver(ctx, env)
	if err != nil {
		return nil, err
	}
	if err := db.Close(); err != nil {
		return nil, err
	}
	return measureWakeup(ctx, env, wakeupParams{Design: "river", Where: path}, 20)
}

func wakeupJetStream(ctx context.Context, env Env) (Measures, error) {
	nats, err := startChild(ctx, "nats-server", natsServerParams{Dir: env.Dir, Always: true})
	if err != nil {
		return nil, err
	}
	var url string
	if err := nats.hear(&url); err != nil {
		return nil, err
	}
	js, conn, err := dialJetStream(url)
	if err == nil {
		_, err = addStream(ctx, js, "SENT", "sent.>")
	}
	if err != nil {
		return nil, err
	}
	conn.Close()
	m, err := measureWakeup(ctx, env, wakeupParams{Design: "jetstream", Where: url}, 200)
	return m, errors.Join(err, nats.end())
}

// measureWakeup lets one process send and another wait.
func measureWakeup(ctx context.Context, env Env, p wakeupParams, messages int) (Measures, error) {
	waiter, err := startChild(ctx, "waiter", p)
	if err != nil {
		return nil, err
	}
	ringer, err := startChild(ctx, "ringer", p)
	if err != nil {
		return nil, err
	}
	var ready string
	var w woken
	if err := errors.Join(ringer.hear(&ready), waiter.hear(&w)); err != nil {
		return nil, err
	}
	var received, claimed []time.Duration
	const warmUp = 2
	for i := range scaled(env, messages, 5) + warmUp {
		// The pause is long enough for everybody to fall asleep, and of a length that nobody's timer meets.
		if err := rest(ctx, 20*time.Millisecond+rand.N(20*time.Millisecond)); err != nil {
			return nil, err
		}
		if p.Design == "river" {
			if err := rest(ctx, rand.N(time.Second)); err != nil {
				return nil, err
			}
		}
		if err := ringer.say("ring"); err != nil {
			return nil, err
		}
		if err := waiter.hear(&w); err != nil {
			return nil, err
		}
		if i >= warmUp {
			received, claimed = append(received, w.Received-w.Sent), append(claimed, w.Claimed-w.Sent)
		}
	}
	idle := waiter.cmd.Process.Pid
	if p.Design == "mailroom" {
		wait := exec.CommandContext(ctx, env.Mailroom, "wait", "--db", p.Where, "--recipient", "recipient", "--timeout", "1h")
		if err := wait.Start(); err != nil {
			return nil, err
		}
		defer wait.Wait()
		defer wait.Process.Kill()
		if err := rest(ctx, 5*time.Second); err != nil { // until it has settled
			return nil, err
		}
		idle = wait.Process.Pid
	}
	cpu, err := idleCPU(ctx, idle, scaledTime(env, 20*time.Second, time.Second))
	if err := errors.Join(err, ringer.end(), waiter.end()); err != nil {
		return nil, err
	}
	return Measures{
		"median_us": inMicroseconds(medianOf(claimed)), "worst_us": inMicroseconds(slices.Max(claimed)),
		"received_us": inMicroseconds(medianOf(received)), "cpu_ms_per_s": cpu,
	}, nil
}

func inMicroseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// medianOf sorts ds.
func medianOf(ds []time.Duration) time.Duration {
	slices.Sort(ds)
	return ds[len(ds)/2]
}
