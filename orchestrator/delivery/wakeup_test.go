package delivery_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/overview"
)

// TestWakeupsFollowThePlan checks that a retry causes a wake-up exactly when it is due. A retry whose attempt is in
// progress stays due for that time, and must not cause constant wake-ups.
func TestWakeupsFollowThePlan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ok, refuse, hang = 0, 1, 2
		todo := []int{refuse, hang, ok}
		var tried []time.Duration
		begin := time.Now()
		f := enginetest.NewBubble(t)
		defer f.Close()
		f.Wire.Set(func(ctx context.Context, a orchestrator.Attempt) []error {
			tried = append(tried, time.Since(begin).Round(time.Second))
			next := todo[0]
			todo = todo[1:]
			if next == ok {
				return []error{nil}
			}
			if next == hang {
				<-ctx.Done()
			}
			return []error{errors.New("no")}
		})
		f.AddWired("architect")
		f.AddWired("builder")
		wakeups, stop, err := delivery.Wakeups(t.Context(), f.Ledger)
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		f.Send("architect", "builder")
		woken := 0
		for len(todo) > 0 {
			<-wakeups
			woken++
			if _, err := f.DeliverAll(t.Context(), delivery.Options{Background: true}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		want := []time.Duration{0, 30 * time.Second, 390 * time.Second} // 300 s of the second attempt, 60 s wait
		if !slices.Equal(tried, want) {
			t.Errorf("attempts at %v; want %v", tried, want)
		}
		made, err := overview.AttemptsAfter(t.Context(), f.Ledger, 0)
		if err != nil {
			t.Fatal(err)
		}
		end := made.Last
		if made.Last = 0; made != (overview.Attempts{Delivered: 1, Failed: 2}) {
			t.Errorf("counted %+v", made)
		}
		for _, after := range []int64{-1, end, end + 1} {
			if again, err := overview.AttemptsAfter(t.Context(), f.Ledger, after); err != nil ||
				again != (overview.Attempts{Last: end}) {
				t.Errorf("counted after %d: %+v, %v", after, again, err)
			}
		}
		if woken > 400 {
			t.Errorf("woken up %d times in %s", woken, time.Since(begin))
		}
	})
}
