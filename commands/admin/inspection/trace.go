package inspection

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/overview"
	"mailroom/tracing"
)

// MessageIDParams names a message, or a send to a group.
type MessageIDParams struct {
	MessageID string `json:"message_id" desc:"ID of the message, or multicast_id of a send to a group" check:"id" arg:"1"`
}

// TraceResult holds the story of each message.
type TraceResult struct {
	Stories []overview.Story `json:"stories"`
	LeftOut int              `json:"left_out,omitempty"` // left out because the answer would be too long
	Rest    string           `json:"rest,omitempty"`     // for a model: how to get the rest
}

var traceCommand = commands.Define(vocabulary, "trace", trace)

func trace(ctx context.Context, env commands.Env, p MessageIDParams) (TraceResult, error) {
	stories, err := overview.Trace(ctx, env.Ledger, p.MessageID)
	messages := make([]orchestrator.Message, len(stories))
	for i := range stories {
		messages[i] = stories[i].Message
	}
	answer := func(ms []orchestrator.Message) any {
		r := TraceResult{Stories: slices.Clone(stories[:len(ms)]), LeftOut: len(stories) - len(ms)}
		for i := range ms {
			r.Stories[i].Message = ms[i]
		}
		r.Rest = env.Rest(r.LeftOut > 0, "call `trace` with the ID of one message")
		return r
	}
	return answer(env.Shown(messages, answer)).(TraceResult), err
}

// Text writes each story as a tree: the message, the commands that handled it, and what each command did.
func (r TraceResult) Text(w *terminal.Text) {
	for i := range r.Stories {
		if i > 0 {
			w.Printf("\n")
		}
		writeStory(w, &r.Stories[i])
	}
}

func writeStory(w *terminal.Text, s *overview.Story) {
	m := &s.Message
	kind, status := "", w.Status(string(m.Status))
	if m.Type != "" {
		kind = "  " + m.Type
	}
	if s.Gone {
		status = "deleted by retention; its trace still exists"
	}
	if m.Sender+m.Recipient != "" {
		kind += "  " + m.Sender + " " + string(w.Sign("→")) + " " + m.Recipient
	}
	w.Printf("%s%s  %s\n", w.Paint(terminal.Bold, m.ID), kind, status)
	if len(s.Events) == 0 {
		w.Printf("%s no events yet: the message was inserted with SQL, and no delivery run has processed it\n", w.Sign("└─"))
		return
	}
	start := orchestrator.ParseStamp(s.Events[0].At)
	runs := groupByRun(s)
	sessions := sessionsOf(s)
	for i, run := range runs {
		branch, trunk := branches(w, i == len(runs)-1 && len(sessions) == 0)
		w.Printf("%s %s\n", branch, run.title(w, start))
		for j, e := range run.events {
			leaf, _ := branches(w, j == len(run.events)-1)
			w.Printf("%s%s %s\n", trunk, leaf, eventLine(w, &e, start))
			if e.Event != string(tracing.Deleted) { // the title line already shows its detail
				writePrinted(w, trunk, e.Detail)
			}
		}
	}
	for i, session := range sessions {
		branch, trunk := branches(w, i == len(sessions)-1)
		writeSession(w, session, start, branch, trunk)
	}
	for _, receipt := range s.Receipts {
		w.Printf("   %s %s (%s)\n", w.Paint(terminal.Dim, fmt.Sprintf("%-12s", receipt.What)), receipt.At,
			receipt.Evidence)
	}
}

// branches returns the prefix of an entry of a tree, and the prefix of the lines below the entry.
func branches(w *terminal.Text, last bool) (branch, trunk terminal.Painted) {
	if last {
		return w.Sign("└─"), "   "
	}
	return w.Sign("├─"), w.Sign("│") + "  "
}

// run is the part of one command in a story.
type run struct {
	span   *overview.CommandSpan
	actor  string
	events []overview.StoryEvent
}

// groupByRun groups consecutive events of the same command run.
func groupByRun(s *overview.Story) (runs []run) {
	spans := map[string]*overview.CommandSpan{}
	for i := range s.Commands {
		spans[s.Commands[i].SpanID] = &s.Commands[i]
	}
	last := "none yet"
	for _, e := range s.Events {
		key := e.SpanID + "/" + e.Actor
		if key != last {
			runs = append(runs, run{span: spans[e.SpanID], actor: e.Actor})
			last = key
		}
		at := &runs[len(runs)-1]
		at.events = append(at.events, e)
	}
	return runs
}

// sessionsOf returns the runs of a start command in a story. They did nothing with the message themselves.
func sessionsOf(s *overview.Story) (list []*overview.CommandSpan) {
	acted := map[string]bool{}
	for _, e := range s.Events {
		acted[e.SpanID] = true
	}
	for i := range s.Commands {
		if !acted[s.Commands[i].SpanID] {
			list = append(list, &s.Commands[i])
		}
	}
	return list
}

// writeSession writes how a session that was started for the message ended, and what the session printed.
func writeSession(w *terminal.Text, s *overview.CommandSpan, start time.Time, branch, trunk terminal.Painted) {
	var end struct {
		Outcome string `json:"outcome"`
		Output  string `json:"output"`
	}
	_ = json.Unmarshal(s.Attributes, &end) // one of our JSON objects; without it, less is shown
	r := run{span: s, actor: s.Actor}
	w.Printf("%s %s\n", branch, r.title(w, start))
	if s.Status != "ERROR" && end.Outcome != "" {
		w.Printf("%s   %s\n", trunk, end.Outcome)
	}
	writePrinted(w, trunk, end.Output)
}

// writePrinted writes the output of a command or the response of a server, below the line about it.
func writePrinted(w *terminal.Text, trunk terminal.Painted, text string) {
	for line := range strings.Lines(text) {
		w.Printf("%s      %s\n", trunk, w.Paint(terminal.Dim, strings.TrimRight(line, "\r\n")))
	}
}

func (r *run) title(w *terminal.Text, start time.Time) terminal.Painted {
	if r.span == nil {
		at := since(start, r.events[0].At)
		return w.Paint(terminal.Bold, "engine") + terminal.Painted(terminal.Inline(" of "+r.actor+"  "+at))
	}
	text := " by " + r.actor
	if r.span.Caller != "" {
		text += " for " + r.span.Caller
	}
	text += fmt.Sprintf("  %s  %s  trace %s", since(start, r.span.StartedAt), took(r.span), r.span.TraceID)
	title := w.Paint(terminal.Bold, r.span.Name) + terminal.Painted(terminal.Inline(text))
	if r.span.Status == "ERROR" {
		title += "  " + w.Paint(terminal.Red, r.span.StatusMessage)
	}
	return title
}

func eventLine(w *terminal.Text, e *overview.StoryEvent, start time.Time) terminal.Painted {
	style := terminal.StatusStyle(e.Event)
	name := fmt.Sprintf("%-14s", e.Event)
	line := terminal.Painted(name)
	if style != "" {
		line = w.Paint(style, name)
	}
	text := "  " + e.At + "  " + since(start, e.At)
	if e.OldStatus != e.NewStatus && e.OldStatus != "" {
		text += "  " + e.OldStatus + " " + string(w.Sign("→")) + " " + e.NewStatus
	}
	if e.Attempt > 0 {
		text += fmt.Sprintf("  attempt %d", e.Attempt)
	}
	if e.Error != "" {
		text += "  " + strings.ReplaceAll(e.Error, "\n", " ")
	}
	return line + terminal.Painted(terminal.Inline(text))
}

// since formats a time relative to the start of the story.
func since(start time.Time, at string) string {
	d := orchestrator.ParseStamp(at).Sub(start)
	if d < 0 {
		return fmt.Sprintf("-%.3f s", -d.Seconds())
	}
	return fmt.Sprintf("+%.3f s", d.Seconds())
}

func took(s *overview.CommandSpan) string {
	if s.EndedAt == "" {
		return "has not ended"
	}
	return fmt.Sprintf("took %.3f s",
		max(0, orchestrator.ParseStamp(s.EndedAt).Sub(orchestrator.ParseStamp(s.StartedAt)).Seconds()))
}
