package messages

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// TakenIn is a message that another program wrote as a file into the folder of its recipient, about to be stored.
type TakenIn struct {
	orchestrator.Draft // ReplyTo may name a message that is not there; idempotency keys, groups and unknown names are not for files
	ID                 string
	Path               string // of the file, for the trace
	Target             string // transport and address of those whose files stand where this one does: dir:ROOT
	Mark               string // the note that this transport would have left with the message; see Attempt.Mark
	Done               bool   // whoever takes it in has dealt with it, too
	Fault              error  // why it is not to be taken in, unless it is there already: not all that goes out could come in
}

// Reception says what became of a message that was taken in, and of its file.
type Reception struct {
	Known  bool // nothing was stored: the message was there before
	Placed bool // the file is the delivery, or stands where its recipient reads: it is the recipient's. Otherwise it has served its purpose

	Mark string // the note that the target left with a known message; "" is none
}

// TakeIn stores a message under the id that it came with, durably and once: if the same message is there already, nothing
// changes. A recipient whose transport is in.Target has the message by the file, so it is delivered at once; for any other it
// is pending. Errors: invalid_params; unknown_sender; unknown_recipient; conflict if another message has the id, if this one
// was delivered as a file elsewhere, or for a chain of answers that is too long; unavailable when the recipient has too many
// undelivered messages; those of the database.
func TakeIn(ctx context.Context, l *ledger.Ledger, in TakenIn) (got Reception, err error) {
	in.Sender, in.Recipient, in.Payload = orchestrator.FoldName(in.Sender), orchestrator.FoldName(in.Recipient), orchestrator.Compacted(in.Payload)
	known := false
	err = l.Read(ctx, func(c *store.Conn) error { // most files of a folder were taken in long ago
		conf, err := l.Config.Load(c)
		if err != nil {
			return err
		}
		got, known, err = takenIn(c, conf, &in)
		return err
	})
	if err != nil || known && !in.Done {
		return got, err
	}
	if !known {
		if err := in.check(); err != nil {
			return got, err
		}
	}
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		got, err = takeIn(t, in)
		return err
	})
	return got, err
}

// check refuses what cannot be a message.
func (in *TakenIn) check() (err error) {
	if in.Fault != nil {
		return in.Fault
	}
	if in.ID == "" || len(in.ID) > orchestrator.MaxKey {
		return orchestrator.Errorf(orchestrator.InvalidParams, "id has %d bytes; it has 1 to %d", len(in.ID), orchestrator.MaxKey)
	}
	in.Draft, err = ledger.Check(in.Draft)
	return err
}

// takenIn looks for the message of a file.
func takenIn(c *store.Conn, conf *ledger.Config, in *TakenIn) (got Reception, known bool, err error) {
	m, known, err := ledger.MessageWithID(c, in.ID)
	if err != nil || !known {
		return got, false, err
	}
	if !ledger.Says(&m, &in.Draft) {
		return got, true, orchestrator.Errorf(orchestrator.Conflict, "another message has the id %s: from %s to %s", orchestrator.Clip(in.ID), m.Sender, m.Recipient).
			WithHint("`mailroom trace %s` shows it; give this one an id of its own", orchestrator.Clip(in.ID))
	}
	agent := conf.Agents[m.Recipient]
	reads := agent != nil && agent.Deliver == in.Target
	got = Reception{Known: true, Placed: reads || MarkOf(&m, in.Target) != "", Mark: MarkOf(&m, in.Target)}
	if !got.Placed && m.AcknowledgedAt == "" {
		err = checkCopy(c, &m, in)
	}
	return got, true, err
}

// checkCopy refuses a file whose message was delivered as a file below another root, unless it is the one that the message
// came with: that root may have been moved here, and then no other file is left for the recipient.
func checkCopy(c *store.Conn, m *orchestrator.Message, in *TakenIn) error {
	scheme, _, _ := strings.Cut(in.Target, ":")
	for target := range ledger.MarksOf(m) {
		if !strings.HasPrefix(target, scheme+":") {
			continue
		}
		from, _, err := c.Text(`SELECT error FROM message_trace WHERE message_id = ? AND event = '`+string(tracing.Created)+`' ORDER BY id LIMIT 1`, m.ID)
		if err != nil || from == takenFrom(in.Path) {
			return err
		}
		return orchestrator.Errorf(orchestrator.Conflict, "it was delivered as a file already, through %s, and %s has not acknowledged it", orchestrator.Clip(target), m.Recipient).
			WithHint("Remove it if it is a copy; if the folder was moved here, `mailroom agent add %s --deliver %s`", m.Recipient, in.Target)
	}
	return nil
}

// takenFrom is what the trace says of where a message came from.
func takenFrom(path string) string { return "taken in from " + path }

// MovePlaced notes that the file of a message which was delivered through target is elsewhere now: it replaces the note was by
// mark, also for other targets of the same transport. It changes nothing if the note is no longer was, or the message is
// acknowledged. Errors: those of the database.
func MovePlaced(ctx context.Context, l *ledger.Ledger, id, target, was, mark string) error {
	scheme, _, _ := strings.Cut(target, ":")
	return l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		m, found, err := ledger.MessageWithID(t.Conn, id)
		if err != nil || !found || m.Status != orchestrator.Delivered || m.AcknowledgedAt != "" || MarkOf(&m, target) != was {
			return err
		}
		marks := ledger.MarksOf(&m)
		maps.DeleteFunc(marks, func(other, _ string) bool { return strings.HasPrefix(other, scheme+":") })
		marks[target] = mark
		text, err := json.Marshal(marks)
		if err != nil {
			return err
		}
		_, err = t.Exec(`UPDATE `+ledger.Table(&m)+` SET delivery_marks = ? WHERE message_id = ?`, string(text), id)
		return err
	})
}

func takeIn(t *ledger.Tx, in TakenIn) (Reception, error) {
	conf, err := t.Config()
	if err != nil {
		return Reception{}, err
	}
	got, known, err := takenIn(t.Conn, conf, &in)
	switch {
	case err != nil:
		return got, err
	case known && in.Done:
		done, err := dealtWith(t, in.ID)
		got.Placed = !done
		return got, err
	case known:
		return got, nil
	}
	if err := t.TraceCreated(); err != nil { // so that the event of this row is one of its own, and has its text
		return got, err
	}
	if conf, err = agents.Acting(t, in.Sender); err != nil {
		return got, err
	}
	agent := conf.Agents[in.Recipient]
	if agent == nil {
		return got, agents.Unknown(t.Conn, orchestrator.UnknownRecipient, "", in.Recipient, conf)
	}
	got.Placed = agent.Deliver == in.Target && !in.Done
	if agent.Deliver != in.Target && !in.Done {
		if err := CheckBacklog(t, conf, []string{in.Recipient}); err != nil {
			return got, err
		}
	}
	return got, storeTakenIn(t, conf, &in, got.Placed)
}

// storeTakenIn stores the row of a file, and all that is known of it at once.
func storeTakenIn(t *ledger.Tx, conf *ledger.Config, in *TakenIn, placed bool) error {
	how := takenFrom(in.Path)
	row := ledger.Insertion{Draft: &in.Draft, Id: in.ID, Recipient: in.Recipient, Status: orchestrator.Pending, Failure: how, MaxRetries: conf.Settings.MaxRetries}
	if in.ReplyTo != "" {
		p, err := parentOf(t, conf, in.ReplyTo)
		switch {
		case orchestrator.CodeOf(err) == orchestrator.NotFound:
			in.ReplyTo = "" // Origin has it
		case err != nil:
			return err
		default:
			row.Hops = p.Hops + 1
		}
	}
	row.Expire(t, &conf.Settings)
	if err := t.Insert(&row); err != nil {
		return err
	}
	if err := agents.SaidPresence(t, &in.Draft); err != nil {
		return err
	}
	if err := t.Heartbeat(in.Sender); err != nil {
		return err
	}
	t.Ring.Add([]string{in.Recipient})
	if placed {
		if err := t.AddMark(&orchestrator.Message{Seq: row.Seq}, in.Target, in.Mark); err != nil {
			return err
		}
	}
	if placed || in.Done {
		if _, err := t.ChangeStatus(ledger.BySeq(row.Seq), ledger.Change{To: orchestrator.Delivered, Event: tracing.Delivered, Failure: how}); err != nil {
			return err
		}
	}
	if in.Done {
		_, err := dealtWith(t, in.ID)
		return err
	}
	return nil
}

// dealtWith acknowledges a message, if it is delivered.
func dealtWith(t *ledger.Tx, id string) (done bool, err error) {
	m, found, err := ledger.MessageWithID(t.Conn, id)
	if err != nil || !found || m.Status != orchestrator.Delivered {
		return false, err
	}
	return true, acknowledge(t, &m)
}

// Placed is a message that was delivered as a file into a folder, and that its recipient has not yet acknowledged.
type Placed struct {
	ID   string
	Mark string // that its transport left with it

	table string
	seq   int64
	marks string
}

// placedPage bounds the messages that EachPlaced hands over at once.
const placedPage = 500

// EachPlaced calls f with the messages that were delivered to an agent through target (such as dir:ROOT) and are not
// acknowledged, in the order in which they were sent, archived ones last. f gets them in pages of some hundreds, and may take
// its time: no transaction is open meanwhile. The first error of f ends it and is returned.
func EachPlaced(ctx context.Context, l *ledger.Ledger, agent, target string, f func(page []Placed) error) error {
	for _, table := range []string{"agent_message", "agent_message_archive"} {
		for after, more := int64(math.MinInt64), true; more; {
			if err := ctx.Err(); err != nil {
				return err
			}
			var page []Placed
			n := 0
			err := l.Look(ctx, func(c *store.Conn) error {
				return c.Query(placedQuery(table), func(row store.Row) error {
					p := Placed{table: table, seq: row.Int(0), ID: row.Text(1), marks: row.Text(2)}
					n, after = n+1, p.seq
					marks := ledger.MarksOf((&orchestrator.Message{Marks: p.marks}))
					if p.Mark = marks[target]; p.Mark != "" && len(marks) == 1 { // not if another transport may have taken it instead
						page = append(page, p)
					}
					return nil
				}, agent, after, placedPage)
			})
			if err != nil {
				return err
			}
			if more = n == placedPage; len(page) > 0 {
				if err := f(page); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func placedQuery(table string) string {
	return `SELECT seq, message_id, delivery_marks FROM ` + table + `
		WHERE ` + placedUnacknowledged + ` AND recipient = ? AND seq > ? ORDER BY seq LIMIT +?`
}

// AcknowledgeRemoved acknowledges messages whose files their recipient has removed from its folder, and returns how many. One
// to which something else has happened since EachPlaced found it is left alone.
func AcknowledgeRemoved(ctx context.Context, l *ledger.Ledger, list []Placed) (acknowledged int, err error) {
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		acknowledged = 0
		for _, p := range list {
			columns := ledger.MessageColumns
			if p.table == "agent_message_archive" {
				columns = ledger.ArchivedColumns
			}
			ms, err := ledger.Messages(t.Conn, `SELECT `+columns+` FROM `+p.table+` WHERE `+placedUnacknowledged+` AND seq = ? AND delivery_marks = ?`, p.seq, p.marks)
			if err != nil {
				return err
			}
			for i := range ms {
				if err := acknowledgeBecause(t, &ms[i], "its file was removed"); err != nil {
					return err
				}
				acknowledged++
			}
		}
		return nil
	})
	return acknowledged, err
}

// BridgeProblem is a file or a folder with which `ralph watch` cannot do its work, and why.
type BridgeProblem struct {
	Path        string `json:"path"`
	Fingerprint string `json:"-"` // by which it is known that the file has not changed since
	Problem     string `json:"problem"`
	FoundAt     string `json:"found_at"`
}

// BridgeProblems returns the problems that are recorded, sorted by path.
func BridgeProblems(ctx context.Context, l *ledger.Ledger) (list []BridgeProblem, err error) {
	err = l.Look(ctx, func(c *store.Conn) error {
		list = []BridgeProblem{}
		return c.Query(`SELECT path, fingerprint, problem, found_at FROM bridge_problems ORDER BY path`, func(row store.Row) error {
			list = append(list, BridgeProblem{row.Text(0), row.Text(1), row.Text(2), row.Text(3)})
			return nil
		})
	})
	return list, err
}

// NoteBridgeProblem records a problem, and reports whether it is new. Several processes may find the same one; the one for
// which it is new tells of it.
func NoteBridgeProblem(ctx context.Context, l *ledger.Ledger, p BridgeProblem) (news bool, err error) {
	err = l.Write(ctx, store.Shared, func(t *ledger.Tx) error {
		before, found, err := t.Text(`SELECT fingerprint FROM bridge_problems WHERE path = ?`, p.Path)
		if err != nil {
			return err
		}
		if news = !found || before != p.Fingerprint; !news {
			_, err = t.Exec(`UPDATE bridge_problems SET problem = ?1 WHERE path = ?2 AND problem <> ?1`, p.Problem, p.Path)
			return err
		}
		_, err = t.Exec(`
			INSERT INTO bridge_problems (path, fingerprint, problem, found_at) VALUES (?, ?, ?, ?)
			ON CONFLICT (path) DO UPDATE SET fingerprint = excluded.fingerprint, problem = excluded.problem, found_at = excluded.found_at`,
			p.Path, p.Fingerprint, p.Problem, t.Now)
		return err
	})
	return news, err
}

// ForgetBridgeProblems deletes the records of problems with these paths.
func ForgetBridgeProblems(ctx context.Context, l *ledger.Ledger, paths []string) error {
	return l.Write(ctx, store.Shared, func(t *ledger.Tx) error {
		for _, path := range paths {
			if _, err := t.Exec(`DELETE FROM bridge_problems WHERE path = ?`, path); err != nil {
				return err
			}
		}
		return nil
	})
}

// MarkOf returns the note that a transport left with a message (see orchestrator.Attempt.Mark) when it delivered it to target;
// "" if there is none.
func MarkOf(m *orchestrator.Message, target string) string { return ledger.MarksOf(m)[target] }

// CanonicalTarget returns a target (SCHEME or SCHEME:ADDRESS) in the form in which it would be stored with an agent. Error:
// invalid_params.
func CanonicalTarget(l *ledger.Ledger, target string) (string, error) {
	return agents.CheckDeliver(l, "address", target, "")
}
