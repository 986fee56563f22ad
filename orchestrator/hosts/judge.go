package hosts

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/process"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// verdict is the decision about a message that was shown.
type verdict int

const (
	wait   verdict = iota // a later event decides
	isRead                // the model has it
	isLost                // the model will not see it; it is unread again
)

// judge decides about the messages that were shown to the session before the event.
func (e *Event) judge(leases []lease, now time.Time) map[string]verdict {
	if len(leases) == 0 {
		return nil
	}
	if e.Settled {
		return e.judgeSettled(leases)
	}
	sights := e.sights()
	verdicts := map[string]verdict{}
	for i := range leases {
		verdicts[leases[i].ID] = e.judgeOne(&leases[i], sights, now)
	}
	return verdicts
}

// judgeSettled decides for a process that itself reports what its model has seen. It decides about the messages
// that the process leaves when it ends, and about messages that another process showed: that process can report
// nothing any more, but the transcript may contain the messages.
func (e *Event) judgeSettled(leases []lease) map[string]verdict {
	verdicts, sights := map[string]verdict{}, e.sights()
	for i := range leases {
		lease := &leases[i]
		own := lease.Reads(e.Process)
		switch sight := sights.Of[lease.mark]; {
		case own && e.Kind == Ended:
			verdicts[lease.ID] = isLost
		case own || e.Kind == Ended:
		case lease.again || sight != Answered && sight != Present:
			verdicts[lease.ID] = isLost
		case sight == Answered:
			verdicts[lease.ID] = isRead
		}
	}
	return verdicts
}

// sights returns the content of the transcript, if there is one. It reads the transcript once.
func (e *Event) sights() *Sights {
	if e.told == nil {
		e.told = &Sights{}
		if e.Transcript != nil {
			*e.told = e.Transcript.Sights()
		}
	}
	return e.told
}

// judgeOne decides about one message. Hosts write their transcripts late, so a transcript that lacks a message
// proves little. But as long as it lacks the message, the model may not have been called since: of two tools that
// were called at once, one may run long after the other.
func (e *Event) judgeOne(lease *lease, sights *Sights, now time.Time) verdict {
	shown := orchestrator.ParseStamp(lease.At)
	sight := sights.of(lease.mark, shown)
	if lease.again && sight != Absent {
		sight = Unknown
	}
	switch {
	case sight == Answered:
		return isRead
	case e.Process.PID > 0 && lease.OfAnother(e.Process):
		return wait // the session is open twice; the other process proves nothing about this one's model
	}
	switch e.Kind {
	case Stopped:
		if sight == Absent && sights.Prompted.After(shown) {
			return isLost // the user interrupted the turn in which it was shown, and another turn is ending
		}
		return isRead // the turn in which it was shown is ending, so the model has spoken
	case Worked:
		if late := sight == Unknown || sights.Written.IsZero(); late && sight != Present && now.Sub(shown) >= spoken {
			return isRead // a model that calls tools has spoken, and the transcript may be late
		}
	case Prompted:
		if sight == Absent && sights.Written.After(shown) && now.Sub(shown) > thrownAway {
			return isLost // the user interrupted the model, and the host discarded the hook's answer
		}
	case Started:
		if sight == Absent && !(e.Process.PID > 0 && lease.Reads(e.Process)) {
			return isLost // if the same process goes on, as after a compaction, the transcript is only late
		}
	case Ended:
		return isLost
	}
	return wait
}

// recognize settles unread messages that are already in the session's transcript, so that they are not shown twice.
// This happens if the process that was shown the messages has ended, or if their lease has expired. The messages
// are read if the model has spoken since, and count as shown otherwise. Messages that were handed back are shown
// again. Of the messages in the transcript, recognize checks the newest maxRecognized.
func recognize(ctx context.Context, l *ledger.Ledger, e *Event) error {
	if n, err := unread(ctx, l, e.Agent, ""); n == 0 || err != nil {
		return err
	}
	sights := e.sights().Of
	marks := slices.SortedFunc(maps.Keys(sights), func(a, b string) int { return cmp.Compare(seqOf(b), seqOf(a)) })
	marks = marks[:min(len(marks), maxRecognized)]
	if len(marks) == 0 {
		return nil
	}
	var found map[string]orchestrator.Message
	err := l.Read(ctx, func(c *store.Conn) (err error) {
		found, err = unreadWith(c, e.Agent, marks)
		return err
	})
	if err != nil || len(found) == 0 {
		return err
	}
	marks = slices.Sorted(maps.Keys(found))
	return l.Write(ctx, store.Of(e.Agent), func(t *ledger.Tx) error {
		found, err := unreadWith(t.Conn, e.Agent, marks) // another reader may have taken some meanwhile
		for mark, m := range found {
			if err == nil {
				err = recognizeOne(t, e, &m, sights[mark])
			}
		}
		return err
	})
}

// unreadWith returns an agent's unread messages with these marks that were not handed back, keyed by mark.
func unreadWith(c *store.Conn, agent string, marks []string) (map[string]orchestrator.Message, error) {
	found := map[string]orchestrator.Message{}
	key, err := readMarkKey(c)
	if key == "" || err != nil {
		return nil, err
	}
	for _, mark := range marks {
		ms, err := ledger.Messages(c, `SELECT `+ledger.MessageColumns+
			` FROM agent_message WHERE seq = ?1 AND recipient = ?2 AND status = 'delivered'
			AND EXISTS (SELECT 1 FROM agent_inbox i WHERE i.message_id = agent_message.message_id AND i.recipient = ?2
				AND i.read_at = '')`, seqOf(mark), agent)
		if err != nil {
			return nil, err
		}
		if len(ms) == 0 || markWith(key, &ms[0]) != mark {
			continue
		}
		back, err := messages.HandedBack(c, ms[0].ID)
		if err != nil {
			return nil, err
		}
		if !back {
			found[mark] = ms[0]
		}
	}
	return found, nil
}

// recognizeOne records the sight of an unread message in a transcript.
func recognizeOne(t *ledger.Tx, e *Event, m *orchestrator.Message, sight Sight) error {
	if sight == Answered {
		return messages.MarkRead(t, m, t.Now, tracing.Read, "the transcript of session "+e.Session+
			" contains the message and an answer to it")
	}
	lease := e.lease()
	lease.Writer = process.ID{}
	return messages.ShownElsewhere(t, m, &lease)
}
