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
	Title: "idle wake-up, from the start of `send` in one process until `wait` in another process has the claimed message",
	About: "One process waits, and another process sends. Both already have the database open. The sender sends 200 messages, one " +
		"at a time, with pauses between them. The time runs until the waiter has the message and its claim is stored. JetStream is " +
		"a third process on a TCP port of this machine, and its time runs until the acknowledgment is confirmed. `received_us` is " +
		"the time until the waiter has the message. River polls once a second, which is its default, and gets fewer messages.\n\n" +
		"`cpu_ms_per_s` is the processor time per second that the waiting process uses while nothing happens, measured over 20 s. " +
		"For Mailroom, that process is `mailroom wait` as shipped. For the other contestants, it is a process of the benchmark, " +
		"which itself uses about 0.2 ms per second. Backlite is missing, because it never learns of messages that another process " +
		"adds.",
	Contestants: []Contestant{
		{Name: "mailroom", Run: wakesMailroom},
		{Name: "jetstream-always", Run: wakesJetStream},
		{Name: "river", Run: wakesRiver},
	},
	Missed: "A message needs two durable transactions: the sender's message and the waiter's claim. JetStream syncs the message " +
		"and keeps the claim in memory. Mailroom's two syncs overlap, because it notifies the waiter before the message is on " +
		"disk. In a process that was idle, every statement runs with cold caches and reads its pages again. The sender commits " +
		"after 220 µs, and the waiter begins 80 µs later. The waiter's reads and writes take 300 µs (half of that if the caches " +
		"are warm), and the disk takes 270 µs.",
	Targets: []Target{
		{Measure: "median_us", Against: "jetstream-always", Want: 1, AtMost: true},
		{Measure: "median_us", Against: "river", Want: 1.0 / 50, AtMost: true},
		{Measure: "cpu_ms_per_s", Want: 0.3, AtMost: true},
	},
}

// wakeupParams configures the two processes.
type wakeupParams struct {
	Design string // mailroom, jetstream or river
	Where  string // path or URL
}

// woken is the waiter's report of a message. All times are uptimes.
type woken struct {
	Sent     time.Duration // the time in the message
	Received time.Duration // the waiter received the message
	Claimed  time.Duration // no other process can receive it any more
}

// stamped returns a payload that contains the time of sending.
func stamped() []byte { return fmt.Appendf(nil, `{"Sent":%d}`, uptime()) }

// ringerRole sends one message for each line of its input.
func ringerRole(r *Run, up *wire, p wakeupParams) {
	send := openRinger(r, p)
	check(up.say("ready"))
	var line string
	for up.hear(&line) == nil {
		check(send(stamped()))
	}
}

func openRinger(r *Run, p wakeupParams) (send func(payload []byte) error) {
	switch p.Design {
	case "jetstream":
		js := r.dialJetStream(p.Where)
		return func(payload []byte) error {
			_, err := js.Publish(r.ctx, "sent.recipient", payload)
			return err
		}
	case "river":
		return riverInserts(r, r.openRiver(p.Where))
	}
	e := r.open(p.Where)
	return func(payload []byte) error {
		d := orchestrator.Draft{Sender: "sender", Recipient: "recipient", Type: "note", Payload: payload}
		_, err := messages.Send(r.ctx, e.Ledger, d)
		return err
	}
}

// waiterRole reports when each message arrived. Before the first message, it sends an empty report to announce that
// it is listening.
func waiterRole(r *Run, up *wire, p wakeupParams) {
	ctx, cancel := context.WithCancelCause(r.ctx)
	r.ctx = ctx
	listening := func() {
		check(up.say(woken{}))
		go func() { cancel(up.untilClosed()) }()
	}
	came := func(payload []byte, received time.Duration, err error) {
		w := woken{Received: received, Claimed: uptime()}
		if err := errors.Join(err, json.Unmarshal(payload, &w)); err != nil {
			cancel(err)
		} else if err := up.say(w); err != nil {
			cancel(err)
		}
	}
	switch p.Design {
	case "jetstream":
		r.waitForJetStream(p.Where, listening, came)
	case "river":
		client := startRiver(r, r.openRiver(p.Where), 10, func(body []byte) error {
			came(body, uptime(), nil)
			return nil
		})
		listening()
		<-ctx.Done()
		check(client.StopAndCancel(context.WithoutCancel(ctx)))
	default:
		r.waitForMailroom(p.Where, listening, came)
	}
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		check(err)
	}
}

// waitForMailroom receives messages until the run ends.
func (r *Run) waitForMailroom(path string, listening func(), came func([]byte, time.Duration, error)) {
	e := r.open(path)
	listening()
	lease := messages.ReadingLease{Holder: "wait", Writer: process.Self()}
	o := reading.Options{Recipient: "recipient", Timeout: time.Hour, Limit: 1, Lease: lease}
	for {
		got, _, err := reading.Wait(r.ctx, e.Ledger, o)
		if r.ctx.Err() != nil {
			return
		}
		check(err)
		for _, m := range got {
			came(m.Payload, uptime(), nil)
		}
		check(reading.Written(r.ctx, e.Ledger, got, lease))
	}
}

// waitForJetStream receives messages until the run ends.
func (r *Run) waitForJetStream(url string, listening func(), came func([]byte, time.Duration, error)) {
	config := jetstream.ConsumerConfig{Durable: "waiter", AckPolicy: jetstream.AckExplicitPolicy}
	consumer := must(r.dialJetStream(url).CreateConsumer(r.ctx, "SENT", config))
	consuming := must(consumer.Consume(func(m jetstream.Msg) {
		received := uptime()
		came(m.Data(), received, m.DoubleAck(r.ctx))
	}))
	defer consuming.Stop()
	listening()
	<-r.ctx.Done()
}

func wakesMailroom(r *Run) Measures {
	return r.measureWakeup(wakeupParams{Design: "mailroom", Where: r.newMailroom("sender", "recipient")}, 200)
}

func wakesRiver(r *Run) Measures {
	path := r.Dir + "/river.db"
	newRiver(r, r.openRiver(path))
	return r.measureWakeup(wakeupParams{Design: "river", Where: path}, 20)
}

func wakesJetStream(r *Run) Measures {
	url := heard[string](r.startChild("nats-server", r.Dir).wire)
	r.addStream(r.dialJetStream(url), "SENT", "sent.>")
	return r.measureWakeup(wakeupParams{Design: "jetstream", Where: url}, 200)
}

// measureWakeup measures the time between a send in one process and the arrival of the message in another process.
func (r *Run) measureWakeup(p wakeupParams, messages int) Measures {
	waiter, ringer := r.startChild("waiter", p), r.startChild("ringer", p)
	heard[string](ringer.wire)
	heard[woken](waiter.wire)
	var received, claimed []time.Duration
	const warmUp = 2
	for i := range r.scaled(messages, 5) + warmUp {
		r.pause()
		if p.Design == "river" {
			r.rest(rand.N(time.Second))
		}
		check(ringer.say("ring"))
		if w := heard[woken](waiter.wire); i >= warmUp {
			received, claimed = append(received, w.Received-w.Sent), append(claimed, w.Claimed-w.Sent)
		}
	}
	idle := waiter.cmd.Process.Pid
	if p.Design == "mailroom" {
		wait := exec.CommandContext(r.ctx, r.Mailroom, "wait", "--db", p.Where, "--recipient", "recipient", "--timeout",
			"1h")
		check(wait.Start())
		defer wait.Wait()
		defer wait.Process.Kill()
		r.rest(5 * time.Second) // until the process is idle
		idle = wait.Process.Pid
	}
	return Measures{
		"median_us": microseconds(medianOf(claimed)), "worst_us": microseconds(slices.Max(claimed)),
		"received_us":  microseconds(medianOf(received)),
		"cpu_ms_per_s": r.idleCPU(idle, r.scaledTime(20*time.Second, time.Second)),
	}
}

// pause waits long enough for all processes to become idle. Its random length avoids coinciding with a timer.
func (r *Run) pause() { r.rest(20*time.Millisecond + rand.N(20*time.Millisecond)) }
