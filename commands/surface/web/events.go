package web

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"mailroom/commands"
	"mailroom/commands/surface/listener"
	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
)

// Limits of event streams.
const (
	eventsAtOnce    = 500         // events per query
	streamsPerToken = 8           // each queries the trace at every change
	eventsEvery     = time.Second // interval of checks for changes without a notification
	// minimum time between two queries, so that many sends cause at most ten queries a second per stream
	eventsPause = 100 * time.Millisecond
	stillThere  = 15 * time.Second // interval of comments, so that neither side considers the other gone
	// time without an event after which the stream reports what delays the next one, if anything does
	lateAfter = 5 * time.Second
)

// events streams the events of the messages that the caller sent or received, or of all messages for an
// administrator, as server-sent events. The ID of each is the cursor after it, the event field its name, and the data
// one JSON object. A client can give the last ID that it has seen, in the header Last-Event-ID or the query parameter
// after, and then gets all later events. Otherwise it gets the events from now on.
func (w *Server) events(rw http.ResponseWriter, r *http.Request) {
	ctx, token := r.Context(), askerOf(r.Context()).token.ID
	last, err := w.startOfEvents(r)
	if err != nil {
		listener.WriteFailure(rw, commands.HTTPStatus(err), err)
		return
	}
	if !w.streams.Enter(token, streamsPerToken) {
		listener.TooMany(rw, "too many event streams with this token")
		return
	}
	defer w.streams.Leave(token)
	rings, stop, err := delivery.Wakeups(ctx, w.env.Ledger)
	if err != nil {
		listener.WriteFailure(rw, commands.HTTPStatus(err), err)
		return
	}
	defer stop()
	rw.Header().Set("Content-Type", "text/event-stream")
	rw.Header().Set("Cache-Control", "no-store")
	out := &eventWriter{rw: rw, control: http.NewResponseController(rw)}
	out.comment("from", last)
	out.flush()
	if err := w.follow(ctx, out, rings, last); err != nil {
		w.env.Log.Debug("an event stream has ended", "error", err)
	}
}

// follow writes the events after last as they happen, until ctx ends or out cannot be written. Neither is an error.
func (w *Server) follow(ctx context.Context, out *eventWriter, rings <-chan struct{}, last messages.Cursor) error {
	caller := askerOf(ctx)
	concerning := caller.Name
	if caller.Admin {
		concerning = ""
	}
	ticker := time.NewTicker(eventsEvery)
	defer ticker.Stop()
	quietSince, lateSince := time.Now(), time.Now()
	for out.err == nil {
		began := time.Now()
		list, next, more, err := messages.Events(ctx, w.env.Ledger, last, concerning, eventsAtOnce)
		if err == nil {
			err = StillValid(ctx)
		}
		if err != nil {
			return err
		}
		for i := range list {
			out.event(&list[i])
		}
		last = next
		if len(list) > 0 {
			quietSince, lateSince = time.Now(), time.Now()
		} else if time.Since(quietSince) > stillThere {
			out.comment("still there", last)
			quietSince = time.Now()
		} else if time.Since(lateSince) > lateAfter {
			lateSince = time.Now()
			if by, err := messages.DelayedBy(ctx, w.env.Ledger, last); err == nil && by != "" {
				out.write(": delayed by %s\n\n", by)
			}
		}
		out.flush()
		if more {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-rings:
		case <-ticker.C:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(eventsPause - time.Since(began)):
		}
	}
	return nil
}

// startOfEvents returns the cursor after which the stream of a request begins.
func (w *Server) startOfEvents(r *http.Request) (messages.Cursor, error) {
	text := cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("after"))
	if text == "" {
		return messages.LastEvent(r.Context(), w.env.Ledger)
	}
	return messages.CursorOf(r.Context(), w.env.Ledger, text)
}

// eventWriter writes server-sent events and keeps the first error.
type eventWriter struct {
	rw      http.ResponseWriter
	control *http.ResponseController
	unsent  bool // something was written since the last flush
	err     error
}

func (o *eventWriter) event(e *messages.Event) {
	body, err := orchestrator.JSON(e)
	if err != nil {
		o.err = err
		return
	}
	o.write("id: %s\nevent: %s\ndata: %s\n\n", e.Cursor(), oneLine.Replace(e.Event), body)
}

// oneLine removes line ends from the name of an event, which may come from hand-written SQL, so that it cannot end a
// line of the stream.
var oneLine = strings.NewReplacer("\n", " ", "\r", " ")

func (o *eventWriter) comment(text string, last messages.Cursor) { o.write(": %s %s\n\n", text, last) }

func (o *eventWriter) write(format string, args ...any) {
	if o.err != nil {
		return
	}
	_, o.err = fmt.Fprintf(o.rw, format, args...)
	o.unsent = true
}

// flush sends what was written.
func (o *eventWriter) flush() {
	if o.err == nil && o.unsent {
		o.err, o.unsent = o.control.Flush(), false
	}
}
