package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/removal"
	"mailroom/orchestrator/retention"
	"mailroom/orchestrator/store"
)

func three(s *scene) { s.AddAll("x", "y", "z") }

// one creates agents and a message that is not delivered yet.
func one(s *scene) {
	three(s)
	s.ids = []string{s.Send("x", "y")}
}

func (s *scene) send(e *delivery.Engine, d orchestrator.Draft) error {
	d.Type, d.Payload = "note", []byte(`{"n":1}`)
	sent, err := messages.Send(s.ctx, e.Ledger, d)
	if e == s.a {
		s.got[0] = append(s.got[0], sent.MessageID)
	} else {
		s.got[1] = append(s.got[1], sent.MessageID)
	}
	return err
}

func (s *scene) batch(e *delivery.Engine, n int, change func(d *orchestrator.Draft)) error {
	drafts := make([]orchestrator.Draft, n)
	for i := range drafts {
		drafts[i] = orchestrator.Draft{Sender: "x", Recipient: "y", Type: "note", Payload: []byte(`{"n":1}`)}
		change(&drafts[i])
	}
	outs := messages.SendBatch(s.ctx, e.Ledger, drafts, true)
	return outs[0].Refused
}

func (s *scene) deliver(e *delivery.Engine, o delivery.Options) error {
	_, err := e.DeliverAll(s.ctx, o)
	return err
}

func (s *scene) take(e *delivery.Engine, i int, agent string) error {
	ms, _, err := reading.Wait(s.ctx, e.Ledger, reading.Options{Recipient: agent, Limit: 100})
	for _, m := range ms {
		s.got[i] = append(s.got[i], m.ID)
	}
	return err
}

// both runs the same operation with either engine.
func both(i interleaving, do func(s *scene, e *delivery.Engine, n int) error) interleaving {
	i.a = func(s *scene) error { return do(s, s.a, 0) }
	i.b = func(s *scene) error { return do(s, s.b, 1) }
	return i
}

// fine reports errors of either operation.
func (s *scene) fine() { s.must(s.errA == nil && s.errB == nil, "a: %v, b: %v", s.errA, s.errB) }

// status returns the status of the first message.
func (s *scene) status() string {
	return strings.Join(s.rows(`SELECT status FROM agent_message WHERE message_id = ?`, s.ids[0]), "")
}

func (s *scene) count(n int, query string, args ...any) {
	rows := s.rows(query, args...)
	s.must(len(rows) == n, "%d rows, not %d: %v", len(rows), n, rows)
}

// inOrder checks that the messages arrived in the inbox of y in the order of sending, each once.
func (s *scene) inOrder(ids []string) {
	got := s.rows(`SELECT message_id FROM agent_inbox WHERE recipient = 'y' ORDER BY rowid`)
	s.must(slices.Equal(got, ids), "in the inbox: %v, sent: %v", got, ids)
}

func interleavingsOfMessages() []interleaving {
	return slices.Concat(sendings(), deliveries(), readings(), endings())
}

func sendings() []interleaving {
	keyed := func(d *orchestrator.Draft) {
		d.Sender, d.Recipient, d.IdempotencyKey = "x", "y", "k"
	}
	numbered := func(d *orchestrator.Draft) {
		d.Sender, d.Recipient = "x", "y"
		d.MakeID = func(_ string, _ time.Time, n int) string { return fmt.Sprint("number-", n) }
	}
	with := func(change func(d *orchestrator.Draft)) func(s *scene, e *delivery.Engine, n int) error {
		return func(s *scene, e *delivery.Engine, _ int) error {
			var d orchestrator.Draft
			change(&d)
			return s.send(e, d)
		}
	}
	return []interleaving{
		{
			name: "a member is added while somebody sends to the group", byLock: true,
			set: func(s *scene) {
				three(s)
				if _, err := agents.SetGroup(s.ctx, s.a.Ledger, "crew", []string{"y"}); err != nil {
					s.T.Fatal(err)
				}
				if err := s.send(s.b, orchestrator.Draft{Sender: "x", Recipient: "crew"}); err != nil {
					// b has loaded the group.
					s.T.Fatal(err)
				}
			},
			a: func(s *scene) error {
				_, err := agents.AddToGroup(s.ctx, s.a.Ledger, "crew", []string{"z"})
				return err
			},
			b: func(s *scene) error { return s.send(s.b, orchestrator.Draft{Sender: "x", Recipient: "crew"}) },
			check: func(s *scene) {
				s.fine()
				s.count(1, `SELECT 1 FROM agent_message WHERE recipient = 'z'`)
			},
		},
		{
			name: "an agent is removed while somebody sends to it", byLock: true, set: three,
			a: func(s *scene) error { return s.send(s.a, orchestrator.Draft{Sender: "x", Recipient: "y"}) },
			b: func(s *scene) error {
				_, err := removal.Remove(s.ctx, s.b.Ledger, removal.Request{Name: "y", Force: true})
				return err
			},
			check: func(s *scene) {
				s.fine()
				s.count(0, `SELECT message_id FROM agent_message WHERE recipient = 'y'
					AND status IN ('pending','retry')`)
			},
		},
		both(interleaving{
			name: "two send, beside others", set: three,
			check: func(s *scene) { s.fine(); s.count(6, `SELECT 1 FROM agent_message`) },
		}, func(s *scene, e *delivery.Engine, _ int) error {
			return s.batch(e, 3, func(*orchestrator.Draft) {})
		}),
		both(interleaving{
			name: "two send answers, alone", byLock: true, set: one,
			check: func(s *scene) { s.fine() },
		}, func(s *scene, e *delivery.Engine, _ int) error {
			return s.batch(e, 3, func(d *orchestrator.Draft) { d.Sender, d.Recipient, d.ReplyTo = "y", "x", s.ids[0] })
		}),
		both(interleaving{
			name: "one idempotency key", set: three,
			check: func(s *scene) {
				s.fine()
				s.count(1, `SELECT 1 FROM agent_message`)
				s.must(slices.Equal(s.got[0], s.got[1]), "answers: %v", s.got)
			},
		}, with(keyed)),
		{
			// A batch runs with savepoints, because of another line, and has looked for the key.
			name: "one idempotency key, beside a line that is refused",
			set: func(s *scene) {
				three(s)
				s.Forbid("INSERT", "agent_message", `NEW.payload = 'null'`, "no")
			},
			at: `INSERT INTO idempotency`,
			a: func(s *scene) error {
				refused := orchestrator.Draft{Sender: "x", Recipient: "y", Type: "note", Payload: []byte(`null`)}
				good := orchestrator.Draft{Type: "note", Payload: []byte(`{"n":1}`)}
				keyed(&good)
				outs := messages.SendBatch(s.ctx, s.a.Ledger, []orchestrator.Draft{refused, good}, false)
				s.must(store.IsRefused(outs[0].Refused), "the line: %v", outs[0].Refused)
				s.got[0] = []string{outs[1].Sent.MessageID}
				return outs[1].Refused
			},
			b: func(s *scene) error { return with(keyed)(s, s.b, 1) },
			check: func(s *scene) {
				s.fine()
				s.count(1, `SELECT 1 FROM agent_message`)
				s.must(slices.Equal(s.got[0], s.got[1]), "answers: %v", s.got)
			},
		},
		both(interleaving{
			name: "ids by number", set: three,
			check: func(s *scene) {
				s.fine()
				s.count(2, `SELECT 1 FROM agent_message WHERE message_id IN ('number-1', 'number-2')`)
			},
		}, with(numbered)),
		{
			name: "rows are counted while others are sent", byLock: true, set: three,
			a: func(s *scene) error { return s.batch(s.a, 2, func(*orchestrator.Draft) {}) },
			b: func(s *scene) error {
				if err := s.batch(s.b, 20, func(*orchestrator.Draft) {}); err != nil {
					return err
				}
				return delivery.TidyAll(s.ctx, s.b.Ledger)
			},
			check: func(s *scene) { s.fine() },
		},
	}
}

func deliveries() []interleaving {
	wired := func(s *scene) {
		three(s)
		s.AddWired("w")
		s.ids = []string{s.Send("x", "w")}
	}
	return []interleaving{
		{
			name: "a message is cancelled while it is delivered", byLock: true, set: one,
			a: func(s *scene) error { return s.deliver(s.a, delivery.Options{}) },
			b: func(s *scene) error { _, err := messages.Cancel(s.ctx, s.b.Ledger, s.ids[0], ""); return err },
			check: func(s *scene) {
				s.must(s.status() == "delivered" && orchestrator.CodeOf(s.errB) == orchestrator.Conflict, "%s, %v",
					s.status(), s.errB)
			},
		},
		{
			name: "a message is delivered while it is cancelled", byLock: true, set: one,
			a:     func(s *scene) error { _, err := messages.Cancel(s.ctx, s.a.Ledger, s.ids[0], ""); return err },
			b:     func(s *scene) error { return s.deliver(s.b, delivery.Options{}) },
			check: func(s *scene) { s.fine(); s.must(s.status() == "cancelled", "%s", s.status()); s.inOrder(nil) },
		},
		{
			name: "two deliver to an inbox", byLock: true,
			set: func(s *scene) {
				three(s)
				for range 5 {
					s.ids = append(s.ids, s.Send("x", "y"))
				}
			},
			a:     func(s *scene) error { return s.deliver(s.a, delivery.Options{ClaimSize: 2}) },
			b:     func(s *scene) error { return s.deliver(s.b, delivery.Options{ClaimSize: 3}) },
			check: func(s *scene) { s.fine(); s.inOrder(s.ids) },
		},
		{
			name: "times say in which order two deliver to an inbox",
			// a has read its clock, and has not locked the recipient yet.
			set: one, at: `SELECT EXISTS (SELECT 1 FROM agent_message m`,
			a: func(s *scene) error { return s.deliver(s.a, delivery.Options{}) },
			b: func(s *scene) error {
				s.Clock.Advance(time.Second)
				if err := s.deliver(s.b, delivery.Options{}); err != nil {
					return err
				}
				return s.send(s.b, orchestrator.Draft{Sender: "x", Recipient: "y"})
			},
			check: func(s *scene) {
				s.fine()
				s.inOrder(append(s.ids, s.got[1][0]))
				s.count(0, `SELECT 1 FROM message_trace a JOIN message_trace b ON b.id > a.id AND b.at < a.at`)
			},
		},
		both(interleaving{
			name: "two deliver by a transport", byLock: true, set: wired,
			check: func(s *scene) {
				s.fine()
				s.must(slices.Equal(s.Wire.IDs(), s.ids), "arrived: %v", s.Wire.IDs())
			},
		}, func(s *scene, e *delivery.Engine, _ int) error { return s.deliver(e, delivery.Options{}) }),
		{
			name: "a lease runs out while its delivery settles", byLock: true, set: wired,
			at: `UPDATE agent_message SET status = ?3`,
			a:  func(s *scene) error { return s.deliver(s.a, delivery.Options{}) },
			b: func(s *scene) error {
				s.Clock.Advance(time.Hour)
				return s.deliver(s.b, delivery.Options{})
			},
			check: func(s *scene) {
				s.fine()
				s.must(s.status() == "delivered" && len(s.Wire.IDs()) == 1, "%s, arrived: %v", s.status(), s.Wire.IDs())
			},
		},
		{
			name: "what was written by hand comes before what its sender sent after it",
			set: func(s *scene) {
				three(s)
				s.ids = []string{s.Send("x", "y")}
			},
			at: `INSERT INTO temp.batch (seq)`,
			a:  func(s *scene) error { return s.deliver(s.a, delivery.Options{}) },
			b: func(s *scene) error {
				s.byHand(`INSERT INTO agent_message (message_id, sender, recipient, message_type, payload)
					VALUES ('hand', 'x', 'y', 'note', '1')`)
				return s.send(s.b, orchestrator.Draft{Sender: "x", Recipient: "y"})
			},
			check: func(s *scene) { s.fine(); s.inOrder(append(s.ids, "hand", s.got[1][0])) },
		},
	}
}

func readings() []interleaving {
	delivered := func(s *scene) { one(s); s.Deliver() }
	each := func(s *scene) {
		s.must(s.errA == nil, "a: %v", s.errA)
		got := slices.Concat(s.got[0], s.got[1])
		s.must(slices.Equal(got, s.ids), "%v, of %v", got, s.ids)
	}
	wait := func(s *scene, e *delivery.Engine, who, whom string, until <-chan struct{}) error {
		ctx, cancel := context.WithCancel(s.ctx)
		defer cancel()
		_, _, err := reading.Wait(ctx, e.Ledger,
			reading.Options{Recipient: who, For: []string{whom}, Limit: 1, Timeout: time.Hour, Waiting: func() {
				<-until
				cancel()
			}})
		return err
	}
	now := make(chan struct{})
	close(now)
	return []interleaving{
		// An inbox contains a message once.
		both(interleaving{name: "two are handed what is due", set: one, check: func(s *scene) { s.fine(); each(s) }},
			func(s *scene, e *delivery.Engine, n int) error { return s.take(e, n, "y") }),
		{
			name: "a message is cancelled while it is handed out", byLock: true, set: one,
			at: `INSERT INTO agent_inbox`,
			a:  func(s *scene) error { return s.take(s.a, 0, "y") },
			b:  func(s *scene) error { _, err := messages.Cancel(s.ctx, s.b.Ledger, s.ids[0], ""); return err },
			check: func(s *scene) {
				each(s)
				s.must(s.status() == "delivered" && orchestrator.CodeOf(s.errB) == orchestrator.Conflict, "%s, %v",
					s.status(), s.errB)
			},
		},
		{
			name: "a message is acknowledged while it is given back", byLock: true, set: delivered,
			at: `UPDATE agent_inbox SET read_at`,
			a: func(s *scene) error {
				ms, _, err := reading.Wait(s.ctx, s.b.Ledger, reading.Options{Recipient: "y", Limit: 1})
				return errors.Join(err, reading.Unread(s.ctx, s.a.Ledger, ms))
			},
			b: func(s *scene) error { _, err := messages.Acknowledge(s.ctx, s.b.Ledger, s.ids[0], "y"); return err },
			check: func(s *scene) {
				s.fine()
				s.count(1, `SELECT 1 FROM agent_message WHERE acknowledged_at <> '' AND read_at <> ''`)
			},
		},
		both(interleaving{name: "two take what is unread", byLock: true, set: delivered,
			check: func(s *scene) { s.fine(); each(s) }},
			func(s *scene, e *delivery.Engine, n int) error { return s.take(e, n, "y") }),
		{
			name: "two waits close a circle", byLock: true, set: three,
			a: func(s *scene) error { return wait(s, s.a, "x", "y", s.doneB) },
			b: func(s *scene) error { return wait(s, s.b, "y", "x", now) },
			check: func(s *scene) {
				s.must(orchestrator.CodeOf(s.errB) == orchestrator.Conflict, "b: %v", s.errB)
			},
		},
		{
			name: "a wait ends while another looks for circles",
			set: func(s *scene) {
				three(s)
				s.ids = []string{s.Send("z", "x")}
				err := s.b.Write(s.ctx, store.Alone, func(t *ledger.Tx) error {
					return t.Run(`INSERT INTO waits (id, waiter, waits_for, instance, since, until)
						VALUES ('w', 'x', 'y', ?1, ?2, ?3)`,
						s.b.Store.Token("b"), t.Now, orchestrator.Stamp(t.Clock.Add(time.Hour)))
				})
				if err != nil {
					s.T.Fatal(err)
				}
			},
			// a has read for whom x waits, but not yet what x has to read.
			at: `SELECT EXISTS (SELECT 1 FROM agent_inbox i`, skip: 1,
			a: func(s *scene) error { return wait(s, s.a, "y", "x", now) },
			b: func(s *scene) error {
				return errors.Join(s.take(s.b, 1, "x"),
					s.b.Write(s.ctx, store.Shared, func(t *ledger.Tx) error { return t.Run(`DELETE FROM waits`) }))
			},
			check: func(s *scene) { s.must(orchestrator.CodeOf(s.errA) != orchestrator.Conflict, "a: %v", s.errA) },
		},
	}
}

func endings() []interleaving {
	delivered := func(s *scene) { one(s); s.Deliver(); s.Take("y"); s.Clock.Advance(time.Hour) }
	clear := func(s *scene) error {
		_, err := retention.ClearOld(s.ctx, s.a.Ledger, retention.ClearOptions{OlderThan: time.Millisecond})
		return err
	}
	cancelled := func(s *scene) {
		one(s)
		if _, err := messages.Cancel(s.ctx, s.a.Ledger, s.ids[0], ""); err != nil {
			s.T.Fatal(err)
		}
		s.Clock.Advance(time.Hour)
	}
	setBack := func(s *scene) error {
		s.byHand(`UPDATE agent_message SET status = 'pending' WHERE message_id = '` + s.ids[0] + `'`)
		return nil
	}
	kept := func(s *scene, before string) { // and undoes setBack, which the trace does not contain
		s.count(1, `SELECT 1 FROM agent_message WHERE status = 'pending' AND message_id = ?`, s.ids[0])
		s.byHand(`UPDATE agent_message SET status = '` + before + `' WHERE message_id = '` + s.ids[0] + `'`)
	}
	tidies := func(s *scene, e *delivery.Engine, _ int) error { return delivery.TidyAll(s.ctx, e.Ledger) }
	event := `SELECT 1 FROM message_trace WHERE event = ?`
	return []interleaving{
		{
			name: "a message is acknowledged while it is archived", byLock: true, set: delivered, a: clear,
			b: func(s *scene) error { _, err := messages.Acknowledge(s.ctx, s.b.Ledger, s.ids[0], "y"); return err },
			check: func(s *scene) {
				s.fine()
				s.count(1, `SELECT 1 FROM agent_message_archive WHERE acknowledged_at <> ''`)
			},
		},
		{
			name: "a message is answered while it is archived", byLock: true, set: delivered, a: clear,
			b: func(s *scene) error {
				return s.send(s.b,
					orchestrator.Draft{Sender: "y", Recipient: "x", ReplyTo: s.ids[0], Acknowledges: true})
			},
			check: func(s *scene) {
				s.fine()
				s.count(1, `SELECT 1 FROM agent_message_archive WHERE acknowledged_at <> ''`)
			},
		},
		{
			name: "a dead letter is replayed while it is deleted", byLock: true, set: cancelled, a: clear,
			b: func(s *scene) error { _, err := messages.Replay(s.ctx, s.b.Ledger, s.ids[0], ""); return err },
			check: func(s *scene) {
				s.must(s.errA == nil && orchestrator.CodeOf(s.errB) == orchestrator.NotFound, "%v, %v", s.errA, s.errB)
			},
		},
		{
			name: "a dead letter is set to pending by hand while it is deleted", set: cancelled, a: clear,
			at:    `DELETE FROM agent_message WHERE`,
			b:     setBack,
			check: func(s *scene) { s.fine(); kept(s, "cancelled") },
		},
		{
			name: "a post is set to pending by hand when it is about to be archived", a: clear,
			set: func(s *scene) {
				three(s)
				th := s.Thread("x", "y")
				s.ids = []string{s.MustPost(th.ID, "x").MessageID}
				s.CloseThread(th.ID)
				s.Clock.Advance(time.Hour)
			},
			at:    `DELETE FROM temp.batch WHERE`,
			b:     setBack,
			check: func(s *scene) { s.fine(); kept(s, "delivered"); s.count(0, event, "deleted") },
		},
		both(interleaving{
			name: "two adopt a row", byLock: true,
			set: func(s *scene) {
				three(s)
				s.byHand(`INSERT INTO agent_message (message_id, sender, recipient, message_type, payload)
					VALUES ('hand', 'x', 'y', 'note', '1')`)
			},
			check: func(s *scene) { s.fine(); s.count(1, event, "adopted") },
		}, tidies),
		both(interleaving{
			name: "two expire a message", byLock: true,
			set: func(s *scene) {
				three(s)
				s.Send("x", "y", func(d *orchestrator.Draft) { d.TTL = time.Second })
				s.Clock.Advance(time.Minute)
			},
			check: func(s *scene) {
				s.fine()
				s.count(1, event, "expired")
				s.count(1, `SELECT 1 FROM agent_message WHERE message_type = 'error_report'`)
			},
		}, tidies),
		both(interleaving{
			name: "two end a lease", byLock: true,
			set: func(s *scene) {
				one(s)
				s.byHand(`UPDATE agent_message SET lease_token = 'short', lease_until = '2000-01-01T00:00:00.000Z'`)
			},
			check: func(s *scene) {
				s.fine()
				s.count(1, event, "released")
				s.count(1, `SELECT 1 FROM agent_message WHERE crashes = 1`)
			},
		}, tidies),
	}
}
