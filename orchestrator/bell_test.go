package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// heard says whether a ring is waiting on the channel.
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

// TestRingsReachWhomTheyName: a ring for one recipient reaches whoever listens for it or for everything, here and, as a
// datagram, in other processes; one that names too many reaches everybody.
func TestRingsReachWhomTheyName(t *testing.T) {
	t.Parallel()
	var l listeners
	coder, writer, all := l.add("coder"), l.add("writer"), l.add("")
	next := func(rings chan bool) string {
		select {
		case named := <-rings:
			if named {
				return "named"
			}
			return "rung"
		default:
			return ""
		}
	}
	var many []string
	for i := range maxRing / 8 {
		many = append(many, fmt.Sprintf("agent%04d", i))
	}
	for _, test := range []struct {
		recipients         []string
		coder, writer, all string
	}{
		{[]string{"coder"}, "named", "", "rung"},
		{[]string{"writer", "coder"}, "named", "named", "rung"},
		{[]string{"nobody"}, "", "", "rung"},
		{nil, "rung", "rung", "rung"},
		{many, "rung", "rung", "rung"},
	} {
		l.wake(recipientsOf(ringOf(test.recipients))...)
		if c, w, a := next(coder), next(writer), next(all); c != test.coder || w != test.writer || a != test.all {
			t.Errorf("a ring for %v: coder %q, writer %q, all %q", test.recipients, c, w, a)
		}
	}
	if l.remove("coder", coder) != 2 || l.remove("", all) != 1 || l.remove("writer", writer) != 0 {
		t.Error("the listeners are miscounted")
	}
}

// TestRingNamesFewOrAll: what a batch rings for is bounded.
func TestRingNamesFewOrAll(t *testing.T) {
	t.Parallel()
	var r Ring
	for i := range maxNames {
		r.add([]string{fmt.Sprint("agent", i), "agent0"})
	}
	if r.all || len(r.names) != maxNames {
		t.Errorf("%d names, everybody: %v", len(r.names), r.all)
	}
	if r.add([]string{"another"}); !r.all {
		t.Error("one name too many does not ring for everybody")
	}
}
