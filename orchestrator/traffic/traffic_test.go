package traffic_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/retention"
	"mailroom/orchestrator/traffic"
)

// TestReportIsWhatHappened checks that a report equals the trace of a random day, whenever it was counted, including
// the messages that retention has deleted since.
func TestReportIsWhatHappened(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 17))
			f := enginetest.New(t, "a", "b", "c")
			f.AddWired("w")
			begin := f.Clock.Now()
			var open []string
			for range 300 {
				switch r.IntN(12) {
				case 0, 1, 2, 3:
					open = append(open, f.Send("a", []string{"b", "c", "w"}[r.IntN(3)]))
				case 4, 5:
					f.Deliver()
				case 6:
					f.TakeFor([]string{"b", "c"}[r.IntN(2)], 0)
				case 7:
					f.Wire.Set([]func(context.Context, orchestrator.Attempt) []error{nil,
						enginetest.Failing("down")}[r.IntN(2)])
				case 8:
					if len(open) > 0 {
						messages.Cancel(t.Context(), f.Ledger, open[r.IntN(len(open))], "a") // too late for most
					}
				case 9:
					if err := traffic.Count(t.Context(), f.Ledger); err != nil {
						t.Fatal(err)
					}
				case 10:
					if r.IntN(5) == 0 {
						f.Clear(retention.ClearOptions{OlderThan: time.Hour})
					}
				case 11:
					f.Clock.Advance(time.Duration(r.Int64N(int64(20 * time.Minute))))
				}
				f.Clock.Advance(time.Duration(r.Int64N(int64(3 * time.Second))))
			}
			compare(t, f, begin)
			if err := traffic.Recount(t.Context(), f.Ledger); err != nil {
				t.Fatal(err)
			}
			compare(t, f, begin)
		})
	}
}

// compare compares a report of everything since begin with the trace.
func compare(t *testing.T, f *enginetest.Fixture, begin time.Time) {
	t.Helper()
	report, err := traffic.Of(t.Context(), f.Ledger, traffic.Query{Since: f.Clock.Now().Sub(begin), Every: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, l := range report.Recipients {
		got[l.Recipient+" created"], got[l.Recipient+" delivered"], got[l.Recipient+" read"] = l.Sent, l.Delivered,
			l.Read
		got[l.Recipient+" attempt_failed"], got[l.Recipient+" failed"] = l.AttemptsFailed, l.Failed
		got[l.Recipient+" expired"], got[l.Recipient+" cancelled"] = l.Expired, l.Cancelled
	}
	var perInterval traffic.Counts
	for _, l := range report.Intervals {
		perInterval.Sent, perInterval.Read, perInterval.Delivered = perInterval.Sent+l.Sent, perInterval.Read+l.Read,
			perInterval.Delivered+l.Delivered
	}
	want.Equal(t, "sent in all intervals", perInterval.Sent, report.Total.Sent)
	want.Equal(t, "delivered in all intervals", perInterval.Delivered, report.Total.Delivered)
	want.Equal(t, "written by all", report.Total.Wrote, report.Total.Sent)
	wanted, delivered, read := fromTrace(t, f)
	for what, n := range wanted {
		want.Equal(t, what, got[what], n)
	}
	for what, n := range got {
		want.Equal(t, what, n, wanted[what])
	}
	near(t, "delivered", report.Total.DeliveredAfter, delivered)
	near(t, "read", report.Total.ReadAfter, read)
}

// fromTrace counts the events of the trace, and returns the milliseconds of each delivery and of each reading.
func fromTrace(t *testing.T, f *enginetest.Fixture) (counts map[string]int64, delivered, read []int64) {
	t.Helper()
	counts = map[string]int64{}
	recipients := map[string]string{}
	for _, table := range []string{"agent_message", "agent_message_archive"} {
		for _, pair := range pairs(t, f, `SELECT json_array(message_id, recipient) FROM `+table) {
			recipients[pair[0]] = pair[1]
		}
	}
	for _, pair := range pairs(t, f,
		`SELECT json_array(message_id, json_extract(detail, '$.recipient')) FROM message_trace
			WHERE event = 'deleted'`) {
		recipients[pair[0]] = pair[1]
	}
	created, arrived := map[string]time.Time{}, map[string]time.Time{}
	for _, e := range pairs(t, f, `SELECT json_array(message_id, event, at) FROM message_trace ORDER BY id`) {
		id, event, at := e[0], e[1], orchestrator.ParseStamp(e[2])
		switch event {
		case "created":
			created[id] = at
		case "delivered":
			arrived[id] = at
			delivered = append(delivered, at.Sub(created[id]).Milliseconds())
		case "read":
			read = append(read, at.Sub(arrived[id]).Milliseconds())
		case "attempt_failed", "failed", "expired", "cancelled":
		default:
			continue
		}
		counts[recipients[id]+" "+event]++
	}
	return counts, delivered, read
}

func pairs(t *testing.T, f *enginetest.Fixture, query string) (list [][]string) {
	t.Helper()
	for _, row := range f.Rows(query) {
		var values []string
		if err := json.Unmarshal([]byte(row), &values); err != nil {
			t.Fatal(err)
		}
		list = append(list, values)
	}
	return list
}

// near compares percentiles with the exact values.
func near(t *testing.T, what string, got *traffic.Percentiles, exact []int64) {
	t.Helper()
	if len(exact) == 0 {
		if got != nil {
			t.Errorf("%s: %+v of nothing", what, got)
		}
		return
	}
	slices.Sort(exact)
	for percent, value := range map[int]float64{50: got.P50, 95: got.P95, 99: got.P99} {
		is := float64(exact[(len(exact)*percent+99)/100-1])
		if value < is*0.95-0.1 || value > is*1.05+0.1 {
			t.Errorf("%s: p%d is %v; the exact one is %v", what, percent, value, is)
		}
	}
}

// TestCountedByDeliveries checks that a delivery run counts, at most once a minute unless there is much to count. Old
// counts are deleted.
func TestCountedByDeliveries(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	f.Send("a", "b")
	f.Deliver()
	want.Rows(t, f.Rows(`SELECT span FROM traffic`))
	f.Clock.Advance(61 * time.Second)
	f.Deliver()
	want.Rows(t, f.Rows(`SELECT span, recipient, sent, delivered, wrote FROM traffic ORDER BY span, recipient`),
		"hour a 0 0 1", "hour b 1 1 0", "minute a 0 0 1", "minute b 1 1 0")
	f.Clock.Advance(traffic.KeepMinutes + time.Hour)
	f.Send("a", "b")
	f.Clock.Advance(61 * time.Second)
	f.Deliver()
	f.Deliver()
	want.Rows(t, f.Rows(`SELECT span, count(*) FROM traffic GROUP BY span`), "hour 4", "minute 2")
	f.Clock.Advance(traffic.KeepHours + time.Hour)
	f.Send("a", "b")
	f.Clock.Advance(61 * time.Second)
	f.Deliver()
	f.Deliver()
	want.Rows(t, f.Rows(`SELECT span, count(*) FROM traffic GROUP BY span`), "hour 2", "minute 2")
}

// TestWhatIsNotKept checks that intervals of minutes are refused where minutes are no longer kept, and that no report
// goes back further than the hours.
func TestWhatIsNotKept(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	for _, q := range []traffic.Query{
		{Since: time.Hour, Every: time.Second}, {Since: time.Hour, Every: 90 * time.Second},
		{Since: 49 * time.Hour, Every: time.Minute}, {Since: traffic.KeepHours + time.Hour, Every: time.Hour},
	} {
		if _, err := traffic.Of(t.Context(), f.Ledger, q); orchestrator.CodeOf(err) != orchestrator.InvalidParams {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

// TestWhoWrote checks that senders are counted too: what they sent to agents and in threads. A sender is not counted
// as a recipient for that.
func TestWhoWrote(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	f.Send("a", "b")
	f.Deliver()
	if err := traffic.Count(t.Context(), f.Ledger); err != nil {
		t.Fatal(err)
	}
	f.Clear(retention.ClearOptions{}) // a recount then uses the trace of the deletion
	f.Clock.Advance(time.Hour)
	f.MustPost(f.Thread("a", "b").ID, "a", "b")
	for range 2 {
		report, err := traffic.Of(t.Context(), f.Ledger,
			traffic.Query{Since: 2 * time.Hour, Every: time.Hour, Recipient: "a"})
		if err != nil {
			t.Fatal(err)
		}
		wrote := []int64{}
		for _, l := range report.Intervals {
			wrote = append(wrote, l.Wrote)
		}
		want.Equal(t, "written in each hour, and recipients", fmt.Sprint(wrote, len(report.Recipients)), "[0 1 2] 0")
		if err := traffic.Recount(t.Context(), f.Ledger); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReplayed checks that the times of a replayed message begin with the replay.
func TestReplayed(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.AddWired("w")
	f.Wire.Set(enginetest.Failing("down"))
	id := f.Send("a", "w")
	for range 5 {
		f.Deliver()
		f.Clock.Advance(2 * time.Minute)
	}
	f.Clock.Advance(10 * time.Hour)
	f.Wire.Set(nil)
	if _, err := messages.Replay(t.Context(), f.Ledger, id, ""); err != nil {
		t.Fatal(err)
	}
	f.Clock.Advance(time.Second)
	f.Deliver()
	report, err := traffic.Of(t.Context(), f.Ledger,
		traffic.Query{Since: 24 * time.Hour, Every: time.Hour, Recipient: "w"})
	if err != nil {
		t.Fatal(err)
	}
	near(t, "delivered", report.Total.DeliveredAfter, []int64{1000})
	near(t, "queued", report.Total.Queued, []int64{1000})
}

// TestFailedAtOnce checks that a message to an unknown name is a dead letter at once, and that the doctor's test
// messages are not counted.
func TestFailedAtOnce(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	sent, err := messages.Send(t.Context(), f.Ledger,
		orchestrator.Draft{Sender: "a", Recipient: "nobody", Type: "note", Payload: []byte(`1`)})
	if orchestrator.CodeOf(err) != orchestrator.UnknownRecipient {
		t.Fatalf("%+v, %v", sent, err)
	}
	f.Send("a", "b", func(d *orchestrator.Draft) { d.Type = orchestrator.TestMessage })
	report, err := traffic.Of(t.Context(), f.Ledger,
		traffic.Query{Since: time.Hour, Every: time.Hour, Recipient: "nobody"})
	if err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "failed", report.Total.Failed, 1)
	report, err = traffic.Of(t.Context(), f.Ledger, traffic.Query{Since: time.Hour, Every: time.Hour, Recipient: "b"})
	if err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "sent to b", report.Total.Sent, 0)
}

// TestRecountKeepsWhatTracesDoNotTell checks that a recount keeps counts whose traces are deleted, and corrects
// counts that were changed by hand.
func TestRecountKeepsWhatTracesDoNotTell(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	f.Set("retention.archive", "24h")
	begin := f.Clock.Now().Truncate(time.Hour)
	send := func() {
		f.Send("a", "b")
		f.Deliver()
		f.TakeFor("b", 0)
	}
	send()
	f.Clock.Advance(3 * time.Hour)
	f.Clear(retention.ClearOptions{OlderThan: time.Hour}) // moved to the archive
	f.Clock.Advance(25 * time.Hour)
	f.Clear(retention.ClearOptions{OlderThan: time.Hour})
	f.Clock.Advance(3 * time.Hour)
	send()
	rows := func() []string {
		return f.Rows(`SELECT span, at, recipient, sent, delivered, read, wrote FROM traffic
			ORDER BY span, at, recipient`)
	}
	if _, _, err := retention.ClearTraces(t.Context(), f.Ledger, time.Hour); err != nil { // counts before it deletes
		t.Fatal(err)
	}
	want.Rows(t, f.Rows(`SELECT count(DISTINCT message_id) FROM message_trace`), "1")
	counted := rows()
	want.Equal(t, "rows of traffic", len(counted), 8)
	for _, by := range []string{
		`UPDATE settings SET value = 'x' WHERE key = 'traffic.counted'`,
		`UPDATE settings SET value = '9223372036854775807' WHERE key = 'traffic.counted'`,
		`UPDATE settings SET value = '1000000' WHERE key = 'traffic.counted'`,
		`DELETE FROM settings WHERE key = 'traffic.counted'`,
		`UPDATE traffic SET sent = 7, wrote = 7, read_ms = '[' WHERE at > '` +
			orchestrator.Stamp(begin.Add(2*time.Hour)) + `'`,
	} {
		f.SQL(by)
		if err := traffic.Recount(t.Context(), f.Ledger); err != nil {
			t.Fatal(err)
		}
		want.Rows(t, rows(), counted...)
	}
	f.SQL(`UPDATE settings SET value = 'x' WHERE key = 'traffic.counted'`)
	_, err := traffic.Of(t.Context(), f.Ledger, traffic.Query{Since: time.Hour, Every: time.Hour})
	want.Equal(t, "code of an unknown end", orchestrator.CodeOf(err), orchestrator.Conflict)
	id := f.Send("a", "b")
	f.Deliver()
	want.Equal(t, "a message with an unknown end", f.Message(id).Status, orchestrator.Delivered)
	if _, _, err := retention.ClearTraces(t.Context(), f.Ledger, time.Hour); err != nil {
		t.Error(err)
	}
}

// TestManyEventsOfOneMessage checks that very many events of one message cost no more than as many of other messages.
func TestManyEventsOfOneMessage(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	f.Send("a", "b")
	f.Deliver()
	f.SQL(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
		INSERT INTO message_trace (message_id, at, event)
		SELECT m.message_id, m.created_at, CASE i % 3 WHEN 0 THEN 'claimed' WHEN 1 THEN 'delivered' ELSE 'read' END
			FROM n, agent_message m`)
	if err := traffic.Count(t.Context(), f.Ledger); err != nil {
		t.Fatal(err)
	}
	want.Rows(t, f.Rows(`SELECT delivered, read FROM traffic WHERE span = 'hour' AND recipient = 'b'`), "20001 20000")
}

// TestLongNamesByHand checks that a name too long for an index, written by hand into a message or into the trace,
// does not prevent the counting.
func TestLongNamesByHand(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	r := rand.New(rand.NewPCG(1, 2))
	long := ""
	for len(long) < 30_000 { // random, so that a server cannot compress it
		long += fmt.Sprintf("%016x", r.Uint64())
	}
	f.Send("a", "b")
	f.SQL(`UPDATE agent_message SET sender = '` + long + `'`)
	f.SQL(`INSERT INTO message_trace (message_id, at, event, detail) SELECT 'gone', created_at, 'created', ''
		FROM agent_message`)
	f.SQL(`INSERT INTO message_trace (message_id, at, event, detail) SELECT 'gone', created_at, 'deleted',
		'{"recipient":"` + long + `"}' FROM agent_message`)
	if err := traffic.Count(t.Context(), f.Ledger); err != nil {
		t.Fatal(err)
	}
	want.Rows(t, f.Rows(`SELECT length(recipient), sent, wrote FROM traffic WHERE span = 'hour' ORDER BY sent, wrote`),
		"1 1 0", "255 1 1")
}

// TestCountsByHand checks that hand-written counts are reported as numbers that can be added up and that a page can
// read.
func TestCountsByHand(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	f.SQL(`INSERT INTO traffic (span, at, recipient, sent, read, wrote)
		VALUES ('hour', ?1, 'a', -1, 9007199254740993, 9223372036854775807),
			('hour', ?1, 'b', 2, 1, 9223372036854775807)`,
		orchestrator.Stamp(f.Clock.Now().Truncate(time.Hour)))
	report, err := traffic.Of(t.Context(), f.Ledger, traffic.Query{Since: time.Hour, Every: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "total", report.Total.Counts, traffic.Counts{Sent: 2, Read: 1<<40 + 1, Wrote: 2 << 40})
}
