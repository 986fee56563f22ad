package messages_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/push"
)

// TestDeadLetterGroups checks that errors that differ only in a time, an id or a process number form one group and
// select each other. Different exit statuses separate them.
func TestDeadLetterGroups(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "architect", "builder", "tester")
	dead := func(id, sender, recipient, status, reason string) {
		f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, status, traced_status, ended_at, error_message)
			VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)`,
			id, sender, recipient, status, status, "2025-10-26T10:00:0"+id[1:]+".000Z", reason)
	}
	dead("m1", "architect", "builder", "failed", "exit status 1: locked by process 4411")
	dead("m2", "tester", "builder", "failed", "exit status 1: locked by process 90210")
	dead("m3", "architect", "builder", "failed", "exit status 2: locked by process 4411")
	dead("m4", "architect", "gone", "expired", "not read before it expired at 2025-10-26T10:00:00.000Z")
	dead("m5", "builder", "gone", "expired", "not read before it expired at 2025-10-27T11:00:00.000Z")
	dead("m6", "architect", "gone", "failed", "")

	g, err := messages.GroupDeadLetters(t.Context(), f.Ledger, messages.DeadLetterFilter{Limit: 99})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, group := range g.Groups {
		got = append(got,
			fmt.Sprintf("%d %d %s %v %s %s %v", group.Messages, group.Expired, group.Recipient, group.Known,
				group.MessageID, group.Since[17:19], group.Senders))
	}
	want.Equal(t, "groups", fmt.Sprint(got),
		"[2 2 gone false m5 04 [builder architect] 2 0 builder true m2 01 [tester architect] 1 0 gone false m6 06 [architect] 1 0 builder true m3 03 [architect]]")
	want.Equal(t, "all of them", fmt.Sprint(g.Total, g.Counted, g.More), "6 6 false")
	if g, err = messages.GroupDeadLetters(t.Context(), f.Ledger, messages.DeadLetterFilter{Limit: 1}); err != nil ||
		len(g.Groups) != 1 || !g.More {
		t.Errorf("one group: %+v, %v", g, err)
	}
	one := messages.DeadLetterFilter{Recipient: "builder", Error: "exit status 1: locked by process 12345", Limit: 9}
	if g, err = messages.GroupDeadLetters(t.Context(), f.Ledger, one); err != nil || len(g.Groups) != 1 ||
		g.Total != 2 || g.Counted != 2 || g.Groups[0].MessageID != "m2" || g.More {
		t.Errorf("the group of an error: %+v, %v", g, err)
	}
	if g, err = messages.GroupDeadLetters(t.Context(), f.Ledger,
		messages.DeadLetterFilter{Recipient: "gone", Limit: 9}); err != nil || len(g.Groups) != 2 || g.Total != 3 {
		t.Errorf("the groups of a recipient: %+v, %v", g, err)
	}

	like := messages.DeadLetterFilter{Recipient: "builder", Error: "exit status 1: locked by process 12345", Limit: 1}
	list, err := messages.DeadLetters(t.Context(), f.Ledger, like)
	if err != nil || list.Total != 2 || len(list.DeadLetters) != 1 || list.DeadLetters[0].ID != "m2" || list.Cut {
		t.Errorf("with an error like it: %+v, %v", list, err)
	}
	like.Limit = 9
	replayed, skipped, err := messages.ReplayAll(t.Context(), f.Ledger, like)
	if err != nil || skipped != 0 || len(replayed) != 2 || replayed[0].ID != "m1" {
		t.Errorf("replayed %v, skipped %d, %v", replayed, skipped, err)
	}
	want.Equal(t, "status of another", fmt.Sprint(f.Rows(`SELECT status FROM agent_message WHERE message_id = 'm3'`)),
		"[failed]")
	replayed, _, err = messages.ReplayAll(t.Context(), f.Ledger,
		messages.DeadLetterFilter{Recipient: "builder", Error: "()", Limit: 9})
	if err != nil || len(replayed) != 0 {
		t.Errorf("by an error that has no word: replayed %v, %v", replayed, err)
	}
	long := strings.Repeat("é very long ", 400_000)
	dead("m7", "architect", "tester", "failed", long)
	if g, err = messages.GroupDeadLetters(t.Context(), f.Ledger, messages.DeadLetterFilter{Limit: 99}); err != nil ||
		slices.ContainsFunc(g.Groups, func(g messages.DeadLetterGroup) bool { return len(g.Error) > 8000 }) {
		t.Errorf("an error of megabytes is grouped with all of it: %v", err)
	}
	list, err = messages.DeadLetters(t.Context(), f.Ledger, messages.DeadLetterFilter{Error: long, Limit: 9})
	if err != nil || list.Total != 1 || list.DeadLetters[0].ID != "m7" {
		t.Errorf("with an error of megabytes: %d, %v", list.Total, err)
	}
	replayed, skipped, err = messages.ReplayAll(t.Context(), f.Ledger,
		messages.DeadLetterFilter{Error: "not read before it expired at 2025-10-26T10:00:00.000Z", Limit: 9})
	if err != nil || skipped != 2 || len(replayed) != 0 {
		t.Errorf("to nobody: replayed %v, skipped %d, %v", replayed, skipped, err)
	}
}

// TestOldDeadLetters checks that errors are compared for the newest 20,000 dead letters, and the answer reports
// whether there are more. A replay finds the others, too.
func TestOldDeadLetters(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "architect", "builder")
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, status, traced_status, error_message)
		WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 20001)
		SELECT 'm' || i, 'architect', 'builder', 'failed', 'failed', CASE i WHEN 0 THEN 'old' ELSE 'no route' END
			FROM n`)
	for reason, total := range map[string]int64{"old": 0, "no route": 20_000} {
		filter := messages.DeadLetterFilter{Error: reason, Limit: 30_000}
		g, err := messages.GroupDeadLetters(t.Context(), f.Ledger, filter)
		if err != nil || g.Total != total || !g.Cut {
			t.Errorf("groups of %q: %d, cut %v, %v", reason, g.Total, g.Cut, err)
		}
		filter.Limit = 1
		list, err := messages.DeadLetters(t.Context(), f.Ledger, filter)
		if err != nil || list.Total != total || !list.Cut {
			t.Errorf("list of %q: %d, cut %v, %v", reason, list.Total, list.Cut, err)
		}
		if n, err := messages.CountForReplay(t.Context(), f.Ledger, filter); err != nil || n != 1 {
			t.Errorf("to be replayed of %q: %d, %v", reason, n, err)
		}
	}
}

// TestPushesAreNoDeadLetters checks that pushes to phones are listed as dead letters only if the device is named, so
// that nobody replays them or adds an agent with such a name.
func TestPushesAreNoDeadLetters(t *testing.T) {
	t.Parallel()
	f, devices := enginetest.NewPhones(t, 1)
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, status, traced_status, error_message) VALUES
		('p', 'system', ?1, 'failed', 'failed', 'no route'),
			('m', 'builder', 'reviewer', 'failed', 'failed', 'no route')`, push.DevicePrefix+devices[0])
	for recipient, id := range map[string]string{"": "m", push.DevicePrefix + devices[0]: "p"} {
		filter := messages.DeadLetterFilter{Recipient: recipient, Limit: 9}
		list, err := messages.DeadLetters(t.Context(), f.Ledger, filter)
		if err != nil || list.Total != 1 || list.DeadLetters[0].ID != id {
			t.Errorf("to %q: %+v, %v", recipient, list, err)
		}
		g, err := messages.GroupDeadLetters(t.Context(), f.Ledger, filter)
		if err != nil || g.Total != 1 || len(g.Groups) != 1 || g.Groups[0].MessageID != id {
			t.Errorf("groups to %q: %+v, %v", recipient, g, err)
		}
	}
	replayed, _, err := messages.ReplayAll(t.Context(), f.Ledger, messages.DeadLetterFilter{Limit: 9})
	if err != nil || len(replayed) != 1 || replayed[0].ID != "m" {
		t.Errorf("replayed %v, %v", replayed, err)
	}
}
