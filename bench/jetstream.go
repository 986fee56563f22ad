package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// startNATS starts a NATS server inside this process, with its streams in files. The caller must shut the server
// down.
//
// By default, the server acknowledges a message before the message is on the disk, and syncs every two minutes. If
// always is set, the server syncs each message first.
func startNATS(dir string, always bool, o server.Options) *server.Server {
	o.JetStream, o.StoreDir, o.SyncAlways = true, filepath.Join(dir, "jetstream"), always
	o.NoLog, o.NoSigs, o.JetStreamMaxMemory, o.JetStreamMaxStore = true, true, 1<<30, 1<<40
	s := must(server.NewServer(&o))
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		check(errors.New("the NATS server is not ready after 10 s"))
	}
	return s
}

// dialJetStream connects to a server. The connection is closed at the end of the run.
func (r *Run) dialJetStream(url string, options ...nats.Option) jetstream.JetStream {
	conn := must(nats.Connect(url, options...))
	r.after(func() error { conn.Close(); return nil })
	return must(jetstream.New(conn))
}

// withJetStream starts a server in this process, connects to it without a socket, calls f, and shuts the server down.
func (r *Run) withJetStream(always bool, f func(js jetstream.JetStream)) {
	s := startNATS(r.Dir, always, server.Options{DontListen: true})
	defer s.WaitForShutdown() // syncs the files
	defer s.Shutdown()
	f(r.dialJetStream("", nats.InProcessServer(s)))
}

// addStream creates a stream in files for a subject.
func (r *Run) addStream(js jetstream.JetStream, name, subject string) {
	config := jetstream.StreamConfig{Name: name, Subjects: []string{subject}, Storage: jetstream.FileStorage}
	must(js.CreateStream(r.ctx, config))
}

// jetStreamSends measures n senders in one process. Each sender publishes one message after another and waits for
// each acknowledgement.
func jetStreamSends(n int, always bool) func(*Run) Measures {
	return func(r *Run) (m Measures) {
		r.withJetStream(always, func(js jetstream.JetStream) {
			r.addStream(js, "SENT", "sent.>")
			m = r.measureSends(n, func(int) error {
				_, err := js.Publish(r.ctx, "sent.recipient", []byte(letterPayload))
				return err
			})
		})
		return m
	}
}

// jetStreamDelivers measures moving a backlog from one stream into another, as a delivery into an inbox does.
//
// A moved message has the same guarantees as a message in Mailroom's inbox: it is stored where its recipient reads,
// it is no longer in the backlog, and a crash in between does not duplicate it (the stream drops a repeated
// Nats-Msg-Id). The contestant uses the fastest way that the client offers: it publishes batches of 1,000 without
// waiting for each message, ends each batch with one acknowledgement, and waits for that acknowledgement.
func jetStreamDelivers(always bool) func(*Run) Measures {
	return jetStreamBacklog(always, func(r *Run, js jetstream.JetStream, got []jetstream.Msg) {
		r.publishAll(js, "inbox.recipient", len(got), func(i int) ([]byte, uint64) {
			return got[i].Data(), must(got[i].Metadata()).Sequence.Stream
		})
	})
}

// jetStreamTakes measures only taking a backlog. It acknowledges 1,000 messages with one acknowledgement, and waits
// for that acknowledgement. This is less work than a delivery into an inbox, because the server stores only a number.
func jetStreamTakes(always bool) func(*Run) Measures {
	return jetStreamBacklog(always, func(*Run, jetstream.JetStream, []jetstream.Msg) {})
}

const jetStreamBatch = 1000

// jetStreamBacklog measures how fast a backlog is taken in batches. A batch is acknowledged when take has returned.
func jetStreamBacklog(always bool, take func(*Run, jetstream.JetStream, []jetstream.Msg)) func(*Run) Measures {
	return func(r *Run) (m Measures) {
		backlog := r.scaled(100_000, 2*jetStreamBatch)
		r.withJetStream(false, func(js jetstream.JetStream) { // filling the backlog need not wait for the disk
			r.addStream(js, "SENT", "sent.>")
			r.addStream(js, "INBOX", "inbox.>")
			for done := 0; done < backlog; done += jetStreamBatch {
				r.publishAll(js, "sent.recipient", min(jetStreamBatch, backlog-done), func(i int) ([]byte, uint64) {
					return []byte(letterPayload), uint64(done + i)
				})
			}
		})
		r.withJetStream(always, func(js jetstream.JetStream) {
			consumer := must(js.CreateConsumer(r.ctx, "SENT", jetstream.ConsumerConfig{
				Durable: "delivery", AckPolicy: jetstream.AckAllPolicy, MaxAckPending: 4 * jetStreamBatch,
			}))
			m = r.rate(func() (done int) {
				source := must(consumer.Messages(jetstream.PullMaxMessages(2 * jetStreamBatch)))
				defer source.Stop()
				for done < backlog {
					got := make([]jetstream.Msg, min(jetStreamBatch, backlog-done))
					for i := range got {
						got[i] = must(source.Next())
					}
					take(r, js, got)
					check(got[len(got)-1].DoubleAck(r.ctx))
					done += len(got)
				}
				return done
			})
		})
		return m
	}
}

// publishAll publishes n messages, each with an ID, and waits for all acknowledgements.
func (r *Run) publishAll(js jetstream.JetStream, subject string, n int, message func(i int) (data []byte, id uint64)) {
	acks := make([]jetstream.PubAckFuture, n)
	for i := range acks {
		data, id := message(i)
		acks[i] = must(js.PublishAsync(subject, data, jetstream.WithMsgID(fmt.Sprint(id))))
	}
	for _, ack := range acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			check(err)
		case <-r.ctx.Done():
			check(context.Cause(r.ctx))
		}
	}
}

// natsServerRole runs a server with its files in a folder, in its own process. It sends the address of the server to
// the run, and ends at the end of its input.
func natsServerRole(_ *Run, up *wire, dir string) {
	s := startNATS(dir, true, server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT})
	defer s.WaitForShutdown()
	defer s.Shutdown()
	check(up.say(s.ClientURL()))
	check(up.untilClosed())
}
