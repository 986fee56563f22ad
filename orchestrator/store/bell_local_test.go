package store

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// heard reports whether a ring is waiting in the channel.
func heard(rings <-chan bool) bool {
	select {
	case <-rings:
		return true
	default:
		return false
	}
}

func TestLocalBell(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bell := NewLocalBell()
		bell.Ring() // nobody listens
		ctx, cancel := context.WithCancelCause(t.Context())
		one, stopOne, err := bell.Listen(ctx, "")
		if err != nil {
			t.Fatal(err)
		}
		two, stopTwo, err := bell.Listen(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		if heard(one) || heard(two) {
			t.Error("heard a ring from before")
		}
		bell.Ring()
		bell.Ring()
		if !heard(one) || !heard(two) {
			t.Error("a listener heard nothing")
		}
		if heard(one) || heard(two) {
			t.Error("two rings were heard as two")
		}
		time.AfterFunc(time.Hour, func() { bell.Ring() })
		<-two

		gone := errors.New("gone")
		heard(one)
		cancel(gone)
		synctest.Wait()
		bell.Ring()
		if heard(one) || !heard(two) {
			t.Error("the context's end did not stop its listener, and that one alone")
		}
		stopOne()
		stopTwo()
		stopTwo()
		bell.Ring()
		if heard(two) {
			t.Error("stop did not stop")
		}
		if _, _, err := bell.Listen(ctx, ""); !errors.Is(err, gone) {
			t.Errorf("listening under an ended context: %v", err)
		}
	})
}
