package ledger_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// TestLastingCommand checks that the row of a long-running command has no end until the command ends. Work that
// continues after the command does not change the row.
func TestLastingCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := enginetest.NewBubble(t)
		defer f.Close()
		for _, failure := range []error{nil, errors.New("it broke")} {
			ctx, span := tracing.Start(t.Context(), "long")
			change := func() {
				if err := f.Write(ctx, store.Shared,
					func(t *ledger.Tx) error { t.KeepSpan(); return nil }); err != nil {
					t.Fatal(err)
				}
			}
			row := func() string {
				return f.Rows(`SELECT ended_at, status FROM command_trace WHERE span_id = ?`, span.SpanID)[0]
			}
			change()
			want.Equal(t, "row at first", row(), orchestrator.Stamp(time.Now())+" OK")
			<-time.After(tracing.OpenAfter)
			synctest.Wait()
			want.Equal(t, "row after a while", row(), " UNSET")
			change()
			want.Equal(t, "row after another change", row(), " UNSET")
			status := " OK"
			if failure != nil {
				status = " ERROR"
			}
			f.EndSpan(context.WithoutCancel(ctx), span, failure, func() bool { return false })
			end := orchestrator.Stamp(time.Now()) + status
			want.Equal(t, "row at the end", row(), end)
			<-time.After(time.Minute)
			change()
			want.Equal(t, "row after the end", row(), end)
		}
	})
}
