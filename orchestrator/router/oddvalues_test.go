package router_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/questions"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/retention"
	"mailroom/tracing"
)

// inTime runs f. If f does not return in time, inTime prints the test's name and all goroutines, and ends the
// program: an endless loop does not check its context, and closing the database would wait for it.
func inTime(t *testing.T, what string, f func(ctx context.Context)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	done, panicked := make(chan struct{}), true
	orchestrator.GoSafe(what, slog.New(slog.NewTextHandler(os.Stderr, nil)), func() {
		defer close(done)
		f(ctx)
		panicked = false
	})
	select {
	case <-done:
		if panicked {
			t.Fatalf("%s panicked; see above", what)
		}
	case <-ctx.Done():
		stacks := make([]byte, 1<<20)
		fmt.Fprintf(os.Stderr, "--- FAIL: %s: %s does not end:\n%s", t.Name(), what,
			stacks[:runtime.Stack(stacks, true)])
		os.Exit(1)
	}
}

// TestBlobsAreAdopted checks rows with a BLOB for a name, an id or a status. A BLOB is greater than every text, and
// equals none. Such rows are adopted like other hand-written rows, whatever their traced_status, and all other
// messages are delivered.
func TestBlobsAreAdopted(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "a server takes no value of another type")
	f := enginetest.New(t, "a", "b")
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload, status, traced_status) VALUES
		('to nobody', 'a', x'ff', '1', 'pending', 'pending'),
		('to b',      'a', CAST('B' AS BLOB), '2', 'pending', 'pending'),
		('from b',    CAST('b' AS BLOB), 'a', '3', 'pending', 'pending'),
		(x'626c6f62', 'a', 'b', '4', 'pending', 'pending'),
		('status',    'a', 'b', '5', CAST('pending' AS BLOB), CAST('pending' AS BLOB)),
		('no status', 'a', 'b', '6', x'00', x'00')`)
	id := f.Send("a", "b")
	inTime(t, "the delivery", func(context.Context) { f.Deliver() })
	want.Equal(t, "status of another's message", f.Message(id).Status, orchestrator.Delivered)
	want.Equal(t, "status of the one to nobody", f.Message("to nobody").Status, orchestrator.Retry)
	want.Rows(t, f.Rows(`SELECT recipient, message_id, payload FROM agent_inbox WHERE message_id <> ? ORDER BY payload`,
		id),
		"b to b 2", "a from b 3", "b blob 4", "b status 5", "b no status 6")
	want.Equal(t, "events of the one whose id was a BLOB",
		len(f.Rows(`SELECT 1 FROM message_trace WHERE message_id = 'blob'`)), 2)
	want.Equal(t, "BLOBs left",
		len(f.Rows(`SELECT 1 FROM agent_message WHERE message_id >= x'' OR sender >= x'' OR recipient >= x''
			OR status >= x''`)), 0)
}

// TestRecipientsThatNobodyCanBe checks that a hand-written message for a name that no agent can have is retried and
// becomes a dead letter, like one for an unknown name, and that why never advises to add such an agent.
func TestRecipientsThatNobodyCanBe(t *testing.T) {
	t.Parallel()
	for recipient, traced := range map[string]string{"''": "pending", "x''": "", "' '": "", "x'ff'": "", "7": "",
		"'No Name'": "", "'system'": "", "char(0)": ""} {
		f := enginetest.New(t, "a", "b")
		if f.OnServer() && (strings.HasPrefix(recipient, "x") || recipient == "char(0)") {
			continue // no such value exists there
		}
		f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload, status, traced_status,
			max_retries) VALUES
			('taken back', 'a', `+recipient+`, '1', 'pending', ?1, 1), ('given up', 'a', `+recipient+
			`, '1', 'pending', ?1, 1)`, traced)
		id := f.Send("a", "b")
		cannot := func(id, does string) {
			t.Helper()
			if why := f.Why(id); !strings.HasPrefix(why.Fix, "No agent can have that name. "+does) {
				t.Errorf("%s: %s: %s; do: %s", recipient, id, why.Rule, why.Fix)
			}
		}
		inTime(t, "the delivery", func(context.Context) { f.Deliver() })
		want.Equal(t, "status of another's message", f.Message(id).Status, orchestrator.Delivered)
		want.Equal(t, "status of the one to "+recipient, f.Message("given up").Status, orchestrator.Retry)
		cannot("given up", "To cancel the message now, run `mailroom cancel 'given up'`")
		if _, err := messages.Cancel(t.Context(), f.Ledger, "taken back", ""); err != nil {
			t.Errorf("%s: %v", recipient, err)
		}
		f.Clock.Advance(30 * time.Second)
		f.Deliver()
		failed := f.Message("given up")
		want.Equal(t, "status of the one to "+recipient, failed.Status, orchestrator.Failed)
		want.Equal(t, "its error", failed.Error, fmt.Sprintf("unknown agent %q", failed.Recipient))
		cannot("given up", "If the message is still needed, send it again")
		if recipient != "'system'" { // system also sends the report about the failure, and its name is reserved
			for _, receipt := range f.Why("given up").Receipts {
				want.Equal(t, "receipt of the one to "+recipient, receipt.What, "created")
			}
			if _, err := messages.Replay(t.Context(), f.Ledger, "given up", ""); !strings.Contains(fmt.Sprint(err),
				"No agent can have that name") {
				t.Errorf("replaying the one to %s: %v", recipient, err)
			}
		}
		f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload, held) VALUES ('held', 'a', ` +
			recipient + `, '1', 1)`)
		f.Deliver()
		cannot("held", "To cancel the message now, run `mailroom cancel held`")
	}
}

// TestStuckRowsAreWalkedPast checks that rows that cannot be changed do not keep the rows after them from adoption,
// review or the end of their leases, however many there are.
func TestStuckRowsAreWalkedPast(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	const past = "2026-01-01T00:00:00.000Z"
	for what, columns := range map[string]string{
		"hand":   `'', '', '', '9999-01-01T00:00:00.000Z'`,
		"review": `'pending', '` + past + `', '', '` + past + `'`,
		"lease":  `'pending', '', 'dead', '9999-01-01T00:00:00.000Z'`,
	} {
		f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload, status, traced_status, review_at,
			lease_token, expires_at)
			WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600)
			SELECT '` + what + `-stuck-' || i, 'a', 'b', '1', 'pending', ` + columns + ` FROM n`)
		f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload, status, traced_status, review_at,
			lease_token, expires_at)
			VALUES ('` + what + `-good', 'a', 'c', '1', 'pending', ` + columns + `)`)
	}
	f.Forbid("UPDATE", "agent_message", `old.message_id LIKE '%-stuck-%'`, "no")
	inTime(t, "the delivery", func(context.Context) { f.Deliver() })
	want.Equal(t, "the one by hand", f.Message("hand-good").Status, orchestrator.Delivered)
	want.Equal(t, "the one that is over", f.Message("review-good").Status, orchestrator.Expired)
	want.Equal(t, "the one whose lease is over", f.Message("lease-good").Status, orchestrator.Delivered)
}

// TestOddRowsBesideMessages checks that rows that refer to messages, agents and questions with invalid names do not
// keep any loop running.
func TestOddRowsBesideMessages(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	kind := "BLOB"
	if f.OnServer() {
		kind = "TEXT" // the only type
	}
	for table, insert := range map[string]string{
		"acknowledgement_due": `(message_id, due_at, within_seconds) SELECT CAST('m' || i AS ` + kind + `), '', 1`,
		"heartbeats":          `(agent, heard_at, silent_at) SELECT CAST('n' || i AS ` + kind + `), '', '0'`,
		"signal_questions":    `(question_id, asker, status, body, message_id, created_at, expires_at) SELECT CAST('q' || i AS ` + kind + `), 'a', CASE i % 2 WHEN 1 THEN 'pending' ELSE 'answered' END, '', 'm' || i, '', ''`,
	} {
		f.SQL(`INSERT INTO ` + table + ` ` + insert +
			` FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1100) SELECT i
				FROM n) AS n`)
	}
	f.SQL(`INSERT INTO acknowledgement_due (message_id, due_at, within_seconds) VALUES ('no time', '9999', 9e18)`)
	if !f.OnServer() {
		f.SQL(`INSERT INTO acknowledgement_due (message_id, due_at, within_seconds) VALUES ('no number', '9999', ''),
			('no text', x'ff', x'ff')`)
	}
	id := f.Send("a", "b")
	inTime(t, "the delivery", func(context.Context) { f.Deliver() })
	want.Equal(t, "status", f.Message(id).Status, orchestrator.Delivered)
	if list, err := questions.Unreturned(t.Context(), f.Ledger, ""); err != nil || len(list) != 0 && !f.OnServer() {
		t.Errorf("%d answers are to be sent back, though nobody can name their questions (%v)", len(list), err)
	}
}

// TestRunsEndWithTheirContext checks that every run ends with its context, whatever it is doing.
func TestRunsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	for i := range 50 {
		f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload, status, traced_status)
			VALUES (?1, 'a', ?1, '1', 'pending', 'pending')`, fmt.Sprint("n", i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.DeliverAll(ctx, delivery.Options{}); err == nil {
		t.Error("a run whose context has ended delivers")
	}
	want.Equal(t, "attempts", len(f.Rows(`SELECT 1 FROM message_trace WHERE event = 'attempt_failed'`)), 0)
}

// TestNumbersWrittenByHand checks that the largest possible number, written by hand into seq, does not prevent
// sending, and that the seq of an archived message does not keep another message out of the archive.
func TestNumbersWrittenByHand(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "a server counts on, whatever numbers others write")
	f := enginetest.New(t, "a", "b")
	archived := f.Send("a", "b")
	f.Deliver()
	f.Clock.Advance(time.Minute)
	f.Clear(retention.ClearOptions{OlderThan: time.Second})
	for i, seq := range []string{"1", "-9223372036854775808", "9223372036854775807", "9223372036854775806"} {
		f.SQL(`INSERT INTO agent_message (seq, message_id, sender, recipient, payload) VALUES (`+seq+
			`, ?, 'a', 'b', '1')`, fmt.Sprint("odd", i))
	}
	first, second := f.Send("a", "b"), f.Send("a", "b")
	f.SQL(`UPDATE agent_message SET seq = 9223372036854775807 WHERE message_id = 'odd0'`)
	f.SQL(`UPDATE agent_message SET seq = 1 WHERE message_id = 'odd1'`)
	third := f.Send("a", "b")
	f.Deliver()
	ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range ms {
		got = append(got, ms[i].ID)
	}
	want.Rows(t, got, "odd1", archived, "odd3", "odd2", first, second, "odd0", third)
	want.Rows(t, f.Rows(`SELECT event FROM message_trace WHERE message_id = ? ORDER BY id`, third), "created",
		"delivered", "read")
	f.Clock.Advance(time.Minute)
	want.Equal(t, "cleared", f.Clear(retention.ClearOptions{OlderThan: time.Second}).Deleted, 7)
	want.Equal(t, "in the archive", len(f.Rows(`SELECT 1 FROM agent_message_archive`)), 8)
	want.Rows(t, f.Rows(`SELECT message_id FROM agent_message_archive WHERE seq = 1`), archived)
}

// TestNumberOfAnArchivedMessage checks that a message that was given the seq of an archived one is archived, too.
func TestNumberOfAnArchivedMessage(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	clear := func(id string) {
		t.Helper()
		f.Deliver()
		f.Clock.Advance(time.Minute)
		f.Clear(retention.ClearOptions{OlderThan: time.Second})
		want.Rows(t, f.Rows(`SELECT count(*) FROM agent_message_archive WHERE message_id = ?`, id), "1")
	}
	first := f.Send("a", "b")
	clear(first)
	second, third := f.Send("a", "b"), f.Send("a", "b")
	f.SQL(`UPDATE agent_message SET seq = (SELECT seq FROM agent_message_archive WHERE message_id = ?)
		WHERE message_id = ?`, first, second)
	clear(third)
	want.Rows(t, f.Rows(`SELECT message_id FROM agent_message_archive WHERE message_id = ?`, second), second)
	want.Equal(t, "left", len(f.Rows(`SELECT 1 FROM agent_message`)), 0)
}

// TestNumbersThatComeNext checks that hand-written next numbers do not prevent sending, of one message or several.
func TestNumbersThatComeNext(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	f.SQL(`WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 30)
		INSERT INTO agent_message (seq, message_id, sender, recipient, payload) SELECT i, 'odd' || i, 'a', 'b', '1'
			FROM n`)
	f.SQL(`WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 30)
		INSERT INTO message_trace (id, message_id, at, event) SELECT i, 'none', '', 'read' FROM n`)
	f.Send("a", "b")
	draft := orchestrator.Draft{Sender: "a", Recipient: "b", Payload: []byte("1")}
	f.Send("a", "b")
	if outs := messages.SendBatch(t.Context(), f.Ledger, []orchestrator.Draft{draft, draft},
		false); outs[0].Refused != nil || outs[1].Refused != nil {
		t.Error(outs)
	}
	want.Equal(t, "delivered", f.Deliver().Delivered, 33)
}

// TestNumbersOfTracesWrittenByHand checks the same for the largest number in a trace, into which nearly every action
// writes.
func TestNumbersOfTracesWrittenByHand(t *testing.T) {
	t.Parallel()
	for table, insert := range map[string]string{
		"message_trace": `(id, message_id, at, event) VALUES (?, 'odd', '', 'read')`,
		"command_trace": `(id, trace_id, span_id, name, kind, started_at) VALUES (?, '1', 'odd', 'send', 'PRODUCER', '')`,
	} {
		f := enginetest.New(t, "a", "b")
		f.SQL(`INSERT INTO `+table+` `+insert, int64(math.MaxInt64))
		spanned, span := tracing.Start(t.Context(), "send")
		draft := orchestrator.Draft{Sender: "a", Recipient: "b", Payload: []byte("1")}
		first, err := messages.Send(spanned, f.Ledger, draft)
		if err != nil {
			t.Fatalf("%s: %v", table, err)
		}
		f.Deliver()
		f.EndSpan(spanned, span, nil, func() bool { return false })
		f.SQL(`UPDATE `+table+` SET id = ? WHERE id = (SELECT max(id) FROM `+table+`)`, int64(math.MaxInt64))
		if outs := messages.SendBatch(t.Context(), f.Ledger, []orchestrator.Draft{draft, draft},
			false); outs[0].Refused != nil || outs[1].Refused != nil {
			t.Fatalf("%s: %v", table, outs)
		}
		f.SQL(`UPDATE `+table+` SET id = ? WHERE id = (SELECT max(id) FROM `+table+`)`, int64(math.MaxInt64))
		f.Deliver()
		want.Equal(t, "delivered", len(f.Rows(`SELECT 1 FROM agent_message WHERE status = 'delivered'`)), 3)
		want.Rows(t, f.Rows(`SELECT event FROM message_trace WHERE message_id = ? ORDER BY id`, first.MessageID),
			"created", "delivered")
	}
}

// TestOddRowsOfKeysAndCounts checks that hand-written values in the keys for pushes, or in a count, do not prevent
// pushes and status queries.
func TestOddRowsOfKeysAndCounts(t *testing.T) {
	t.Parallel()
	f, devices := enginetest.NewPhones(t, 1)
	f.SQL(`INSERT INTO signal_keys (name, public_key, private_key, created_at) VALUES ('vapid', '', 'x', '')`)
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, status, traced_status, held) VALUES
		('1', 'builder', 'reviewer', 'pending', 'pending', 9223372036854775807),
			('2', 'builder', 'reviewer', 'pending', 'pending', 1)`)
	q := f.Question(devices)
	want.Lines(t, f.Pushes(), "device:"+devices[0]+" question "+q.ID)
	s, err := overview.Status(t.Context(), f.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range s.Recipients {
		if b.Recipient == "reviewer" {
			want.Equal(t, "held", b.Held, 0) // nothing is held for an existing agent
		}
	}
}

// TestNumbersRunOutInABatch checks the same for several messages in one transaction, which SQLite undoes as a whole.
func TestNumbersRunOutInABatch(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	f.SQL(`INSERT INTO agent_message (seq, message_id, sender, recipient, payload)
		VALUES (9223372036854775806, 'odd', 'a', 'b', '1')`)
	draft := orchestrator.Draft{Sender: "a", Recipient: "b", Payload: []byte("1")}
	outs := messages.SendBatch(t.Context(), f.Ledger, []orchestrator.Draft{draft, draft, draft}, false)
	for i, out := range outs {
		if out.Refused != nil || out.Sent.MessageID == "" {
			t.Errorf("message %d: %v", i, out.Refused)
		}
	}
	rows := len(f.Rows(`SELECT 1 FROM agent_message WHERE seq < 100`))
	if f.OnServer() { // where numbers continue regardless of written ones
		rows++
	}
	want.Equal(t, "rows", rows, 4)
}

// TestOddColumnsOfLiveRows checks that a fault in one message does not affect others: a NULL where its trace counts
// attempts, and invalid times that hide that it is due.
func TestOddColumnsOfLiveRows(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	f.AddWired("w")
	const insert = `INSERT INTO agent_message (message_id, sender, recipient, payload, status, traced_status,
		next_attempt_at, retry_count, held, lease_token, lease_until) VALUES `
	f.SQL(insert + `('null retries', 'a', 'w', '1', 'retry', 'retry', '', NULL, 0, '', '')`)
	f.SQL(insert + `('null retries, leased', 'a', 'b', '1', 'retry', 'retry', '', NULL, 0, 'dead', '')`)
	f.SQL(insert + `('least retries', 'a', 'w', '1', 'retry', 'retry', '', -9223372036854775808, 0, '', ''), ('most retries', 'a', 'w', '1', 'retry', 'retry', '', 9223372036854775807, 0, '', '')`)
	f.SQL(insert + `('before all times', 'a', 'b', '1', 'pending', 'pending', '0', 0, 1, '', '')`)
	f.Wire.Set(enginetest.Failing("down"))
	id := f.Send("a", "w")
	inTime(t, "the delivery", func(context.Context) { f.Deliver() })
	want.Equal(t, "status of another's", f.Message(id).Status, orchestrator.Retry)
	want.Equal(t, "status of the one with a lease", f.Message("null retries, leased").Status, orchestrator.Delivered)
	want.Equal(t, "next run", f.NextDue(), f.Stamp())
}

// TestOddConfigurationIsRefused checks that the configuration tables accept no value of another type than that of its
// column, and no invalid name.
func TestOddConfigurationIsRefused(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	names := []string{`''`, `' b'`, `'~'`, `'Upper'`, `'2b'`, `'` + strings.Repeat("x", 58) + `'`}
	for _, name := range orchestrator.ReservedNames {
		names = append(names, "'"+name+"'")
	}
	numbers := []string{}
	if !f.OnServer() {
		names, numbers = append(names, `x'ff'`, `CAST('b' AS BLOB)`, `NULL`), []string{`'never'`, `1.5`, `x'01'`}
	}
	var refused []string
	for _, name := range names {
		refused = append(refused, `INSERT INTO agents (name, created_at, updated_at) VALUES (`+name+`, '', '')`,
			`INSERT INTO groups (name, created_at) VALUES (`+name+`, '')`, `INSERT INTO group_members VALUES ('g', `+
				name+`, 1)`)
	}
	for _, n := range numbers {
		for _, column := range []string{"timeout_seconds", "silent_after_seconds", "batch", "concurrency",
			"allow_private", "plan_mode_required"} {
			refused = append(refused, `UPDATE agents SET `+column+` = `+n)
		}
		refused = append(refused,
			`INSERT INTO schedules (name, spec, command, enabled, created_at) VALUES ('s', '@daily', 'poll', `+n+
				`, '')`,
			`INSERT INTO tokens (hash, agent, admin, created_at) VALUES ('h', 'a', `+n+`, '')`)
	}
	db := enginetest.Plain(t, f.Path)
	for _, statement := range refused {
		if _, err := db.Exec(statement); err == nil {
			t.Errorf("it takes %s", statement)
		}
	}
}

// TestOddConfiguration checks that invalid configuration is ignored and reported by the doctor, and that the rest
// applies.
func TestOddConfiguration(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	f.AddWired("w")
	f.SQL(`INSERT INTO groups (name, created_at) VALUES ('b', '')`)
	f.SQL(`INSERT INTO group_members VALUES ('b', 'a', 1)`)
	f.SQL(`INSERT INTO tokens (hash, agent, admin, created_at) VALUES ('short', 'a', 2, '')`)
	f.SQL(`INSERT INTO settings (key, value, updated_at) VALUES ('retry.ladder', '~', ''),
		('delivery.claim_size', '-1', ''), ('bounce', 'on', ''), ('nothing', 'x', '')`)
	f.SQL(`UPDATE agents SET concurrency = 9223372036854775807, timeout_seconds = 9223372036854775807, batch = -1,
		silent_after_seconds = -1, deliver = ?
		WHERE name = 'w'`, "jsonl:"+f.Ledger.FilePrefix())
	f.Set("retry.max_retries", "2") // makes every process read the configuration again

	names, err := agents.List(t.Context(), f.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	w := names[2]
	want.Equal(t, "numbers of w", fmt.Sprint(w.Concurrency, w.TimeoutSeconds, w.Batch, w.SilentAfter), "0 0 0 0")
	id, lost := f.Send("a", "b"), f.Send("a", "w")
	inTime(t, "the delivery", func(context.Context) { f.Deliver() })
	want.Equal(t, "status of the one to b, of which there is a group, too", f.Message(id).Status,
		orchestrator.Delivered)
	want.Equal(t, "status of the one into the database", f.Message(lost).Status, orchestrator.Retry)
	setting, err := f.Setting(t.Context(), "retry.ladder")
	want.Equal(t, "the ladder in force", setting.Value, "30s,60s,120s")
	want.Equal(t, "the ladder that is stored", setting.Ignored, "~")
	tokens, tokensErr := agents.Tokens(t.Context(), f.Ledger, "")
	if err != nil || tokensErr != nil || len(tokens) != 1 {
		t.Errorf("tokens: %v %v %v", tokens, err, tokensErr)
	}
	says := ""
	for _, found := range overview.Doctor(t.Context(), f.Ledger, overview.DoctorOptions{}) {
		if found.Code == "configuration" {
			says += found.Says + "\n"
		}
	}
	for _, part := range []string{"cannot read the setting retry.ladder", "the setting delivery.claim_size",
		"the group b has the name of an agent"} {
		if !strings.Contains(says, part) {
			t.Errorf("the doctor does not say %q:\n%s", part, says)
		}
	}
}
