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
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/questions"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/retention"
	"mailroom/tracing"
)

// inTime runs f. When that does not come back it ends the program, after naming the test and what everybody is doing: a loop that
// never ends looks at no context, and closing the database would wait for it.
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
		fmt.Fprintf(os.Stderr, "--- FAIL: %s: %s does not end:\n%s", t.Name(), what, stacks[:runtime.Stack(stacks, true)])
		os.Exit(1)
	}
}

// A BLOB is greater than every text, and equals none. Where a name, an id or a status should stand, its row is brought into our
// form like any that somebody else wrote, whatever traced_status says, and everybody else's mail flows on.
func TestBlobsAreAdopted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b")
	f.sql(`INSERT INTO agent_message (message_id, sender, recipient, payload, status, traced_status) VALUES
		('to nobody', 'a', x'ff', '1', 'pending', 'pending'),
		('to b',      'a', CAST('B' AS BLOB), '2', 'pending', 'pending'),
		('from b',    CAST('b' AS BLOB), 'a', '3', 'pending', 'pending'),
		(x'626c6f62', 'a', 'b', '4', 'pending', 'pending'),
		('status',    'a', 'b', '5', CAST('pending' AS BLOB), CAST('pending' AS BLOB)),
		('no status', 'a', 'b', '6', x'00', x'00')`)
	id := f.send("a", "b")
	inTime(t, "the delivery", func(context.Context) { f.deliver() })
	want(t, "status of another's message", f.message(id).Status, orchestrator.Delivered)
	want(t, "status of the one to nobody", f.message("to nobody").Status, orchestrator.Retry)
	wantRows(t, f.rows(`SELECT recipient, message_id, payload FROM agent_inbox WHERE message_id <> ? ORDER BY payload`, id),
		"b to b 2", "a from b 3", "b blob 4", "b status 5", "b no status 6")
	want(t, "events of the one whose id was a BLOB", len(f.rows(`SELECT 1 FROM message_trace WHERE message_id = 'blob'`)), 2)
	want(t, "BLOBs left", len(f.rows(`SELECT 1 FROM agent_message WHERE message_id >= x'' OR sender >= x'' OR recipient >= x'' OR status >= x''`)), 0)
}

// TestRecipientsThatNobodyCanBe: what somebody wrote by hand for a name that no agent can have climbs the ladder and becomes a
// dead letter like what is for a name that nobody has, and why never says to add such an agent.
func TestRecipientsThatNobodyCanBe(t *testing.T) {
	t.Parallel()
	for recipient, traced := range map[string]string{"''": "pending", "x''": "", "' '": "", "x'ff'": "", "7": "", "'No Name'": "", "'system'": "", "char(0)": ""} {
		f := newFixture(t, "a", "b")
		f.sql(`INSERT INTO agent_message (message_id, sender, recipient, payload, status, traced_status, max_retries) VALUES
			('taken back', 'a', `+recipient+`, '1', 'pending', ?1, 1), ('given up', 'a', `+recipient+`, '1', 'pending', ?1, 1)`, traced)
		id := f.send("a", "b")
		cannot := func(id, does string) {
			t.Helper()
			if why := f.why(id); !strings.HasPrefix(why.Fix, "No agent can have that name: "+does) {
				t.Errorf("%s: %s: %s; do: %s", recipient, id, why.Rule, why.Fix)
			}
		}
		inTime(t, "the delivery", func(context.Context) { f.deliver() })
		want(t, "status of another's message", f.message(id).Status, orchestrator.Delivered)
		want(t, "status of the one to "+recipient, f.message("given up").Status, orchestrator.Retry)
		cannot("given up", "`mailroom cancel given up`")
		if _, err := messages.Cancel(t.Context(), f.Ledger, "taken back", ""); err != nil {
			t.Errorf("%s: %v", recipient, err)
		}
		f.clock.advance(30 * time.Second)
		f.deliver()
		failed := f.message("given up")
		want(t, "status of the one to "+recipient, failed.Status, orchestrator.Failed)
		want(t, "its error", failed.Error, fmt.Sprintf("nobody is known as %q", failed.Recipient))
		cannot("given up", "send it anew")
		if recipient != "'system'" { // which sends the report that answers it, and whose name is said to be reserved
			for _, receipt := range f.why("given up").Receipts {
				want(t, "receipt of the one to "+recipient, receipt.What, "created")
			}
			if _, err := messages.Replay(t.Context(), f.Ledger, "given up", ""); !strings.Contains(fmt.Sprint(err), "No agent can have that name") {
				t.Errorf("replaying the one to %s: %v", recipient, err)
			}
		}
		f.sql(`INSERT INTO agent_message (message_id, sender, recipient, payload, held) VALUES ('held', 'a', ` + recipient + `, '1', 1)`)
		f.deliver()
		cannot("held", "`mailroom cancel held`")
	}
}

// Rows that nobody can change keep nobody from adopting, reviewing and taking back those behind them, however many they are.
func TestStuckRowsAreWalkedPast(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b", "c")
	const past = "2026-01-01T00:00:00.000Z"
	for what, columns := range map[string]string{
		"hand":   `'', '', '', '9999-01-01T00:00:00.000Z'`,
		"review": `'pending', '` + past + `', '', '` + past + `'`,
		"lease":  `'pending', '', 'dead', '9999-01-01T00:00:00.000Z'`,
	} {
		f.sql(`INSERT INTO agent_message (message_id, sender, recipient, payload, status, traced_status, review_at, lease_token, expires_at)
			WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 600)
			SELECT '` + what + `-stuck-' || i, 'a', 'b', '1', 'pending', ` + columns + ` FROM n`)
		f.sql(`INSERT INTO agent_message (message_id, sender, recipient, payload, status, traced_status, review_at, lease_token, expires_at)
			VALUES ('` + what + `-good', 'a', 'c', '1', 'pending', ` + columns + `)`)
	}
	f.sql(`CREATE TRIGGER stuck BEFORE UPDATE ON agent_message WHEN old.message_id LIKE '%-stuck-%' BEGIN SELECT RAISE(ABORT, 'no'); END`)
	inTime(t, "the delivery", func(context.Context) { f.deliver() })
	want(t, "the one by hand", f.message("hand-good").Status, orchestrator.Delivered)
	want(t, "the one that is over", f.message("review-good").Status, orchestrator.Lapsed)
	want(t, "the one whose lease is over", f.message("lease-good").Status, orchestrator.Delivered)
}

// What hangs on messages, agents and questions that cannot be named keeps no walk going.
func TestOddRowsBesideMessages(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b")
	for table, insert := range map[string]string{
		"acknowledgement_due": `(message_id, due_at, within_seconds) SELECT CAST('m' || i AS BLOB), '', 1`,
		"heartbeats":          `(agent, heard_at, silent_at) SELECT CAST('n' || i AS BLOB), '', '0'`,
		"signal_questions":    `(question_id, asker, status, body, message_id, created_at, expires_at) SELECT CAST('q' || i AS BLOB), 'a', iif(i % 2, 'pending', 'answered'), '', 'm' || i, '', ''`,
	} {
		f.sql(`INSERT INTO ` + table + ` ` + insert + ` FROM (WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1100) SELECT i FROM n)`)
	}
	f.sql(`INSERT INTO acknowledgement_due (message_id, due_at, within_seconds) VALUES ('no number', '9999', ''), ('no time', '9999', 9e18), ('no text', x'ff', x'ff')`)
	id := f.send("a", "b")
	inTime(t, "the delivery", func(context.Context) { f.deliver() })
	want(t, "status", f.message(id).Status, orchestrator.Delivered)
	if list, err := questions.Unreturned(t.Context(), f.Ledger, ""); err != nil || len(list) != 0 {
		t.Errorf("%d answers are to be sent back, though nobody can name their questions (%v)", len(list), err)
	}
}

// Whoever stops a run stops it, whatever the run is doing.
func TestRunsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a")
	for i := range 50 {
		f.sql(`INSERT INTO agent_message (message_id, sender, recipient, payload, status, traced_status) VALUES (?1, 'a', ?1, '1', 'pending', 'pending')`, fmt.Sprint("n", i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.DeliverAll(ctx, delivery.Options{}); err == nil {
		t.Error("a run whose context has ended delivers")
	}
	want(t, "attempts", len(f.rows(`SELECT 1 FROM message_trace WHERE event = 'attempt_failed'`)), 0)
}

// The largest number that there can be, written by hand into seq, keeps nobody from sending; and one that an archived message has
// keeps nothing out of the archive.
func TestNumbersWrittenByHand(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b")
	archived := f.send("a", "b")
	f.deliver()
	f.clock.advance(time.Minute)
	f.clear(retention.ClearOptions{OlderThan: time.Second})
	for i, seq := range []string{"1", "-9223372036854775808", "9223372036854775807", "9223372036854775806"} {
		f.sql(`INSERT INTO agent_message (seq, message_id, sender, recipient, payload) VALUES (`+seq+`, ?, 'a', 'b', '1')`, fmt.Sprint("odd", i))
	}
	first, second := f.send("a", "b"), f.send("a", "b")
	f.sql(`UPDATE agent_message SET seq = 9223372036854775807 WHERE message_id = 'odd0'`)
	f.sql(`UPDATE agent_message SET seq = 1 WHERE message_id = 'odd1'`)
	third := f.send("a", "b")
	f.deliver()
	ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range ms {
		got = append(got, ms[i].ID)
	}
	wantRows(t, got, "odd1", archived, "odd3", "odd2", first, second, "odd0", third)
	wantRows(t, f.rows(`SELECT event FROM message_trace WHERE message_id = ? ORDER BY id`, third), "created", "delivered", "read")
	f.clock.advance(time.Minute)
	want(t, "cleared", f.clear(retention.ClearOptions{OlderThan: time.Second}).Deleted, 7)
	want(t, "in the archive", len(f.rows(`SELECT 1 FROM agent_message_archive`)), 8)
	wantRows(t, f.rows(`SELECT message_id FROM agent_message_archive WHERE seq = 1`), archived)
}

// So it is with the largest number in a trace, in which nearly all that is done leaves a row.
func TestNumbersOfTracesWrittenByHand(t *testing.T) {
	t.Parallel()
	for table, insert := range map[string]string{
		"message_trace": `(id, message_id, at, event) VALUES (?, 'odd', '', 'read')`,
		"command_trace": `(id, trace_id, span_id, name, kind, started_at) VALUES (?, '1', 'odd', 'send', 'PRODUCER', '')`,
	} {
		f := newFixture(t, "a", "b")
		f.sql(`INSERT INTO `+table+` `+insert, int64(math.MaxInt64))
		spanned, span := tracing.Start(t.Context(), "send")
		draft := orchestrator.Draft{Sender: "a", Recipient: "b", Payload: []byte("1")}
		first, err := messages.Send(spanned, f.Ledger, draft)
		if err != nil {
			t.Fatalf("%s: %v", table, err)
		}
		f.deliver()
		f.EndSpan(spanned, span, nil, func() bool { return false })
		f.sql(`UPDATE `+table+` SET id = ? WHERE id = (SELECT max(id) FROM `+table+`)`, int64(math.MaxInt64))
		if _, errs := messages.SendBatch(t.Context(), f.Ledger, []orchestrator.Draft{draft, draft}, false); errs[0] != nil || errs[1] != nil {
			t.Fatalf("%s: %v", table, errs)
		}
		f.sql(`UPDATE `+table+` SET id = ? WHERE id = (SELECT max(id) FROM `+table+`)`, int64(math.MaxInt64))
		f.deliver()
		want(t, "delivered", len(f.rows(`SELECT 1 FROM agent_message WHERE status = 'delivered'`)), 3)
		wantRows(t, f.rows(`SELECT event FROM message_trace WHERE message_id = ? ORDER BY id`, first.MessageID), "created", "delivered")
	}
}

// What somebody has written over the keys for pushes, or into a count, keeps nobody from being pushed to and asked how it stands.
func TestOddRowsOfKeysAndCounts(t *testing.T) {
	t.Parallel()
	f, devices := phoneFixture(t, 1)
	f.sql(`INSERT INTO signal_keys (name, public_key, private_key, created_at) VALUES ('vapid', '', 'x', '')`)
	f.sql(`INSERT INTO agent_message (message_id, sender, recipient, status, traced_status, held) VALUES
		('1', 'builder', 'reviewer', 'pending', 'pending', 9223372036854775807), ('2', 'builder', 'reviewer', 'pending', 'pending', 1)`)
	q := f.question(devices)
	sameLines(t, f.pushes(), "device:"+devices[0]+" question "+q.ID)
	s, err := overview.Status(t.Context(), f.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range s.Recipients {
		if b.Recipient == "reviewer" {
			want(t, "held", b.Held, 2)
		}
	}
}

// So it is when several are sent in one transaction, which SQLite undoes as a whole.
func TestNumbersRunOutInABatch(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b")
	f.sql(`INSERT INTO agent_message (seq, message_id, sender, recipient, payload) VALUES (9223372036854775806, 'odd', 'a', 'b', '1')`)
	draft := orchestrator.Draft{Sender: "a", Recipient: "b", Payload: []byte("1")}
	sent, errs := messages.SendBatch(t.Context(), f.Ledger, []orchestrator.Draft{draft, draft, draft}, false)
	for i, err := range errs {
		if err != nil || sent[i].MessageID == "" {
			t.Errorf("message %d: %v", i, err)
		}
	}
	want(t, "rows", len(f.rows(`SELECT 1 FROM agent_message WHERE seq < 100`)), 4)
}

// What hinders one message hinders no other: a NULL where its trace counts attempts, and times that are none and hide what is due.
func TestOddColumnsOfLiveRows(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b")
	f.addWired("w")
	const insert = `INSERT INTO agent_message (message_id, sender, recipient, payload, status, traced_status, next_attempt_at, retry_count, held, lease_token, lease_until) VALUES `
	f.sql(insert + `('null retries', 'a', 'w', '1', 'retry', 'retry', '', NULL, 0, '', '')`)
	f.sql(insert + `('null retries, leased', 'a', 'b', '1', 'retry', 'retry', '', NULL, 0, 'dead', '')`)
	f.sql(insert + `('least retries', 'a', 'w', '1', 'retry', 'retry', '', -9223372036854775808, 0, '', ''), ('most retries', 'a', 'w', '1', 'retry', 'retry', '', 9223372036854775807, 0, '', '')`)
	f.sql(insert + `('before all times', 'a', 'b', '1', 'pending', 'pending', '0', 0, 1, '', '')`)
	f.wire.set(failing("down"))
	id := f.send("a", "w")
	inTime(t, "the delivery", func(context.Context) { f.deliver() })
	want(t, "status of another's", f.message(id).Status, orchestrator.Retry)
	want(t, "status of the one with a lease", f.message("null retries, leased").Status, orchestrator.Delivered)
	want(t, "next run", f.nextDue(), f.stamp())
	f.sql(`INSERT INTO agents (name, disabled, created_at, updated_at) VALUES (NULL, 'gone', '', '')`)
	f.sql(`UPDATE agent_message SET next_attempt_at = '' WHERE message_id = 'before all times'`)
	if f.nextDue() == "" {
		t.Error("with an agent without a name nothing is planned")
	}
}

// An odd row among agents, groups, settings and tokens is passed over and named by the doctor; the others hold as they are.
func TestOddConfiguration(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b")
	f.addWired("w")
	if _, err := agents.SetGroup(t.Context(), f.Ledger, "both", []string{"a", "b"}); err != nil {
		t.Fatal(err)
	}
	secret, _, err := agents.IssueToken(t.Context(), f.Ledger, "a", false, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"x'ff'", "CAST('b' AS BLOB)", "NULL", "'user'", "'all'", "'system'", "'Upper'", `'"; DROP TABLE agents; --'`} {
		f.sql(`INSERT INTO agents (name, deliver, created_at, updated_at) VALUES (` + name + `, 'wire:odd', '', '')`)
		f.sql(`INSERT INTO groups (name, created_at) VALUES (` + name + `, '')`)
	}
	f.sql(`INSERT INTO groups (name, created_at) VALUES ('b', '')`)
	f.sql(`INSERT INTO group_members VALUES ('b', 'a', 1), ('both', '', 1), ('both', x'ff', 'later'), ('both', 'w', 9223372036854775807)`)
	f.sql(`INSERT INTO tokens (hash, agent, admin, created_at) VALUES ('short', 'a', '1x', ''), (x'ff', x'ff', 1, '')`)
	f.sql(`INSERT INTO settings (key, value, updated_at) VALUES ('retry.ladder', x'ff', ''), ('delivery.claim_size', '-1', ''), ('bounce', 'on', ''), (NULL, 'x', '')`)
	f.sql(`UPDATE agents SET concurrency = 9223372036854775807, timeout_seconds = 9223372036854775807, batch = -1, silent_after_seconds = 'never', deliver = ?
		WHERE name = 'w'`, "jsonl:"+f.path)
	f.setting("retry.max_retries", "2") // has everybody read it all anew

	names, err := agents.List(t.Context(), f.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "agents", len(names), 3)
	w := names[2]
	want(t, "numbers of w", fmt.Sprint(w.Concurrency, w.TimeoutSeconds, w.Batch, w.SilentAfter), "0 0 0 0")
	id, user := f.send("a", "b"), f.send("a", "user")
	lost := f.send("a", "w")
	sent, err := messages.Send(t.Context(), f.Ledger, orchestrator.Draft{Sender: "a", Recipient: "both", Payload: []byte("1")})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "members", fmt.Sprint(sent.Recipients), "[a b w]")
	inTime(t, "the delivery", func(context.Context) { f.deliver() })
	want(t, "status of the one to b, of which there is a group, too", f.message(id).Status, orchestrator.Delivered)
	want(t, "recipient of the one to the user", len(f.user.ids()), 1)
	want(t, "status of the one to the user", f.message(user).Status, orchestrator.Delivered)
	want(t, "status of the one into the database", f.message(lost).Status, orchestrator.Retry)
	setting, err := f.Setting(t.Context(), "retry.ladder")
	want(t, "the ladder in force", setting.Value, "30s,60s,120s")
	want(t, "the ladder that is stored", setting.Ignored, "\uFFFD")
	if _, authError := agents.Authenticate(t.Context(), f.Ledger, secret); err != nil || authError != nil {
		t.Error(err, authError)
	}
	tokens, err := agents.Tokens(t.Context(), f.Ledger, "")
	if err != nil || len(tokens) != 3 {
		t.Errorf("tokens: %v %v", tokens, err)
	}
	says := ""
	for _, found := range overview.Doctor(t.Context(), f.Ledger, false) {
		if found.Check == "configuration" {
			says += found.Says + "\n"
		}
	}
	for _, part := range []string{"the setting retry.ladder cannot be read", "the setting delivery.claim_size", `a row of agents has "\xff" for its name`, "more of the kind"} {
		if !strings.Contains(says, part) {
			t.Errorf("the doctor does not say %q:\n%s", part, says)
		}
	}
}
