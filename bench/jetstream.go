package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// jetStream is a NATS server inside this process, its streams in files.
//
// By default it acknowledges a message before the disk has it and syncs every two minutes; with always it syncs each.
type jetStream struct {
	server *server.Server
	conn   *nats.Conn
	jetstream.JetStream
}

// natsOptions are the settings of a server with its files in dir.
func natsOptions(dir string, always bool) *server.Options {
	return &server.Options{
		JetStream: true, StoreDir: filepath.Join(dir, "jetstream"), SyncAlways: always, NoLog: true, NoSigs: true,
		JetStreamMaxMemory: 1 << 30, JetStreamMaxStore: 1 << 40,
	}
}

func startNATS(o *server.Options) (*server.Server, error) {
	s, err := server.NewServer(o)
	if err != nil {
		return nil, err
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		return nil, errors.New("the NATS server is not ready after 10 s")
	}
	return s, nil
}

// openJetStream starts a server in this process and connects to it without a socket.
func openJetStream(dir string, always bool) (*jetStream, error) {
	o := natsOptions(dir, always)
	o.DontListen = true
	s, err := startNATS(o)
	if err != nil {
		return nil, err
	}
	conn, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, err
	}
	return &jetStream{server: s, conn: conn, JetStream: js}, nil
}

func (j *jetStream) close() {
	j.conn.Close()
	j.server.Shutdown()
	j.server.WaitForShutdown()
}

// addStream makes a stream in files for a subject.
func addStream(ctx context.Context, js jetstream.JetStream, name, subject string) (jetstream.Stream, error) {
	return js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{subject}, Storage: jetstream.FileStorage})
}

// jetStreamSends is n senders in one process, each publishing a message and waiting for its acknowledgement.
func jetStreamSends(n int, always bool) func(context.Context, Env) (Measures, error) {
	return func(ctx context.Context, env Env) (Measures, error) {
		js, err := openJetStream(env.Dir, always)
		if err != nil {
			return nil, err
		}
		defer js.close()
		if _, err := addStream(ctx, js, "SENT", "sent.>"); err != nil {
			return nil, err
		}
		return measureSends(ctx, env, n, func(int) error {
			_, err := js.Publish(ctx, "sent.recipient", []byte(letterPayload))
			return err
		})
	}
}

// jetStreamDeliver moves a backlog from one stream into another, as a delivery into an inbox does.
//
// What a message in Mailroom's inbox has, it has there too: it is stored where its recipient looks, it is gone from what
// is still to be delivered, and a crash in between makes no second one (the stream drops a repeated Nats-Msg-Id). It is
// done the fastest way that the client offers: batches of 1,000 are published without waiting for each, and one
// acknowledgement, waited for, ends the batch.
func jetStreamDeliver(always bool) func(context.Context, Env) (Measures, error) {
	return jetStreamBacklog(always, func(ctx context.Context, js *jetStream, got []jetstream.Msg) error {
		return publishAll(ctx, js, "inbox.recipient", len(got), func(i int) ([]byte, string, error) {
			meta, err := got[i].Metadata()
			if err != nil {
				return nil, "", err
			}
			return got[i].Data(), fmt.Sprint(meta.Sequence.Stream), nil
		})
	})
}

// jetStreamConsume only takes a backlog and acknowledges it, 1,000 messages with one acknowledgement that is waited for:
// less than a delivery into an inbox, since nothing but a number is stored.
func jetStreamConsume(always bool) func(context.Context, Env) (Measures, error) {
	return jetStreamBacklog(always, func(context.Context, *jetStream, []jetstream.Msg) error { return nil })
}

const jetStreamBatch = 1000

// jetStreamBacklog measures how fast a backlog is taken, in batches that are acknowledged once take has returned.
func jetStreamBacklog(always bool, take func(context.Context, *jetStream, []jetstream.Msg) error) func(context.Context, Env) (Measures, error) {
	return func(ctx context.Context, env Env) (Measures, error) {
		backlog := scaled(env, 100_000, 2*jetStreamBatch)
		js, err := openJetStream(env.Dir, false) // the backlog itself need not wait for the disk
		if err == nil {
			err = fillStream(ctx, js, backlog)
		}
		if err != nil {
			return nil, err
		}
		js.close() // syncs
		if js, err = openJetStream(env.Dir, always); err != nil {
			return nil, err
		}
		defer js.close()
		consumer, err := js.CreateConsumer(ctx, "SENT", jetstream.ConsumerConfig{
			Durable: "delivery", AckPolicy: jetstream.AckAllPolicy, MaxAckPending: 4 * jetStreamBatch,
		})
		if err != nil {
			return nil, err
		}
		began := time.Now()
		source, err := consumer.Messages(jetstream.PullMaxMessages(2 * jetStreamBatch))
		if err != nil {
			return nil, err
		}
		defer source.Stop()
		for done := 0; done < backlog; {
			got := make([]jetstream.Msg, min(jetStreamBatch, backlog-done))
			for i := range got {
				if got[i], err = source.Next(); err != nil {
					return nil, err
				}
			}
			if err := take(ctx, js, got); err != nil {
				return nil, err
			}
			if err := got[len(got)-1].DoubleAck(ctx); err != nil {
				return nil, err
			}
			done += len(got)
		}
		return Measures{"rate_per_s": float64(backlog) / time.Since(began).Seconds()}, nil
	}
}

// fillStream stores a backlog, and makes the stream of the inbox.
func fillStream(ctx context.Context, js *jetStream, backlog int) error {
	if _, err := addStream(ctx, js, "SENT", "sent.>"); err != nil {
		return err
	}
	if _, err := addStream(ctx, js, "INBOX", "inbox.>"); err != nil {
		return err
	}
	for done := 0; done < backlog; {
		n := min(jetStreamBatch, backlog-done)
		err := publishAll(ctx, js, "sent.recipient", n, func(i int) ([]byte, string, error) {
			return []byte(letterPayload), fmt.Sprint(done + i), nil
		})
		if err != nil {
			return err
		}
		done += n
	}
	return nil
}

// publishAll publishes n messages, each with an id, and waits for the acknowledgement of all of them.
func publishAll(ctx context.Context, js *jetStream, subject string, n int, message func(i int) (data []byte, id string, err error)) error {
	acks := make([]jetstream.PubAckFuture, n)
	for i := range acks {
		data, id, err := message(i)
		if err != nil {
			return err
		}
		if acks[i], err = js.PublishAsync(subject, data, jetstream.WithMsgID(id)); err != nil {
			return err
		}
	}
	for _, ack := range acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// natsServerParams say how a server process runs.
type natsServerParams struct {
	Dir    string
	Always bool
}

// natsServerRole is a server in a process of its own. It says its address, and ends with its input.
func natsServerRole(ctx context.Context, up *wire, raw json.RawMessage) error {
	var p natsServerParams
	if err := json.Unmarshal(raw, &p); err != nil {
		return err
	}
	o := natsOptions(p.Dir, p.Always)
	o.Host, o.Port = "127.0.0.1", server.RANDOM_PORT
	s, err := startNATS(o)
	if err != nil {
		return err
	}
	defer s.WaitForShutdown()
	defer s.Shutdown()
	if err := up.say(s.ClientURL()); err != nil {
		return err
	}
	return up.untilClosed()
}

// dialJetStream connects to a server in another process.
func dialJetStream(url string) (jetstream.JetStream, *nats.Conn, error) {
	conn, err := nats.Connect(url)
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(conn)
	return js, conn, err
}
