package hosts

import (
	"context"
	"slices"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/process"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// verdict is what becomes of a message that was shown.
type verdict int

const (
	wait   verdict = iota // a later event decides
	isRead                // the model has it
	isLost                // the model will not see it: it is unread again
)

// judge decides about what was shown to the session before the event.
func (e *Event) judge(leases []messages.Lease, now time.Time) map[string]verdict {
	if len(leases) == 0 {
		return nil
	}
	if e.Settled {
		return e.judgeSettled(leases)
	}
	ids := make([]string, len(leases))
	for i := range leases {
		ids[i] = leases[i].ID
	}
	sights := e.sights(ids)
	verdicts := map[string]verdict{}
	for i := range leases {
		verdicts[leases[i].ID] = e.judgeOne(&leases[i], &sights, now)
	}
	return verdicts
}

// judgeSettled decides, where the process tells itself what its model has seen, about what it leaves when it ends, and before about
// what was shown by another process: that can tell nothing of it any more, but the transcript may.
func (e *Event) judgeSettled(leases []messages.Lease) map[string]verdict {
	verdicts := map[string]verdict{}
	var ids []string // shown by another process
	for i := range leases {
		id, own := leases[i].ID, leases[i].Reads(e.Process)
		switch {
		case own && e.Kind == Ended:
			verdicts[id] = isLost
		case !own && e.Kind != Ended:
			ids = append(ids, id)
		}
	}
	sights := e.sights(ids)
	for _, id := range ids {
		switch sights.Of[id] {
		case Answered:
			verdicts[id] = isRead
		case Present:
		default:
			verdicts[id] = isLost
		}
	}
	return verdicts
}

// sights is what the transcript tells, if there is one.
func (e *Event) sights(ids []string) Sights {
	if e.Transcript == nil {
		return Sights{}
	}
	return e.Transcript.Sights(ids)
}

// judgeOne decides about one message. Hosts write their transcripts late, so that one which lacks a message proves little. But
// while it lacks the message the model may not have been asked since: of two tools that were called at once one may run for long
// after the other.
func (e *Event) judgeOne(lease *messages.Lease, sights *Sights, now time.Time) verdict {
	shown := orchestrator.ParseStamp(lease.At)
	sight := sights.of(lease.ID, shown)
	if sight == Answered {
		return isRead
	}
	switch e.Kind {
	case Stopped:
		if sight == Absent && sights.Prompted.After(shown) {
			return isLost // the user has interrupted the turn in which it was shown, and another comes to its end
		}
		return isRead // the turn in which it was shown comes to its end, so the model has spoken
	case Worked:
		if late := sight == Unknown || sights.Written.IsZero(); late && sight != Present && now.Sub(shown) >= spoken {
			return isRead // a model that calls tools has spoken, and the transcript may be late
		}
	case Prompted:
		if sight == Absent && sights.Written.After(shown) && now.Sub(shown) > thrownAway {
			return isLost // the user has interrupted the model, and the host has thrown the hook's answer away
		}
	case Started:
		if sight == Absent && !(e.Process.PID > 0 && lease.Reads(e.Process)) {
			return isLost // where the same process goes on, as when it has compacted the session, the transcript is only late
		}
	case Ended:
		return isLost
	}
	return wait
}

// recognize does not show again what is unread and stands in the transcript of a session that goes on: the process in which it was
// shown has ended since or, where none proves that the session lives, nothing was heard of it for longer than its lease. It is read if
// the model has spoken after it; otherwise it counts as shown to the session. What was handed back on purpose is shown anew.
func recognize(ctx context.Context, l *ledger.Ledger, e *Event) error {
	for {
		if n, err := recognizeSome(ctx, l, e); n == 0 || err != nil {
			return err
		}
	}
}

// recognizeSome recognizes what there is of the first unread messages, and returns how many it has noted.
func recognizeSome(ctx context.Context, l *ledger.Ledger, e *Event) (n int, err error) {
	unread, _, err := reading.Wait(ctx, l, reading.Options{Recipient: e.Agent, Limit: maxShown, Peek: true})
	if err != nil || len(unread) == 0 {
		return 0, err
	}
	ids := make([]string, len(unread))
	for i := range unread {
		ids[i] = unread[i].ID
	}
	sights := e.sights(ids).Of
	unread = slices.DeleteFunc(unread, func(m orchestrator.Message) bool {
		return m.Seq == 0 || sights[m.ID] != Present && sights[m.ID] != Answered
	})
	if len(unread) == 0 {
		return 0, nil
	}
	err = l.Write(ctx, store.Of(e.Agent), func(t *ledger.Tx) error {
		n = 0
		for i := range unread {
			m := &unread[i]
			back, err := messages.HandedBack(t.Conn, m)
			if err == nil && !back {
				n++
				err = recognizeOne(t, e, m, sights[m.ID])
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return n, err
}

func recognizeOne(t *ledger.Tx, e *Event, m *orchestrator.Message, sight Sight) error {
	if sight == Answered {
		return messages.MarkRead(t, m, t.Now, tracing.Read, "it stands in the transcript of session "+e.Session+", answered")
	}
	lease := e.lease()
	lease.Writer = process.None()
	return messages.StandsIn(t, m, &lease)
}
