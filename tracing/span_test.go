package tracing_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"mailroom/tracing"
)

// rows are the written rows of one span, each as its end and its status.
type rows []string

func (r *rows) Run(_ string, args ...any) error {
	*r = append(*r, args[6].(string)+" "+args[7].(string))
	return nil
}

func (r *rows) want(t *testing.T, rows ...string) {
	t.Helper()
	if len(*r) != len(rows) {
		t.Fatalf("written: %q; want %q", *r, rows)
	}
	for i := range rows {
		if (*r)[i] != rows[i] {
			t.Errorf("row %d is %q; want %q", i, (*r)[i], rows[i])
		}
	}
}

func at(seconds int) time.Time { return time.Date(2026, 1, 2, 3, 4, seconds, 0, time.UTC) }

func save(t *testing.T, s *tracing.Span, r *rows, end time.Time, failure string) {
	t.Helper()
	if err := s.Save(r, end, "actor", failure); err != nil {
		t.Fatal(err)
	}
}

// A command that ends soon writes its row once, and its background work changes neither its end nor its outcome.
func TestEndsSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r rows
		_, s := tracing.Start(t.Context(), "send")
		save(t, s, &r, at(1), "")
		s.MarkSaved(func(context.Context) { t.Error("it is taken for one that is still at work") })
		if s.End() {
			t.Error("its row must be written once more")
		}
		<-time.After(2 * tracing.OpenAfter)
		save(t, s, &r, at(9), "")
		r.want(t, "2026-01-02T03:04:01.000Z OK", "2026-01-02T03:04:01.000Z OK")
	})
}

// A command that is still running after a while has no end in its row until it ends.
func TestLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r rows
		_, s := tracing.Start(t.Context(), "deliver_all")
		save(t, s, &r, at(1), "")
		marked := 0
		mark := func(context.Context) {
			marked++
			if err := s.SaveOpen(&r, at(3), "actor"); err != nil {
				t.Error(err)
			}
		}
		s.MarkSaved(mark)
		<-time.After(tracing.OpenAfter)
		synctest.Wait()
		save(t, s, &r, at(4), "")
		s.MarkSaved(mark)
		<-time.After(2 * tracing.OpenAfter)
		if !s.End() || marked != 1 {
			t.Errorf("marked %d times", marked)
		}
		save(t, s, &r, at(5), "it broke")
		save(t, s, &r, at(9), "")
		r.want(t, "2026-01-02T03:04:01.000Z OK", " UNSET", " UNSET", "2026-01-02T03:04:05.000Z ERROR",
			"2026-01-02T03:04:05.000Z ERROR")
	})
}

// End cancels a write of the open row that is in progress, and waits for it.
func TestEndWaitsForTheMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r rows
		_, s := tracing.Start(t.Context(), "deliver_all")
		save(t, s, &r, at(1), "")
		ended := false
		s.MarkSaved(func(ctx context.Context) {
			<-ctx.Done()
			if err := s.SaveOpen(&r, at(3), "actor"); err != nil {
				t.Error(err)
			}
			ended = true
		})
		<-time.After(tracing.OpenAfter)
		synctest.Wait()
		if s.End() || !ended {
			t.Errorf("the mark has ended: %v", ended)
		}
		r.want(t, "2026-01-02T03:04:01.000Z OK")
	})
}
