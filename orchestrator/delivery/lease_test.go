package delivery_test

import (
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
)

// TestLeaseWithoutAnOwner checks that a lease of any length that somebody wrote by hand delays a pair no longer than
// an attempt of this agent may take. Until then `why` and the doctor name the lease.
func TestLeaseWithoutAnOwner(t *testing.T) {
	t.Parallel()
	for name, lease := range map[string]string{
		"a short token":         `lease_token = 'x', lease_owner = 'me'`,
		"no owner":              `lease_token = '01ARZ3NDEKTSV4RRFFQ69G5FAV'`,
		"no owner, with a BLOB": `lease_token = x'00ff'`,
	} {
		for until, set := range map[string]string{
			"far ahead":       `, lease_until = '9999-12-31T23:59:59.999Z'`,
			"another form":    `, lease_until = 'tomorrow'`,
			"a BLOB":          `, lease_until = x'ff'`,
			"within the hour": `, lease_until = '2026-01-02T03:44:00.000Z'`,
			"ends soon":       `, lease_until = '2026-01-02T03:05:35.000Z'`,
		} {
			t.Run(name+", "+until, func(t *testing.T) {
				t.Parallel()
				f := enginetest.New(t, "a")
				if f.OnServer() && strings.Contains(name+until, "BLOB") {
					return // a server has none
				}
				target, minute := "wire:b", time.Minute
				f.Add(agents.Update{Name: "b", Deliver: &target, Timeout: &minute})
				held := f.Send("a", "b")
				f.SQL(`UPDATE agent_message SET ` + lease + set)
				behind := f.Send("a", "b")
				for _, id := range []string{held, behind} {
					const rule, fix = "; the next delivery run changes this time to 1m30s after the run",
						"Run `mailroom deliver_all` now, and run it again when the lease has ended. To end the lease now, run `"
					why := f.Why(id)
					if back := strings.Contains(why.Rule, rule); back != (until != "ends soon") ||
						strings.HasPrefix(why.Fix, fix) != back {
						t.Errorf("why before the run: %q; do: %q", why.Rule, why.Fix)
					}
				}
				f.Deliver()
				const end = "2026-01-02T03:05:35.000Z" // 60 s for an attempt, 30 s of grace
				want.Rows(t, f.Rows(`SELECT lease_until, traced_status FROM agent_message ORDER BY seq`),
					end+" pending", " pending")
				for id, rule := range map[string]string{held: "no process owns its lease, which ends at " + end,
					behind: "the message " + held + " is also from a to b, and no process owns its lease, which ends at " + end} {
					why := f.Why(id)
					if !strings.Contains(why.Rule, rule) ||
						!strings.Contains(why.Fix, "UPDATE agent_message SET lease_until") {
						t.Errorf("why: %q; do: %q", why.Rule, why.Fix)
					}
				}
				if says := finding(f, "leases without an owner"); says.Level != "problem" ||
					!strings.HasPrefix(says.Says, "1 lease without an owner (set with SQL)") {
					t.Errorf("the doctor: %+v", says)
				}
				_, err := messages.Cancel(t.Context(), f.Ledger, held, "")
				want.Code(t, err, orchestrator.Conflict)
				f.Clock.Advance(91 * time.Second)
				f.Deliver()
				want.Equal(t, "arrived", strings.Join(f.Wire.IDs(), " "), held+" "+behind)
				if says := finding(f, "leases without an owner"); says.Level != "ok" {
					t.Errorf("the doctor afterwards: %+v", says)
				}
				want.Rows(t, f.Rows(`SELECT error FROM message_trace WHERE event = 'released'`),
					"a lease without an owner expired")
			})
		}
	}
}

// TestWhyEndsALeaseWithoutAnOwner checks that the statement that why prints ends such a lease.
func TestWhyEndsALeaseWithoutAnOwner(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	id := f.Send("a", "b")
	f.SQL(`UPDATE agent_message SET lease_token = 'x', lease_until = '9999-12-31T23:59:59.999Z'`)
	_, end, _ := strings.Cut(f.Why(id).Fix, "To end the lease now, run ")
	f.SQL(enginetest.Statement(end))
	f.Deliver()
	want.Equal(t, "status", f.Message(id).Status, orchestrator.Delivered)
}

// TestLeaseOfARowToBeAdopted checks that a lease or a next attempt in a row that somebody wrote by hand is removed
// when the next run adopts the row, and that why does not mention it.
func TestLeaseOfARowToBeAdopted(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload, lease_token, lease_until, next_attempt_at)
		VALUES ('by hand', 'A', ' B', '1', 'x', '9999-12-31T23:59:59.999Z', '9999-12-31T23:59:59.999Z')`)
	id := f.Send("a", "b")
	for _, id := range []string{"by hand", id} {
		if why := f.Why(id); !strings.HasPrefix(why.Rule, "it is due now") || why.NextAttemptAt != "" {
			t.Errorf("why %s: %+v", id, why)
		}
	}
	f.Deliver()
	want.Equal(t, "status", f.Message("by hand").Status, orchestrator.Delivered)
	want.Equal(t, "status of the next", f.Message(id).Status, orchestrator.Delivered)
}

// TestLeaseOfAnEndedRow checks that a lease on a row that is not live is ignored: it delays nothing, does not appear
// in why and doctor, and causes no runs.
func TestLeaseOfAnEndedRow(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"inbox", "wire:b"} {
		f := enginetest.New(t, "a")
		f.Add(agents.Update{Name: "b", Deliver: &target})
		first := f.Send("a", "b")
		f.Deliver()
		f.SQL(`UPDATE agent_message SET lease_token = 'x', lease_owner = 'y', lease_until = '9999-12-31T23:59:59.999Z'`)
		second := f.Send("a", "b")
		if why := f.Why(second); !strings.HasPrefix(why.Rule, "it is due now") {
			t.Errorf("why: %+v", why)
		}
		if says := finding(f, "leases without an owner"); says.Level != "ok" {
			t.Errorf("the doctor: %+v", says)
		}
		f.Deliver()
		want.Equal(t, "status", f.Message(second).Status, orchestrator.Delivered)
		want.Equal(t, "lease", f.Message(first).LeaseOwner, "")
		_, err := messages.Cancel(t.Context(), f.Ledger, first, "")
		if want.Code(t, err, orchestrator.Conflict); !strings.Contains(err.Error(), "is delivered") {
			t.Error(err)
		}
		want.Equal(t, "next run", f.NextDue(), "")
		want.Rows(t, f.Rows(`SELECT lease_until FROM agent_message WHERE message_id = ?`, first),
			"9999-12-31T23:59:59.999Z")
	}
}

// TestLongLeaseOfARun checks that the lease of a run with longer attempts than usual is not shortened.
func TestLongLeaseOfARun(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.AddWired("b")
	id := f.Send("a", "b")
	const token, until = "5.1.1-01ARZ3NDEKTSV4RRFFQ69G5FAV", "2026-01-02T04:04:35.000Z" // an hour and the grace
	f.SQL(`UPDATE agent_message SET lease_token = ?, lease_owner = 'worker', lease_until = ? WHERE message_id = ?`,
		token, until, id)
	f.Deliver()
	want.Rows(t, f.Rows(`SELECT lease_until FROM agent_message`), until)
	want.Equal(t, "why", f.Why(id).Rule, "worker is delivering it; its lease ends at "+until)
	f.SQL(`UPDATE agent_message SET lease_until = '9999-12-31T23:59:59.999Z'`)
	want.Equal(t, "why", f.Why(id).Rule,
		"worker is delivering it; its lease ends at 9999-12-31T23:59:59.999Z; the next delivery run changes this time to 1h0m30s after the run")
	f.Deliver()
	want.Equal(t, "why", f.Why(id).Rule, "worker is delivering it; its lease ends at "+until)
	if says := finding(f, "leases without an owner"); says.Level != "ok" {
		t.Errorf("the doctor: %+v", says)
	}
}

// finding returns the doctor's finding with a code.
func finding(f *enginetest.Fixture, check string) overview.Finding {
	f.T.Helper()
	for _, finding := range overview.Doctor(f.T.Context(), f.Ledger, overview.DoctorOptions{}) {
		if finding.Code == check {
			return finding
		}
	}
	return overview.Finding{Level: "nothing"}
}

// TestNextAttemptByHand checks that a next_attempt_at that somebody wrote is limited to the longest wait, and that
// why reports that it was set with SQL.
func TestNextAttemptByHand(t *testing.T) {
	t.Parallel()
	for _, at := range []any{"9999-12-31T23:59:59.999Z", "tomorrow", []byte{0xff}} {
		f := enginetest.New(t, "a")
		f.AddWired("b")
		first := f.Send("a", "b")
		f.SQL(`UPDATE agent_message SET next_attempt_at = ?`, at)
		second := f.Send("a", "b")
		if rule := f.Why(first).Rule; !strings.HasSuffix(rule,
			" with SQL; the next delivery run changes this time to 2m after the run") {
			t.Errorf("why before the run: %s", rule)
		}
		f.Deliver()
		const end = "2026-01-02T03:06:05.000Z" // the longest wait of the retry schedule
		for id, rule := range map[string]string{
			first: "somebody set its next_attempt_at to " + end + " with SQL",
			second: "a sent " + first + " before it, and that message is deferred until " + end +
				"; Mailroom delivers the two messages in order",
		} {
			want.Equal(t, "why", f.Why(id).Rule, rule)
		}
		f.Clock.Advance(2 * time.Minute)
		f.Deliver()
		want.Equal(t, "arrived", strings.Join(f.Wire.IDs(), " "), first+" "+second)
	}
}

// TestOnlyTheDeadLoseTheirLeases checks that when one process is known to be dead, the leases of living ones
// continue.
func TestOnlyTheDeadLoseTheirLeases(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "a server takes a while to know who is dead")
	f := enginetest.New(t, "a")
	f.AddWired("b")
	f.AddWired("c")
	dead, living := f.Open(), f.Open()
	lost, kept := f.Send("a", "b"), f.Send("a", "c")
	for id, token := range map[string]string{lost: dead.Store.Token("one"), kept: living.Store.Token("two")} {
		f.SQL(`UPDATE agent_message SET lease_token = ?, lease_owner = 'another', lease_until = ? WHERE message_id = ?`,
			token, orchestrator.Stamp(f.Clock.Now().Add(5*time.Minute)), id)
	}
	f.Deliver()
	want.Equal(t, "arrived while both live", len(f.Wire.IDs()), 0)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	f.Clock.Advance(time.Second)
	f.Deliver()
	want.Equal(t, "arrived", strings.Join(f.Wire.IDs(), " "), lost)
}
