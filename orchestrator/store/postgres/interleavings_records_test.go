package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/bridge/letters"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/push"
	"mailroom/orchestrator/questions"
	"mailroom/orchestrator/schedules"
)

func interleavingsOfRecords() []interleaving {
	return slices.Concat(decisions(), configurations(), letterings())
}

// second checks that a has succeeded and b was refused.
func second(s *scene, codes ...orchestrator.Code) {
	s.must(s.errA == nil && slices.Contains(codes, orchestrator.CodeOf(s.errB)), "a: %v, b: %v", s.errA, s.errB)
}

func decisions() []interleaving {
	return []interleaving{
		both(interleaving{
			name: "a question is answered twice", byLock: true,
			set: func(s *scene) {
				s.AddAll("builder")
				for i := range 2 {
					d, _ := s.Pair(fmt.Sprint("phone ", i))
					if _, err := questions.ActivateDevice(s.ctx, s.a.Ledger, d.ID, d.Recipient); err != nil {
						s.T.Fatal(err)
					}
					s.ids = append(s.ids, d.ID)
				}
				s.ids = append(s.ids, s.Question(s.ids).ID)
			},
			check: func(s *scene) { second(s, orchestrator.Conflict) },
		}, func(s *scene, e *delivery.Engine, n int) error {
			_, err := questions.Answer(s.ctx, e.Ledger, s.ids[2], s.ids[n], fmt.Sprint("sealed", n))
			return err
		}),
		both(interleaving{
			name: "a code pairs two devices", byLock: true,
			set: func(s *scene) {
				code, _, err := questions.StartPairing(s.ctx, s.a.Ledger)
				if err != nil {
					s.T.Fatal(err)
				}
				s.ids = []string{code}
			},
			check: func(s *scene) {
				second(s, orchestrator.PermissionDenied)
				s.count(1,
					`SELECT 1 FROM signal_devices`)
			},
		}, func(s *scene, e *delivery.Engine, n int) error {
			_, _, err := questions.Pair(s.ctx, e.Ledger,
				questions.PairRequest{Code: s.ids[0], Name: "phone", Recipient: fmt.Sprint("age1", n)})
			return err
		}),
		both(interleaving{
			name: "two make the key of pushes", byLock: true, at: `INSERT INTO signal_keys`,
			set: func(s *scene) {
				s.AddAll("builder")
				for i := range 2 {
					d, _ := s.Pair(fmt.Sprint("phone ", i))
					if _, err := questions.ActivateDevice(s.ctx, s.a.Ledger, d.ID, d.Recipient); err != nil {
						s.T.Fatal(err)
					}
					if err := questions.Subscribe(s.ctx, s.a.Ledger, d.ID,
						enginetest.Subscription(fmt.Sprint("https://updates.push.services.mozilla.com/",
							i))); err != nil {
						s.T.Fatal(err)
					}
					s.ids = append(s.ids, d.ID)
				}
				s.Question(s.ids)
				s.byHand(`DELETE FROM signal_keys`)
				s.Wire.Set(func(_ context.Context, a orchestrator.Attempt) []error {
					var secret push.Secret
					err := json.Unmarshal([]byte(a.Secret), &secret)
					s.mu.Lock()
					defer s.mu.Unlock()
					s.got[0] = append(s.got[0], secret.VAPIDPublic)
					return []error{err}
				})
			},
			check: func(s *scene) {
				s.fine()
				slices.Sort(s.got[0])
				keys := s.rows(`SELECT public_key FROM signal_keys`)
				s.must(len(s.got[0]) == 2 && slices.Equal(slices.Compact(s.got[0]), keys), "used %v, has %v", s.got[0],
					keys)
			},
		}, func(s *scene, e *delivery.Engine, _ int) error { return s.deliver(e, delivery.Options{}) }),
		both(interleaving{
			name: "a team's request is decided twice", byLock: true,
			set: func(s *scene) {
				s.AddAll("lead", "dev")
				if _, err := agents.SetGroup(s.ctx, s.a.Ledger, enginetest.Session,
					[]string{"lead", "dev"}); err != nil {
					s.T.Fatal(err)
				}
				s.ids = []string{s.MustAsk(orchestrator.Shutdown, "lead", "dev").RequestID}
			},
			check: func(s *scene) {
				s.must(s.errA == nil && s.errB != nil, "a: %v, b: %v", s.errA, s.errB)
				s.count(1, `SELECT 1 FROM agent_message WHERE recipient = 'lead'`)
			},
		}, func(s *scene, e *delivery.Engine, n int) error {
			_, err := s.Reply(e, orchestrator.Shutdown, s.ids[0], n == 0, "dev", "lead")
			return err
		}),
		both(interleaving{
			name: "a scheduled run is claimed twice",
			set: func(s *scene) {
				if _, err := schedules.Add(s.ctx, s.a.Ledger,
					orchestrator.Schedule{Name: "often", Spec: "@every 1m", Command: "deliver_all"}); err != nil {
					s.T.Fatal(err)
				}
			},
			check: func(s *scene) {
				s.fine()
				s.must(slices.Equal(s.got[0], []string{"true"}) && slices.Equal(s.got[1], []string{"false"}), "%v",
					s.got)
			},
		}, func(s *scene, e *delivery.Engine, n int) error {
			mine, err := schedules.ClaimRun(s.ctx, e.Ledger, "often", s.Clock.Now())
			s.got[n] = append(s.got[n], fmt.Sprint(mine))
			return err
		}),
	}
}

func configurations() []interleaving {
	return []interleaving{
		both(interleaving{
			name: "two add members to a group", byLock: true,
			set: func(s *scene) {
				three(s)
				if _, err := agents.SetGroup(s.ctx, s.a.Ledger, "crew", []string{"x"}); err != nil {
					s.T.Fatal(err)
				}
			},
			check: func(s *scene) {
				s.fine()
				members, err := agents.MembersOf(s.ctx, s.b.Ledger, "crew")
				s.must(err == nil && slices.Equal(members, []string{"x", "y", "z"}), "%v, %v", members, err)
				s.count(3, `SELECT DISTINCT position FROM group_members`)
			},
		}, func(s *scene, e *delivery.Engine, n int) error {
			_, err := agents.AddToGroup(s.ctx, e.Ledger, "crew", []string{[]string{"y", "z"}[n]})
			return err
		}),
		both(interleaving{
			name: "two say in one name what they do", set: three,
			check: func(s *scene) {
				s.fine()
				s.count(1, `SELECT 1 FROM presence WHERE agent = 'x' AND status = 'idle'`)
				s.count(2, `SELECT 1 FROM agent_message`)
			},
		}, func(s *scene, e *delivery.Engine, n int) error {
			return s.send(e,
				orchestrator.Draft{Sender: "x", Recipient: "y",
					Presence: []orchestrator.PresenceStatus{orchestrator.Working, orchestrator.Idle}[n]})
		}),
		{
			name: "an agent stops while it is heard of elsewhere",
			set: func(s *scene) {
				three(s)
				silent := time.Minute
				s.Add(agents.Update{Name: "x", SilentAfter: &silent})
				if err := s.send(s.a,
					orchestrator.Draft{Sender: "x", Recipient: "y", Presence: orchestrator.Working}); err != nil {
					s.T.Fatal(err)
				}
			},
			// a has read that x is working.
			at: `silent_at = excluded.silent_at, told_at = ''`,
			a: func(s *scene) error {
				agents.Heartbeat(s.ctx, s.a.Ledger, "x", true)
				return nil
			},
			b: func(s *scene) error {
				return s.send(s.b, orchestrator.Draft{Sender: "x", Recipient: "y", Presence: orchestrator.Stopped})
			},
			check: func(s *scene) {
				s.fine()
				s.count(1, `SELECT 1 FROM heartbeats WHERE agent = 'x'
				AND silent_at = ''`)
			},
		},
	}
}

func letterings() []interleaving {
	const target = "dir:/letters"
	in := func(s *scene) letters.TakenIn {
		return letters.TakenIn{
			Draft: orchestrator.Draft{Sender: "x", Recipient: "y", Type: "note", Payload: []byte(`{"n":1}`)},
			ID:    "letter", Path: "/letters/letter", Target: target, Mark: "first",
		}
	}
	return []interleaving{
		both(interleaving{
			name: "a letter is taken in twice", byLock: true, set: three,
			check: func(s *scene) {
				s.fine()
				s.must(strings.Join(s.got[0], "")+" "+strings.Join(s.got[1], "") == "false true", "%v", s.got)
			},
		}, func(s *scene, e *delivery.Engine, n int) error {
			got, err := letters.TakeIn(s.ctx, e.Ledger, in(s))
			s.got[n] = append(s.got[n], fmt.Sprint(got.Known))
			return err
		}),
		both(interleaving{
			name: "a letter is moved twice", byLock: true,
			set: func(s *scene) {
				three(s)
				if _, err := letters.TakeIn(s.ctx, s.a.Ledger, in(s)); err != nil {
					s.T.Fatal(err)
				}
				s.byHand(`UPDATE agent_message SET status = 'delivered', traced_status = 'delivered',
					ended_at = created_at, delivery_marks = '{"` + target + `":"first"}'`)
				s.byHand(`INSERT INTO message_trace (message_id, at, event, old_status, new_status)
					VALUES ('letter', '', 'delivered', 'pending', 'delivered')`)
			},
			check: func(s *scene) {
				s.fine()
				s.count(1, `SELECT delivery_marks FROM agent_message WHERE delivery_marks = '{"`+target+`":"to 0"}'`)
			},
		}, func(s *scene, e *delivery.Engine, n int) error {
			return letters.MovePlaced(s.ctx, e.Ledger, "letter", target, "first", fmt.Sprint("to ", n))
		}),
	}
}
