package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// places starts more readers than a store should serve at a time, and then ends their context. Readers that still
// wait are refused as busy, and readers that are reading go on.
func places(s *scene) {
	const readers = 64
	st := s.made()
	ctx, cancel := context.WithCancel(s.Context())
	inside, goOn := make(chan error, readers), make(chan struct{})
	outcomes := make(chan error, readers)
	for range readers {
		orchestrator.GoSafe("storetest", nil, func() {
			outcomes <- st.Read(ctx, func(*store.Conn) error {
				inside <- nil
				<-goOn
				return nil
			})
		})
	}
	if err := await(inside); err != nil {
		s.Errorf("the first reader: %v", err)
	}
	cancel()
	read, late := 1, time.After(patience)
	for refused := 0; read+refused < readers; {
		select {
		case <-inside:
			read++
		case err := <-outcomes:
			refused++
			s.wantCode("a reader whose context ended", err, orchestrator.Busy)
		case <-late:
			s.Errorf("%d of %d readers have a place, %d were refused; the others still wait", read, readers, refused)
			refused = readers
		}
	}
	close(goOn)
	for range read {
		if err := await(outcomes); err != nil {
			s.Errorf("a reader that had a place: %v", err)
		}
	}
}

// oneState commits while a reader is reading, through the same store and from another process.
func oneState(s *scene) {
	st, other := s.made(), s.process("write")
	err := st.Read(s.Context(), func(c *store.Conn) error {
		before, err := c.Number(rowCount)
		if err != nil {
			return err
		}
		other.Say("theirs")
		other.Expect("wrote theirs <nil>")
		if err := write(st, adds("ours")); err != nil {
			return err
		}
		after, err := c.Number(rowCount)
		if err == nil && (before != 0 || after != 0) {
			err = fmt.Errorf("it sees %d rows and then %d", before, after)
		}
		return err
	})
	if err != nil {
		s.Errorf("a reader beside two commits: %v", err)
	}
	s.wantRows(st, "ours", "theirs")
}

// latest commits between two statements of one Look.
func latest(s *scene) {
	st := s.made()
	err := st.Look(s.Context(), func(c *store.Conn) error {
		before, err := c.Number(rowCount)
		if err != nil {
			return err
		}
		if err := write(st, adds("1")); err != nil {
			return err
		}
		after, err := c.Number(rowCount)
		if err == nil && (before != 0 || after != 1) {
			err = fmt.Errorf("its first statement sees %d rows and its second %d; want 0 and 1", before, after)
		}
		return err
	})
	if err != nil {
		s.Errorf("a look beside a commit: %v", err)
	}
}

// statements runs one statement of each kind with arguments of each type that occurs in rows of messages.
func statements(s *scene) {
	st := s.made()
	ttl, crashes := int64(1)<<40, 3
	insert := func(t *store.Transaction, id string, ttl *int64) (int64, error) {
		return t.InsertRow(`
			INSERT INTO agent_message (message_id, sender, recipient, summary, status, ttl_seconds, crashes)
			VALUES (?1, 'a', ?2, ?3, ?4, ?5, ?6)`, id, "b", nil, orchestrator.Cancelled, ttl, crashes)
	}
	var first, second, changed, unchanged int64
	err := write(st, &work{run: func(t *store.Transaction) (err error) {
		if first, err = insert(t, "m1", &ttl); err != nil {
			return err
		}
		if second, err = insert(t, "m2", nil); err != nil {
			return err
		}
		if changed, err = t.Exec(`UPDATE agent_message SET priority = ?1 WHERE recipient = ?2`, int64(-2),
			"b"); err != nil {
			return err
		}
		if unchanged, err = t.Exec(`UPDATE agent_message SET priority = 0 WHERE recipient = ?1`, "nobody"); err != nil {
			return err
		}
		return t.Script(`
			UPDATE agent_message SET crashes = crashes + 1 WHERE message_id = 'm1';
			UPDATE agent_message SET hops = 5 WHERE message_id = 'm1'`)
	}})
	if err != nil {
		s.Fatalf("writing: %v", err)
	}
	if second <= first || changed != 2 || unchanged != 0 {
		s.Errorf("rows %d and %d were inserted, %d and %d changed; want rising numbers, and 2 and 0", first, second,
			changed, unchanged)
	}
	if err := st.Read(s.Context(), func(c *store.Conn) error { return readBack(c, first, second) }); err != nil {
		s.Errorf("reading: %v", err)
	}
}

// readBack checks the two rows that statements wrote.
func readBack(c *store.Conn, first, second int64) error {
	var got []string
	err := c.Query(`
		SELECT message_id, seq, summary, status, ttl_seconds, crashes, hops, priority FROM agent_message
		WHERE recipient = ?1 ORDER BY seq`, func(row store.Row) error {
		n, err := c.Number(`SELECT count(*) FROM agent_message WHERE seq <= ?1`, row.Int(1))
		got = append(got,
			fmt.Sprintf("%d: %s %d %q %s %d %t %d %d %d", n, row.Text(0), row.Int(1), row.Text(2), row.Text(3),
				row.Int(4), row[4] == nil, row.Int(5), row.Int(6), row.Int(7)))
		return err
	}, "b")
	want := []string{
		fmt.Sprintf(`1: m1 %d "" cancelled %d false 4 5 -2`, first, int64(1)<<40),
		fmt.Sprintf(`2: m2 %d "" cancelled 0 true 3 0 -2`, second),
	}
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		return fmt.Errorf("the rows are %q, %v; want %q", got, err, want)
	}
	ids, err := c.Texts(`SELECT message_id FROM agent_message ORDER BY seq`)
	if err != nil || fmt.Sprint(ids) != "[m1 m2]" {
		return fmt.Errorf("the texts are %q, %v", ids, err)
	}
	if text, found, err := c.Text(`SELECT message_id FROM agent_message WHERE seq = ?1`, second); text != "m2" ||
		!found || err != nil {
		return fmt.Errorf("the text is %q, found %t, %v", text, found, err)
	}
	if text, found, err := c.Text(`SELECT message_id FROM agent_message WHERE seq = 0`); text != "" || found ||
		err != nil {
		return fmt.Errorf("the text of no row is %q, found %t, %v", text, found, err)
	}
	if n, err := c.Number(`SELECT seq FROM agent_message WHERE seq = 0`); n != 0 || err != nil {
		return fmt.Errorf("the number of no row is %d, %v", n, err)
	}
	err = c.Query(`SELECT seq FROM agent_message`, func(store.Row) error { return errOwn })
	if !errors.Is(err, errOwn) {
		return fmt.Errorf("a query whose caller fails returns %v", err)
	}
	return nil
}
