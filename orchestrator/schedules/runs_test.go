package schedules_test

import (
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/schedules"
)

// TestLastRuns checks that the last run of a command is found among the newest rows of the trace, or else from the
// time that the schedule records.
func TestLastRuns(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	list := []orchestrator.Schedule{
		{Name: "often", Command: "deliver_all"},
		{Name: "nightly", Command: "backup",
			LastRunAt: f.Clock.Now().Add(-time.Hour).UTC().Format("2006-01-02T15:04:05.000Z")},
		{Name: "never", Command: "clear_old"},
	}
	row := func(name string, ago time.Duration, status, said string) {
		at := f.Clock.Now().Add(-ago).UTC().Format("2006-01-02T15:04:05.000Z")
		f.SQL(`INSERT INTO command_trace (trace_id, span_id, name, kind, started_at, ended_at, status, status_message)
			VALUES (?1, ?1, ?2, 'INTERNAL', ?3, ?3, ?4, ?5)`,
			name+at, name, at, status, said)
	}
	row("backup", 2*time.Hour, "OK", "")
	row("backup", time.Hour, "ERROR", "no such folder")
	f.SQL(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
		INSERT INTO command_trace (trace_id, span_id, name, kind, started_at, ended_at, status) SELECT 's' || i,
			's' || i, 'send', 'PRODUCER', '2099-10-26T10:00:00.000Z', '', 'OK' FROM n`)
	row("deliver_all", time.Minute, "OK", "")
	last, err := schedules.LastRuns(t.Context(), f.Ledger, list)
	if err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "runs", len(last), 2)
	if run := last["nightly"]; !run.Failed || run.Error != "no such folder" {
		t.Errorf("the nightly one: %+v", run)
	}
	if run := last["often"]; run.Failed || run.EndedAt == "" {
		t.Errorf("the frequent one: %+v", run)
	}
}

// TestAddedAgain checks that adding an identical schedule again keeps its times, so that a program that adds its
// schedules at each start of a machine does not delay rare runs.
func TestAddedAgain(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t)
	add := func(spec string) orchestrator.Schedule {
		t.Helper()
		if _, err := schedules.Add(t.Context(), f.Ledger,
			orchestrator.Schedule{Name: "rare", Spec: spec, Command: "backup", Params: []byte(`{}`)}); err != nil {
			t.Fatal(err)
		}
		s, err := schedules.Get(t.Context(), f.Ledger, "rare")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := add("@every 24h")
	f.Clock.Advance(time.Hour)
	if mine, err := schedules.ClaimRun(t.Context(), f.Ledger, "rare", f.Clock.Now()); !mine || err != nil {
		t.Fatal(mine, err)
	}
	f.Clock.Advance(time.Hour)
	if again := add("@every 24h"); again.CreatedAt != first.CreatedAt || again.LastRunAt == "" {
		t.Errorf("added again: %+v; it was made at %s", again, first.CreatedAt)
	}
	if other := add("@every 12h"); other.CreatedAt == first.CreatedAt || other.LastRunAt != "" {
		t.Errorf("changed: %+v", other)
	}
}

// TestGet checks that a database that is not trusted runs only the schedules of every new database.
func TestGet(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	s, err := schedules.Get(t.Context(), f.Ledger, "checkpoint")
	if err != nil || s.Command != "checkpoint" {
		t.Errorf("%+v, %v", s, err)
	}
	_, err = schedules.Get(t.Context(), f.Ledger, "chekpoint")
	want.Code(t, err, orchestrator.NotFound)
}
