package exports

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
	"mailroom/tracing/otlp"
)

func exporterOf(l *ledger.Ledger, r *receiver) *exporter {
	return newExporter(l, slog.New(slog.DiscardHandler), otlp.Options{URL: r.url, Timeout: time.Minute}, "v1.2.3")
}

// round calls exporter.round and fails the test on an error.
func (r *receiver) round(e *exporter) time.Duration {
	r.t.Helper()
	wait, err := e.round(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return wait
}

// drain makes rounds until there is nothing to send.
func (r *receiver) drain(e *exporter) {
	r.t.Helper()
	for range 10_000 {
		if wait := r.round(e); wait != 0 && wait != afterNo {
			return
		}
	}
	r.t.Fatal("it does not end")
}

// run runs a command as surfaces do.
func run(f *enginetest.Fixture, name string, do func(ctx context.Context) error) *tracing.Span {
	f.T.Helper()
	ctx, span := tracing.Start(f.T.Context(), name)
	span.Begin(f.Ledger.Now())
	span.Set(tracing.AttrSystem, "mailroom")
	err := do(ctx)
	f.EndSpan(ctx, span, err, func() bool { return false })
	return span
}

func send(f *enginetest.Fixture, to, payload string) (id string, span *tracing.Span) {
	f.T.Helper()
	span = run(f, "send", func(ctx context.Context) error {
		sent, err := messages.Send(ctx, f.Ledger,
			orchestrator.Draft{Sender: "a", Recipient: to, Type: "note", Payload: json.RawMessage(payload)})
		id = sent.MessageID
		return err
	})
	return id, span
}

func deliver(f *enginetest.Fixture) *tracing.Span {
	f.T.Helper()
	return run(f, "deliver_all", func(ctx context.Context) error {
		_, err := f.DeliverAll(ctx, delivery.Options{})
		return err
	})
}

// TestEverything checks that each event of a message is a span in the trace of the command that sent the message, and
// that each ended command is a span.
func TestEverything(t *testing.T) {
	t.Parallel()
	f, r := enginetest.New(t, "a", "b"), newReceiver(t)
	f.AddWired("w")
	id, sent := send(f, "b", `"a secret"`)
	f.Wire.Set(func(context.Context, orchestrator.Attempt) []error { return []error{errors.New("another secret")} })
	send(f, "w", `{}`)
	delivered := deliver(f)
	f.Clock.Advance(tracing.SettledAfter)
	e := exporterOf(f.Ledger, r)
	r.drain(e)
	events, _ := strconv.Atoi(f.Count("message_trace"))
	commands, _ := strconv.Atoi(f.Count("command_trace"))
	want.Equal(t, "spans", len(r.spans()), events+commands)
	command, created, arrived := r.spans()[0], r.named("created b"), r.named("delivered b")
	for _, s := range r.spans() {
		if s.SpanID == sent.SpanID {
			command = s
		}
	}
	want.Equal(t, "trace of the command", command.TraceID, sent.TraceID)
	want.Equal(t, "its outcome", command.Status.Code, int(otlp.CodeOK))
	want.Equal(t, "trace of the message", created.TraceID, sent.TraceID)
	want.Equal(t, "parent of created", created.ParentSpanID, sent.SpanID)
	want.Equal(t, "parent of delivered", arrived.ParentSpanID, sent.SpanID)
	want.Equal(t, "link of delivered", arrived.Links[0].TraceID+arrived.Links[0].SpanID,
		delivered.TraceID+delivered.SpanID)
	want.Equal(t, "message", arrived.at(tracing.AttrMessageID), id)
	want.Equal(t, "recipient", arrived.at(tracing.AttrDestination), "b")
	want.Equal(t, "sender", arrived.at("mailroom.sender"), "a")
	want.Equal(t, "type", arrived.at("mailroom.message_type"), "note")
	failed := r.named("attempt_failed w")
	want.Equal(t, "failure", failed.at(tracing.AttrErrorType), "attempt_failed")
	want.Equal(t, "its kind", failed.Kind, int(otlp.KindClient))
	want.Equal(t, "its outcome", failed.Status.Code, int(otlp.CodeError))
	want.Equal(t, "its attempt", failed.at("mailroom.attempt"), "1")
	if all := strings.Join(r.bodies, ""); strings.Contains(all, "secret") ||
		!strings.Contains(all, `{"key":"service.name","value":{"stringValue":"mailroom"}}`) {
		t.Errorf("sent: %s", all)
	}
	r.drain(e)
	want.Equal(t, "spans later", len(r.spans()), events+commands)
}

// TestTexts checks that payloads and error texts are sent on request, up to a maximum length.
func TestTexts(t *testing.T) {
	t.Parallel()
	f, r := enginetest.New(t, "a", "b"), newReceiver(t)
	f.AddWired("w")
	f.Wire.Set(func(context.Context, orchestrator.Attempt) []error { return []error{errors.New("a broken wire")} })
	send(f, "w", `"`+strings.Repeat("é", maxText)+`"`)
	deliver(f)
	e := exporterOf(f.Ledger, r)
	e.texts, e.options.Gzip = true, true
	r.drain(e)
	want.Equal(t, "payload", r.named("created w").at("mailroom.payload"), `"`+strings.Repeat("é", maxText/2-1))
	if s := r.named("attempt_failed w"); !strings.Contains(s.Status.Message, "a broken wire") ||
		s.at("mailroom.error") != s.Status.Message {
		t.Errorf("%+v", s)
	}
}

// TestLongCommands checks that a command is sent once, and only after it has certainly ended, however long it takes.
func TestLongCommands(t *testing.T) {
	t.Parallel()
	f, r := enginetest.New(t, "a", "b"), newReceiver(t)
	e := exporterOf(f.Ledger, r)
	_, long := tracing.Start(t.Context(), "deliver_all")
	write := func(save func(t *ledger.Tx) error) {
		if err := f.Write(t.Context(), store.Shared, save); err != nil {
			t.Fatal(err)
		}
	}
	commands := func() (names []string) {
		r.drain(e)
		for _, s := range r.spans() {
			if s.SpanID == long.SpanID || s.Name == "send" {
				names = append(names, s.Name)
			}
		}
		return names
	}
	write(func(t *ledger.Tx) error { return long.Save(t, t.Clock, "x", "") })
	send(f, "b", `1`)
	want.Rows(t, commands())
	write(func(t *ledger.Tx) error { return long.SaveOpen(t, t.Clock, "x") })
	f.Clock.Advance(tracing.SettledAfter)
	want.Rows(t, commands(), "send")
	e = exporterOf(f.Ledger, r)
	f.Clock.Advance(time.Hour) // the lease of the previous exporter expires
	long.End()
	write(func(t *ledger.Tx) error { return long.Save(t, t.Clock, "x", "") })
	want.Rows(t, commands(), "send", "deliver_all")
	f.Clock.Advance(time.Hour)
	want.Rows(t, commands(), "send", "deliver_all")
	want.Rows(t, f.Rows(`SELECT waiting FROM exports`), "[]")
}

// TestRefused checks that a span that the receiver refuses is dropped and counted, and no other span.
func TestRefused(t *testing.T) {
	t.Parallel()
	f, r := enginetest.New(t, "a", "b"), newReceiver(t)
	for range 40 {
		send(f, "b", `1`)
	}
	poison, _ := send(f, "b", `1`)
	for range 40 {
		send(f, "b", `1`)
	}
	r.answer = func(body string) (int, string, string) {
		if strings.Contains(body, poison) {
			return 400, "", `{"code":3,"message":"no"}`
		}
		return 200, "", `{}`
	}
	e := exporterOf(f.Ledger, r)
	r.drain(e)
	events := len(r.spans())
	want.Equal(t, "spans", strconv.Itoa(events+1), f.Count("message_trace"))
	want.Rows(t, f.Rows(`SELECT refused, events FROM exports`), "1 "+f.Count("message_trace"))
}

// TestPartialSuccess checks that spans that the receiver drops from an accepted request are counted.
func TestPartialSuccess(t *testing.T) {
	t.Parallel()
	f, r := enginetest.New(t, "a", "b"), newReceiver(t)
	send(f, "b", `1`)
	r.answer = func(string) (int, string, string) {
		return 200, "", `{"partialSuccess":{"rejectedSpans":"9223372036854775807","errorMessage":"too old"}}`
	}
	r.drain(exporterOf(f.Ledger, r))
	want.Rows(t, f.Rows(`SELECT refused FROM exports`), f.Count("message_trace")) // at most the number of spans sent
}

// TestWhatTheReceiverSays checks that the log reports when a receiver drops spans, also without a reason, and only
// once as long as the receiver's message is the same.
func TestWhatTheReceiverSays(t *testing.T) {
	t.Parallel()
	for _, says := range []string{"too old", ""} {
		f, r := enginetest.New(t, "a", "b"), newReceiver(t)
		r.answer = func(string) (int, string, string) {
			return 200, "", `{"partialSuccess":{"rejectedSpans":"1","errorMessage":"` + says + `"}}`
		}
		var log bytes.Buffer
		e := newExporter(f.Ledger, slog.New(slog.NewTextHandler(&log, nil)),
			otlp.Options{URL: r.url, Timeout: time.Minute}, "v1.2.3")
		for range 3 {
			send(f, "b", `1`)
			r.drain(e)
		}
		want.Equal(t, "warnings", strings.Count(log.String(), "returned a message"), 1)
	}
}

// TestLater checks that spans wait while the receiver cannot take them, or is not the expected one.
func TestLater(t *testing.T) {
	t.Parallel()
	f, r := enginetest.New(t, "a", "b"), newReceiver(t)
	send(f, "b", `1`)
	e := exporterOf(f.Ledger, r)
	for _, status := range []int{429, 500, 502, 503, 504, 401, 404, 302} {
		r.answer = func(string) (int, string, string) { return status, "1800", "" }
		if wait := r.round(e); wait == 0 || !e.notBefore.After(time.Now()) {
			t.Errorf("after %d it waits for %s", status, wait)
		}
		if long := time.Until(e.notBefore) > 20*time.Minute; long != (status >= 429) {
			t.Errorf("after %d it waits until %s", status, e.notBefore)
		}
		want.Rows(t, f.Rows(`SELECT events, refused FROM exports`), "0 0")
		r.round(e)
		e.notBefore = time.Time{}
	}
	r.answer = nil
	r.drain(e)
	want.Equal(t, "spans", strconv.Itoa(len(r.spans())), f.Count("message_trace"))
}

// TestLease checks that one of two daemons sends. A daemon that was taken for dead stores nothing any more, and both
// have sent the same spans.
func TestLease(t *testing.T) {
	t.Parallel()
	f, r := enginetest.New(t, "a", "b"), newReceiver(t)
	engines := f.OpenAll(2)
	send(f, "b", `1`)
	f.Clock.Advance(tracing.SettledAfter)
	one, two := exporterOf(engines[0].Ledger, r), exporterOf(engines[1].Ledger, r)
	if taken, err := one.take(t.Context()); !taken || err != nil {
		t.Fatal(taken, err)
	}
	want.Equal(t, "wait of the other", r.round(two), standEvery)
	p, err := one.read(t.Context(), maxSpans)
	if err != nil {
		t.Fatal(err)
	}
	f.Clock.Advance(one.lease)
	r.drain(two)
	want.Equal(t, "events sent", two.at.events, p.after.events)
	if _, err := one.send(t.Context(), p); err != nil || one.token != "" || one.at.events != 0 {
		t.Errorf("%+v %v", one, err)
	}
	want.Equal(t, "requests", len(r.bodies), 2)
	want.Equal(t, "the second", r.bodies[1], r.bodies[0])
	want.Equal(t, "wait of the one", r.round(one), standEvery)
	two.release(t.Context())
	r.drain(one)
	want.Equal(t, "requests", len(r.bodies), 2)
}

// TestLongLease checks that a lease of another process for longer requests is respected, and that an even longer one
// is ignored.
func TestLongLease(t *testing.T) {
	t.Parallel()
	f, r := enginetest.New(t, "a", "b"), newReceiver(t)
	engines := f.OpenAll(2)
	patient, hasty := exporterOf(engines[0].Ledger, r),
		newExporter(engines[1].Ledger, slog.New(slog.DiscardHandler), otlp.Options{URL: r.url, Timeout: time.Second},
			"v1.2.3")
	r.round(patient)
	want.Equal(t, "wait of the hasty", r.round(hasty), standEvery)
	f.SQL(`UPDATE exports SET lease_until = ?`, orchestrator.Stamp(f.Ledger.Now().Add(time.Hour)))
	r.round(hasty)
	if hasty.token == "" {
		t.Error("a lease from before the clock was set back is believed")
	}
}

// TestRestored checks that after a restore the cursor is that of the backup, also for a daemon that was sending.
func TestRestored(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "a server has its own backups")
	f, r := enginetest.New(t, "a", "b"), newReceiver(t)
	e := exporterOf(f.Ledger, r)
	send(f, "b", `1`)
	r.drain(e)
	file := filepath.Join(t.TempDir(), "backup.db")
	if _, err := f.BackupTo(t.Context(), file, false); err != nil {
		t.Fatal(err)
	}
	send(f, "b", `2`)
	r.drain(e)
	if _, err := f.Restore(t.Context(), file, true); err != nil {
		t.Fatal(err)
	}
	again, _ := send(f, "b", `3`)
	e.until = time.Now().Add(e.lease / 3)
	r.drain(e) // detects the restore
	f.Clock.Advance(time.Hour)
	r.drain(e)
	if !strings.Contains(strings.Join(r.bodies, ""), again) {
		t.Error("what happened after the restore was not sent")
	}
}

// TestCursorSetBack checks that a cursor that was set back during a request stays set back, also under the same
// lease.
func TestCursorSetBack(t *testing.T) {
	t.Parallel()
	f, r := enginetest.New(t, "a", "b"), newReceiver(t)
	e := exporterOf(f.Ledger, r)
	send(f, "b", `1`)
	r.drain(e)
	before := f.Rows(`SELECT events FROM exports`)[0]
	again, _ := send(f, "b", `2`)
	r.drain(e)
	f.SQL(`UPDATE exports SET events = ?`, before)
	first := len(r.spans())
	send(f, "b", `3`)
	r.drain(e) // detects the change
	want.Rows(t, f.Rows(`SELECT events FROM exports`), before)
	f.Clock.Advance(time.Hour)
	r.drain(e)
	sent := 0
	for _, body := range r.bodies {
		sent += strings.Count(body, again)
	}
	want.Equal(t, "more spans", len(r.spans()) > first, true)
	want.Equal(t, "sent again", sent > 1, true)
}

// TestNumberBeyondBelief checks that an event with a hand-written id that is out of range does not stop the export.
func TestNumberBeyondBelief(t *testing.T) {
	t.Parallel()
	f, r := enginetest.New(t, "a", "b"), newReceiver(t)
	e := exporterOf(f.Ledger, r)
	send(f, "b", `1`)
	f.SQL(`INSERT INTO message_trace (id, message_id, at, event)
		VALUES (9223372036854775807, 'm', '2026-01-01T00:00:00.000Z', 'created')`)
	r.drain(e)
	f.Send("a", "b") // this renumbers the whole trace
	r.drain(e)
	// A server does not change that id.
	want.Rows(t, f.Rows(`SELECT events FROM exports`),
		f.Rows(`SELECT max(id) FROM message_trace WHERE id < 9000000000000000000`)...)
}

// TestMissed checks that events that were deleted before they were sent are counted, also if none was sent yet.
// Events from before the first start are not counted.
func TestMissed(t *testing.T) {
	t.Parallel()
	f, r := enginetest.New(t, "a", "b"), newReceiver(t)
	one := "1"
	if f.OnServer() { // where undone transactions leave gaps in the ids
		one = "0"
	}
	id, _ := send(f, "b", `1`)
	f.SQL(`DELETE FROM message_trace WHERE message_id = ?`, id)
	send(f, "b", `1`)
	e := exporterOf(f.Ledger, r)
	r.drain(e)
	want.Rows(t, f.Rows(`SELECT missed FROM exports`), "0")
	gone, _ := send(f, "b", `1`)
	f.SQL(`DELETE FROM message_trace WHERE message_id = ?`, gone)
	send(f, "b", `1`)
	r.drain(e)
	want.Rows(t, f.Rows(`SELECT missed FROM exports`), one)
	want.Equal(t, "spans", len(r.spans()), 2)

	f, r = enginetest.New(t, "a", "b"), newReceiver(t)
	r.answer = func(string) (int, string, string) { return 200, "", `<html>please log in</html>` }
	e = exporterOf(f.Ledger, r)
	gone, _ = send(f, "b", `1`)
	r.round(e)
	r.round(e)
	f.SQL(`DELETE FROM message_trace WHERE message_id = ?`, gone)
	send(f, "b", `1`)
	r.answer = nil
	f.SQL(`UPDATE exports SET lease_until = ''`)
	r.drain(exporterOf(f.Ledger, r))
	want.Rows(t, f.Rows(`SELECT missed FROM exports`), one)
}

// TestKilledCommands checks that one statement looks for all killed commands, and that the oldest of too many
// commands is given up and counted.
func TestKilledCommands(t *testing.T) {
	t.Parallel()
	f, r := enginetest.New(t, "a", "b"), newReceiver(t)
	f.SQL(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO command_trace (trace_id, span_id, name, kind, started_at) SELECT i, i, 'killed ' || i, 'INTERNAL',
			'2026-01-01T00:00:00.000Z' FROM n`, maxWaiting+2)
	e := exporterOf(f.Ledger, r)
	r.drain(e)
	want.Rows(t, f.Rows(`SELECT missed, json_array_length(waiting) FROM exports`), "2 1000")
	f.SQL(`UPDATE command_trace SET ended_at = '2026-01-01T00:01:00.000Z'`)
	f.SQL(`DELETE FROM command_trace WHERE name = 'killed 10'`)
	r.drain(e)
	want.Rows(t, f.Rows(`SELECT waiting FROM exports`), "[]")
	want.Equal(t, "spans", len(r.spans()), maxWaiting-1)
}

// TestForeignRows checks that a row of another program, with its own time and ids, is sent in a trace of its own with
// ids that do not change.
func TestForeignRows(t *testing.T) {
	t.Parallel()
	f, r := enginetest.New(t, "a", "b"), newReceiver(t)
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload) VALUES ('m1', 'a', 'b', '1')`)
	deliver(f)
	f.SQL(`INSERT INTO command_trace (trace_id, span_id, name, kind, started_at, ended_at, attributes)
		VALUES ('ABC', 'x', 'strange', 'ODD', 'yesterday', 'today', 'none')`)
	f.Clock.Advance(tracing.SettledAfter)
	r.drain(exporterOf(f.Ledger, r))
	adopted, delivered := r.named("adopted b"), r.named("delivered b")
	want.Equal(t, "trace", delivered.TraceID, adopted.TraceID)
	want.Equal(t, "parents", adopted.ParentSpanID+" "+delivered.ParentSpanID, " "+adopted.SpanID)
	strange := r.named("strange")
	if !otlp.IsTraceID(strange.TraceID) || !otlp.IsSpanID(strange.SpanID) || strange.Kind != int(otlp.KindInternal) ||
		strange.StartTimeUnixNano != "0" {
		t.Errorf("%+v", strange)
	}
	first := r.bodies[0]
	f.SQL(`UPDATE exports SET events = 0, spans = 0, lease_until = ''`)
	r.drain(exporterOf(f.Ledger, r))
	want.Equal(t, "sent again", r.bodies[1], first)
}

// TestOddCursor checks that everything is sent, at least once, whatever another program writes into the row of the
// cursor.
func TestOddCursor(t *testing.T) {
	t.Parallel()
	f, r := enginetest.New(t, "a", "b"), newReceiver(t)
	send(f, "b", `1`)
	r.drain(exporterOf(f.Ledger, r))
	odd := []string{`waiting = x'ff00', lease_token = 7`, `waiting = '["a",{}]', events = 'many'`,
		`events = -9223372036854775808`, `spans = 9223372036854775807`,
		`lease_until = 'tomorrow', lease_owner = 1.5`,
		`lease_until = x'ff', refused = x'00', missed = 'none', sent_at = 3`}
	if f.OnServer() { // where the columns accept no other types
		odd = []string{`waiting = '~', lease_token = '7'`, `waiting = '["a",{}]'`, odd[2], odd[3],
			`lease_until = 'tomorrow', lease_owner = '1.5'`, `lease_until = '~', sent_at = '3', missed = -1`}
	}
	for _, odd := range odd {
		before := len(r.spans())
		f.SQL(`UPDATE exports SET events = 0, spans = 0, lease_until = ''`)
		f.SQL(`UPDATE exports SET ` + odd)
		e := exporterOf(f.Ledger, r)
		r.drain(e)
		if e.token == "" || len(r.spans()) == before {
			t.Errorf("with %s nothing is sent", odd)
		}
	}
}
