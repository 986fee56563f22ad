package cli

import (
	"context"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"

	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
)

const (
	tailAtOnce = 1000            // maximum number of events per look
	tailBehind = 20_000          // number of events tail may lag behind before it skips some
	tailEvery  = time.Second     // interval of checks for changes without a notification
	tailLate   = 5 * time.Second // time without an event after which tail reports what delays the next one
)

// tailCommand returns the command that shows message events as they happen.
func tailCommand(p *Program) *urfave.Command {
	return &urfave.Command{
		Name: "tail", ArgsUsage: "[AGENT]", Usage: "Show message events as they happen, one per line",
		Description: "Shows the last events of the trace and then each new event, until you press Ctrl-C. The exit status is then 130. The command reads\n" +
			"the database itself and needs no daemon. If events happen faster than the command can write them, it prints the number of events\n" +
			"that it left out, as JSON {\"left_out\": N}. If an earlier database replaces this one, for example with `mailroom restore`, the\n" +
			"command prints a notice, as JSON {\"begun_anew\": true}, and shows the last events again.\n\n" +
			"On PostgreSQL, the command does not show an event until every transaction that began earlier has ended. If such a transaction takes\n" +
			"more than 5 seconds, the command prints the process of the transaction, as JSON {\"delayed_by\": \"pid N\"}.\n\nExamples:\n\n    mailroom tail\n    mailroom tail builder -n 100\n    mailroom tail --since 1h\n    mailroom tail --json | jq .event",
		Flags: []urfave.Flag{
			&urfave.StringFlag{Name: "agent", Usage: "only messages to or from `NAME`",
				DefaultText: "the agent of --as or MAILROOM_AGENT, otherwise all agents"},
			&urfave.StringFlag{Name: "n", Usage: "number of earlier events to show first", Value: "10",
				DefaultText: "10"},
			&urfave.StringFlag{Name: "since", Usage: "first show the events since `TIME`, which is an RFC 3339 time or a duration before now, such as 1h"},
			&urfave.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "continue until Ctrl-C, which is also the default",
				DisableDefaultText: true},
		},
		Action: func(c *urfave.Context) error { return tail(c, p) },
	}
}

func tail(c *urfave.Context, p *Program) error {
	of, one := c.String("agent"), c.IsSet("agent")
	switch {
	case c.NArg() == 1 && (madeHere().MatchString(c.Args().First()) || c.Args().First() == last):
		return orchestrator.Errorf(orchestrator.InvalidParams, "`mailroom tail` takes the name of an agent, not the ID of a message").
			WithHint("To see the events of the message, run `mailroom trace %s`", c.Args().First())
	case c.NArg() == 1 && !one:
		of, one = c.Args().First(), true
	case c.NArg() > 0:
		return orchestrator.Errorf(orchestrator.InvalidParams, "`mailroom tail` takes the name of one agent: unexpected %q",
			orchestrator.Clip(c.Args().Get(c.NArg()-1)))
	case c.IsSet("since") && c.IsSet("n"):
		return orchestrator.Errorf(orchestrator.InvalidParams, "`since` and `n` cannot be used together").
			WithHint("Leave out one of the two flags")
	}
	earlier, err := wholeNumber(c, "n", 0, tailAtOnce)
	if err != nil {
		return err
	}
	env, err := opened(p, c)
	if err != nil {
		return err
	}
	defer env.Engine.Close()
	agent := env.Caller.Name
	if one && p.acts != nil && !p.acts.Admin && of != agent {
		return orchestrator.Errorf(orchestrator.PermissionDenied, "this connection can act only as %s and cannot see the messages of other agents", agent)
	}
	if one {
		if agent, err = orchestrator.CheckName("agent", of); err == nil {
			err = agents.MustKnow(c.Context, env.Ledger, agent) // an unknown name has no events
		}
		if err != nil {
			sayWhere(err, env.Engine.Path())
			return err
		}
	}
	t := &tailing{p: p, ledger: env.Ledger, agent: agent, earlier: int64(earlier),
		since: c.String("since")}
	if err := t.begin(c.Context); err != nil {
		return err
	}
	err = t.follow(c.Context)
	if wasInterrupted(c.Context) {
		return stoppedOnTerminal(p)
	}
	return err
}

// tailing follows the trace.
type tailing struct {
	p       *Program
	ledger  *ledger.Ledger
	agent   string // agent whose messages to show; "" is all
	earlier int64  // number of events to begin with
	since   string // if not "", begin with all events since that time
	last    messages.Cursor
	there   messages.Cursor // end of the trace when tail began with since
}

// begin shows the last events, or moves the cursor to the time of since.
func (t *tailing) begin(ctx context.Context) (err error) {
	if t.since != "" {
		if t.there, err = messages.LastEvent(ctx, t.ledger); err == nil {
			t.last, err = messages.EventsSince(ctx, t.ledger, t.since)
		}
		return err // follow shows the events
	}
	var list []messages.Event
	if list, t.last, err = messages.LastEvents(ctx, t.ledger, t.agent, t.earlier); err != nil {
		return err
	}
	return t.write(list)
}

// beginAnew begins again if the shown events no longer exist, since the next events will have their IDs.
func (t *tailing) beginAnew(ctx context.Context) error {
	newest, err := messages.LastEvent(ctx, t.ledger)
	if err != nil || newest.Behind(t.last) >= 0 {
		return err
	}
	err = t.note("begun_anew", true,
		"An earlier database replaced this one, or traces were cleared. The last events are now:")
	if err != nil {
		return err
	}
	return t.begin(ctx)
}

// note reports, as JSON or in words, that the output does not contain all events.
func (t *tailing) note(key string, value any, words string) error {
	if !t.p.text() {
		return notWritten(writeLine(t.p.Out, map[string]any{key: value}))
	}
	w := t.p.people(t.p.Out, t.p.OutTerminal)
	w.Printf("%s\n", w.Paint(terminal.Yellow, words))
	return notWritten(w.Err())
}

// follow shows events as they happen, until ctx ends or nobody reads the output.
func (t *tailing) follow(ctx context.Context) error {
	rings, stop, err := delivery.Wakeups(ctx, t.ledger)
	if err != nil {
		return err
	}
	defer stop()
	ticker := time.NewTicker(tailEvery)
	defer ticker.Stop()
	shown := time.Now()
	for {
		before := t.last
		more, err := t.look(ctx)
		if t.last != before {
			shown = time.Now()
		} else if err == nil && time.Since(shown) > tailLate {
			shown, err = time.Now(), t.sayDelay(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && orchestrator.CodeOf(err) != orchestrator.Busy:
			return err
		case more:
			continue
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-rings:
		case <-ticker.C:
		}
	}
}

// sayDelay reports what delays the next events, if anything does.
func (t *tailing) sayDelay(ctx context.Context) error {
	by, err := messages.DelayedBy(ctx, t.ledger, t.last)
	if err != nil || by == "" {
		return err
	}
	return t.note("delayed_by", by, "Mailroom cannot show later events until an earlier transaction ("+by+" on the server) has ended.")
}

// look shows the next events. more reports whether further events are available.
func (t *tailing) look(ctx context.Context) (more bool, err error) {
	list, next, more, err := messages.Events(ctx, t.ledger, t.last, t.agent, tailAtOnce)
	if err != nil {
		return false, err
	}
	if next == t.last {
		return false, t.beginAnew(ctx)
	}
	if err := t.write(list); err != nil || !more {
		t.last = next
		return false, err
	}
	newest, err := messages.LastEvent(ctx, t.ledger)
	if t.last = next; err != nil || newest.Behind(next) <= tailBehind || t.there.Behind(next) > 0 {
		return true, err
	}
	t.last = newest.Before(tailAtOnce)
	left := t.last.Behind(next)
	return true, t.note("left_out", left, orchestrator.Plural(int(left), "event")+
		" left out, because events happen faster than `mailroom tail` can show them")
}

func (t *tailing) write(list []messages.Event) error {
	w := t.p.people(t.p.Out, t.p.OutTerminal)
	for i := range list {
		e := &list[i]
		if !t.p.text() {
			if err := writeLine(t.p.Out, e); err != nil {
				return notWritten(err)
			}
			continue
		}
		at := w.At(orchestrator.ParseStamp(e.At), "15:04:05")
		w.Printf("%s  %s%s  %s", w.Paint(terminal.Dim, at), w.Status(e.Event),
			terminal.Painted(strings.Repeat(" ", max(0, len("acknowledged")-len(e.Event)))), e.MessageID)
		if e.Sender != "" {
			w.Printf("  %s %s %s", e.Sender, w.Sign("→"), e.Recipient)
		}
		if e.Error != "" {
			w.Printf("  %s", e.Error)
		}
		w.Printf("\n")
	}
	return notWritten(w.Err())
}
