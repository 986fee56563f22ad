package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres/postgrestest"
	"mailroom/tracing"
)

// Rows that are inserted together keep the order of their statements, and may contain characters that an array must
// quote.
func TestInsertedTogether(t *testing.T) {
	t.Parallel()
	st := opened(t, postgrestest.Place(postgrestest.Start(t)))
	texts := []string{"", "plain", `a "quoted" \ word`, `\`, `"`, "{a,b}", "NULL", "two\nlines", "é ü 漢", "tab\t", "'"}
	var want []string
	err := write(st, store.Job(func(t *store.Transaction) error {
		want = nil
		for i := range 1000 {
			e := tracing.Event{MessageID: fmt.Sprint("m", i), At: "now", Name: tracing.Created,
				NewStatus: texts[i%len(texts)], Attempt: i, Error: texts[(i/3)%len(texts)]}
			if i%2 == 0 {
				e.OldStatus = e.Error
			}
			want = append(want,
				fmt.Sprintf("%s %d %v %v %s", e.MessageID, e.Attempt, e.OldStatus, e.NewStatus, e.Error))
			if err := tracing.Record(t, e); err != nil {
				return err
			}
		}
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	err = st.Look(t.Context(), func(c *store.Conn) error {
		return c.Query(`SELECT message_id, attempt, old_status, new_status, error FROM message_trace ORDER BY id`,
			func(row store.Row) error {
				have = append(have, fmt.Sprintf("%v %v %v %v %v", row[0], row[1], row[2], row[3], row[4]))
				return nil
			})
	})
	if err != nil || !slices.Equal(have, want) {
		t.Errorf("%v: %d rows, not %d; first %q, not %q", err, len(have), len(want), have[:min(3, len(have))], want[:3])
	}
}

// The failure of a statement that was put off is the failure of the request that ran it, and of no other request in
// the same transaction.
func TestLaterFailsItsRequestOnly(t *testing.T) {
	t.Parallel()
	st := opened(t, postgrestest.Place(postgrestest.Start(t)))
	if err := write(st, add("there")); err != nil {
		t.Fatal(err)
	}
	for _, scope := range []store.Scope{store.Alone, store.Shared} {
		var all sync.WaitGroup
		begun, goOn := make(chan struct{}), make(chan struct{})
		first := sync.OnceFunc(func() { close(begun); <-goOn })
		submit := func(work store.Work, failure *error) {
			all.Add(1)
			orchestrator.GoSafe("request", nil, func() {
				defer all.Done()
				*failure = st.Write(&store.Request{Ctx: context.Background(), Scope: scope, Work: work})
			})
		}
		failures := make([]error, 9)
		submit(store.Job(func(*store.Transaction) error { first(); return nil }), &failures[0])
		<-begun
		for i := 1; i < len(failures); i++ { // they queue up behind the first, and share the next transaction
			key := fmt.Sprintf("%v %d", scope.IsAlone(), i)
			if i == 5 {
				key = "there"
			}
			submit(add(key), &failures[i])
		}
		close(goOn)
		all.Wait()
		for i, err := range failures {
			if i == 5 && err == nil || i != 5 && err != nil {
				t.Errorf("alone %v, request %d: %v", scope.IsAlone(), i, err)
			}
			if key := fmt.Sprintf("%v %d", scope.IsAlone(), i); i > 0 && i != 5 && count(t, st, key) != 1 {
				t.Errorf("alone %v: the row of request %d is not there", scope.IsAlone(), i)
			}
		}
	}
	err := write(st, store.Job(func(t *store.Transaction) error {
		failure, err := t.Savepoint(func() error { return add("there")(t) })
		if err == nil && failure == nil {
			err = errors.New("it did not fail")
		}
		return errors.Join(err, add("beside")(t))
	}))
	if err != nil || count(t, st, "beside") != 1 {
		t.Errorf("beside a part that failed: %v", err)
	}
}
