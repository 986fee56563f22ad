package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/transport"
)

// warned is a log that calls a function with each warning.
type warned func()

func (w warned) Enabled(_ context.Context, level slog.Level) bool { return level == slog.LevelWarn }
func (w warned) Handle(context.Context, slog.Record) error        { w(); return nil }
func (w warned) WithAttrs([]slog.Attr) slog.Handler               { return w }
func (w warned) WithGroup(string) slog.Handler                    { return w }

// TestResultOutlastsALock checks that the result of an attempt is stored even if another program keeps the database
// locked almost until the lease ends.
func TestResultOutlastsALock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := enginetest.NewBubble(t)
		defer f.Close()
		f.AddAll("a")
		f.AddWired("b")
		first, next := f.Send("a", "b"), f.Send("a", "b")
		var unlock func()
		hurried := enginetest.OpenWith(t, ledger.Options{
			Path: f.Path, Bell: f.Bell, BusyTimeout: time.Millisecond,
			Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}, "wire": f.Wire},
			Log: slog.New(warned(sync.OnceFunc(func() {
				<-time.After(5 * time.Minute) // on the clock of the bubble
				unlock()
			}))),
		})
		f.Wire.Set(func(context.Context, orchestrator.Attempt) []error {
			f.Wire.Set(nil)
			unlock = enginetest.Jam(t, f.Path)
			return []error{nil}
		})
		if _, err := hurried.DeliverAll(t.Context(), delivery.Options{}); err != nil {
			t.Fatal(err)
		}
		want.Rows(t, f.Wire.IDs(), first, next)
		want.Rows(t, f.Rows(`SELECT event FROM message_trace WHERE message_id = ? ORDER BY id`, first),
			"created", "claimed", "delivered")
	})
}

// TestResultIsStoredWhileTheNextIsLocked checks that another program that locks the row of the next message delays
// only that message.
func TestResultIsStoredWhileTheNextIsLocked(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	if !f.OnServer() {
		t.Skip("a file has no locks on rows")
	}
	f.AddWired("b")
	hurried := enginetest.OpenWith(t, ledger.Options{
		Path: f.Path, Now: f.Clock.Now, Bell: store.NewLocalBell(), BusyTimeout: time.Second / 2,
		Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}, "wire": f.Wire},
	})
	first, next := f.Send("a", "b"), f.Send("a", "b")
	unlock := enginetest.Harm(t, f.Path,
		`BEGIN; SELECT 1 FROM agent_message WHERE message_id = '`+next+`' FOR UPDATE`, `ROLLBACK`)
	d, err := hurried.DeliverAll(t.Context(), delivery.Options{})
	want.Code(t, err, orchestrator.Busy)
	want.Equal(t, "delivered", d.Delivered, 1)
	want.Equal(t, "status", f.Message(first).Status, orchestrator.Delivered)
	unlock()
	f.Deliver()
	want.Rows(t, f.Wire.IDs(), first, next)
}

// TestFaultyRowIsNotClaimed checks that a row that cannot be leased neither delays nor repeats another message.
func TestFaultyRowIsNotClaimed(t *testing.T) {
	t.Parallel()
	for _, batch := range []int{1, 3} {
		t.Run(fmt.Sprint("attempts with ", batch), func(t *testing.T) {
			t.Parallel()
			f := enginetest.New(t, "a")
			f.AddWired("b")
			f.Wire.Batch = batch
			first, faulty, next, last := f.Send("a", "b"), f.Send("a", "b"), f.Send("a", "b"), f.Send("a", "b")
			allow := f.Forbid("UPDATE", "agent_message", `NEW.message_id = '`+faulty+`'`, "no")
			f.Deliver()
			want.Rows(t, f.Wire.IDs(), first, next, last)
			allow()
			f.Deliver()
			want.Rows(t, f.Wire.IDs(), first, next, last, faulty)
		})
	}
}

// TestFaultyRowIsNotSettled checks that a row whose delivery cannot be recorded does not affect the results of other
// messages, and is repeated only when its lease has ended.
func TestFaultyRowIsNotSettled(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.AddWired("b")
	f.Wire.Batch = 3
	first, faulty, next, last := f.Send("a", "b"), f.Send("a", "b"), f.Send("a", "b"), f.Send("a", "b")
	allow := f.Forbid("UPDATE", "agent_message", `NEW.message_id = '`+faulty+`' AND NEW.status = 'delivered'`, "no")
	want.Equal(t, "delivered", f.Deliver().Delivered, 2)
	f.Deliver()
	want.Rows(t, f.Wire.IDs(), first, faulty, next)
	allow()
	f.Clock.Advance(time.Hour)
	f.Deliver()
	want.Rows(t, f.Wire.IDs(), first, faulty, next, faulty, last)
}

// TestRejectedReport checks that a message fails, and delays no other, even if the database rejects the report to its
// sender.
func TestRejectedReport(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.AddWired("b")
	f.Set("retry.max_retries", "0")
	bad, good := f.Send("a", "b"), f.Send("a", "b")
	f.Forbid("INSERT", "agent_message", `NEW.message_type = 'error_report'`, "no reports")
	f.Wire.Set(func(_ context.Context, a orchestrator.Attempt) []error {
		if a.Messages[0].ID == bad {
			return []error{errors.New("down")}
		}
		return []error{nil}
	})
	want.Equal(t, "failed", f.Deliver().Failed, 1)
	want.Equal(t, "status", f.Message(bad).Status, orchestrator.Failed)
	want.Equal(t, "status of the next", f.Message(good).Status, orchestrator.Delivered)
}
