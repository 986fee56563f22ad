package orchestrator_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"testing"
	"time"

	"mailroom/orchestrator"
)

// inTime runs f. When that does not come back it ends the program, after naming the test and what everybody is doing: a loop that
// never ends looks at no context, and closing the database would wait for it.
func inTime(t *testing.T, what string, f func(ctx context.Context)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	done := make(chan struct{})
	orchestrator.GoSafe(what, slog.New(slog.DiscardHandler), func() {
		defer close(done)
		f(ctx)
	})
	select {
	case <-done:
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

// Whoever stops a run stops it, whatever the run is doing.
func TestRunsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a")
	for i := range 50 {
		f.sql(`INSERT INTO agent_message (message_id, sender, recipient, payload, status, traced_status) VALUES (?1, 'a', ?1, '1', 'pending', 'pending')`, fmt.Sprint("n", i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.DeliverAll(ctx, orchestrator.DeliverOptions{}); err == nil {
		t.Error("a run whose context has ended delivers")
	}
	want(t, "attempts", len(f.rows(`SELECT 1 FROM message_trace WHERE event = 'attempt_failed'`)), 0)
}
