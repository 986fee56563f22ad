package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	urfave "github.com/urfave/cli/v2"

	"mailroom/commands/surface/hook"
	"mailroom/commands/surface/remote"
	"mailroom/orchestrator/hosts"
)

// sightsQuestion asks the machine of the host which messages the transcript of the session contains.
const sightsQuestion = "sights"

// errUnknown answers a question that this program does not support.
var errUnknown = errors.New("unknown question")

// hookThere answers an event of a host on this machine from a database on another machine. It examines the host's
// process and the session's transcript here, since only this machine has them.
func hookThere(p *Program, c *urfave.Context, host *hook.Host, place string) error {
	at, err := remote.Parse(place)
	if err != nil {
		return host.Silent(p.Out, err)
	}
	d := p.dialing(io.Discard, true)
	switch event := c.Args().First(); event {
	case "queue":
		return host.QueueThere(c.Context, p.In, func(ctx context.Context, in []byte, out io.Writer) error {
			client, err := p.clientOf(ctx, at, d, c.String("as"))
			if err != nil {
				return err
			}
			defer client.Close()
			return p.run(ctx, client, at, p.words, remote.Streams{In: bytes.NewReader(in), Out: out, Err: io.Discard})
		})
	case "stream":
		client, err := p.clientOf(c.Context, at, d, c.String("as"))
		if err != nil {
			return err
		}
		defer client.Close()
		return p.run(c.Context, client, at, p.words, remote.Streams{In: p.In, Out: p.Out, Err: io.Discard})
	case "wake":
		return wakeThere(p, c, host, at, d)
	}
	ctx, cancel := context.WithCancel(c.Context)
	defer cancel()
	patience := time.AfterFunc(hook.Patience, cancel)
	input, err := hook.ReadInput(ctx, p.In)
	if err != nil {
		return host.Silent(p.Out, err)
	}
	defer p.watch(c, host, &input, place)
	if !at.Warm(ctx, d) {
		return host.Silent(p.Out, nil)
	}
	client, err := p.clientOf(ctx, at, d, c.String("as"))
	if err != nil {
		return host.Silent(p.Out, err)
	}
	defer client.Close()
	out := &answering{out: p.Out, begins: func() { patience.Stop() }}
	err = p.run(ctx, client, at, p.words, streamsOf(&input, host, out))
	if errors.As(err, new(exit)) { // the other machine must not set the hook's exit status: hosts read 2 as "block"
		err = nil
	}
	if !out.began {
		return host.Silent(p.Out, err)
	}
	return err
}

// watch starts a process that wakes the session of an event from a place, if its host takes prompts from a queue or
// an inbox. It does so even if the place did not record the event, because the connection may be established later.
func (p *Program) watch(c *urfave.Context, host *hook.Host, input *hook.Input, place string) {
	as, err := p.caller(c)
	if err == nil {
		err = host.Watch(c.Args().First(), input, as.Name, place)
	}
	if err != nil {
		failQuietly(p, err)
	}
}

// answering is the output of a hook. The host waits at most hook.Patience for output to begin; the first write stops
// that timeout, because the other side must then learn that the output was written, however long that takes.
type answering struct {
	out    io.Writer
	begins func()
	began  bool
}

// Write implements io.Writer.
func (a *answering) Write(b []byte) (int, error) {
	a.begins()
	a.began = true
	return a.out.Write(b)
}

// streamsOf returns the streams of a hook. The other side gets only the relevant fields of the host's input.
func streamsOf(input *hook.Input, host *hook.Host, out io.Writer) remote.Streams {
	said, _ := json.Marshal(input)
	return remote.Streams{In: bytes.NewReader(said), Out: out, Err: io.Discard, Answer: func(question string) ([]byte, error) {
		if question != sightsQuestion {
			return nil, errUnknown
		}
		return json.Marshal(host.Own(input).Sights())
	}}
}

// wakeThere runs `mailroom hook wake` at a place for as long as the host's process exists.
func wakeThere(p *Program, c *urfave.Context, host *hook.Host, at remote.Place, d remote.Dialing) error {
	input, err := hook.ReadInput(c.Context, p.In)
	if err != nil || !host.Stays() {
		return err
	}
	ctx, cancel := hook.While(c.Context, host.Process())
	defer cancel()
	client, err := p.clientOf(ctx, at, d, c.String("as"))
	if err != nil {
		return err
	}
	defer client.Close()
	streams := streamsOf(&input, host, io.Discard)
	streams.Err = p.Err // for the nudge
	return p.run(ctx, client, at, p.words, streams)
}

// farTranscript is the transcript of a session whose host is on another machine.
type farTranscript struct{ *remote.Session }

// Sights implements hosts.Transcript.
func (e farTranscript) Sights() (s hosts.Sights) {
	if text, err := e.Ask(sightsQuestion); err != nil || json.Unmarshal(text, &s) != nil {
		return hosts.Sights{}
	}
	return s
}

// shownThere is the output of a line for another machine. A write returns after the output was written there, so none
// of it is lost.
type shownThere struct{ *remote.Session }

// Write implements io.Writer.
func (s shownThere) Write(b []byte) (int, error) {
	if err := s.Deliver(b); err != nil {
		return 0, fmt.Errorf("the other machine did not receive the output: %w", err)
	}
	return len(b), nil
}
