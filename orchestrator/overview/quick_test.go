package overview_test

import (
	"slices"
	"testing"

	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/overview"
)

// A quick examination of a large database skips the checks that read every row, and reports that. For a small
// database it skips nothing.
func TestQuickDoctor(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "how large tables are is known of a file at once")
	f := enginetest.New(t, "a")
	f.Send("a", "a")
	has := func(list overview.Findings, check string) bool {
		return slices.ContainsFunc(list, func(found overview.Finding) bool { return found.Code == check })
	}
	for _, large := range []bool{false, true} {
		if large {
			f.SQL(`INSERT INTO bridge_problems (path, fingerprint, problem, found_at)
				VALUES ('large', '', hex(zeroblob(35000000)), '')`)
		}
		quick, all := overview.Doctor(t.Context(), f.Ledger, overview.DoctorOptions{Quick: true}),
			overview.Doctor(t.Context(), f.Ledger, overview.DoctorOptions{})
		for _, check := range []string{"integrity", "trace"} {
			if has(quick, check) == large || !has(all, check) {
				t.Errorf("large %t, %s: quickly %v; in full %v", large, check, has(quick, check), has(all, check))
			}
		}
		if has(quick, "every row") != large || has(all, "every row") || !has(quick, "journal") ||
			!has(quick, "overdue") {
			t.Errorf("large %t: quickly %v", large, quick)
		}
	}
	f.SQL(`DELETE FROM message_trace`)
	if n := slices.IndexFunc(overview.Doctor(t.Context(), f.Ledger, overview.DoctorOptions{}),
		func(found overview.Finding) bool {
			return found.Code == "trace" && found.Level == "problem"
		}); n < 0 {
		t.Error("a message without a trace is not found")
	}
}
