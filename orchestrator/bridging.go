package orchestrator

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"strings"

	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// TakenIn is a message that another program wrote as a file into the folder of its recipient.
type TakenIn struct {
	Draft  // ReplyTo may name a message that is not there; idempotency keys, groups and unknown names are not for files
	ID     string
	Path   string // of the file, for the trace
	Target string // transport and address of those whose files stand where this one does: dir:ROOT
	Mark   string // the note that this transport would have left with the message; see Attempt.Mark
	Done   bool   // whoever takes it in has dealt with it, too
	Fault  error  // why it is not to be taken in, unless it is there already: not all that goes out could come in
}

// Reception says where a message that was taken in is now.
type Reception struct {
	Known  bool // nothing was stored: the message was there before
	Placed bool // the file is the delivery, or stands where its recipient reads: it is the recipient's. Otherwise it has served its purpose

	Mark string // the note that the target left with a known message; "" is none
}

// TakeIn stores a message under the id that it came with, durably and once: an id that stands for the same message already
// changes nothing. A recipient whose transport is in.Target has it by the file, and it is delivered at once; to any other
// it is pending. Errors: invalid_params; unknown_sender and unknown_recipient; conflict when another message has the id, when
// the message was delivered as a file elsewhere and this is not the one that it came with, or for a loop; unavailable for the
// recipient's backlog limit; those of the database.
func (r *Router) TakeIn(ctx context.Context, in TakenIn) (got Reception, err error) {
	in.Sender, in.Recipient, in.Payload = foldName(in.Sender), foldName(in.Recipient), Compacted(in.Payload)
	known := false
	err = r.read(ctx, func(c *Conn) error { // most files of a folder were taken in long ago
		conf, err := r.config.load(c)
		if err != nil {
			return err
		}
		got, known, err = c.takenIn(conf, &in)
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
	err = r.write(ctx, func(t *tx) error {
		got, err = t.takeIn(in)
		return err
	})
	return got, err
}

// check refuses what cannot be a message.
func (in *TakenIn) check() (err error) {
	if in.Fault != nil {
		return in.Fault
	}
	if in.ID == "" || len(in.ID) > maxKey {
		return Errorf(InvalidParams, "id has %d bytes; it has 1 to %d", len(in.ID), maxKey)
	}
	in.Draft, err = in.Draft.check()
	return err
}

// takenIn looks for the message of a file.
func (c *Conn) takenIn(conf *config, in *TakenIn) (got Reception, known bool, err error) {
	m, known, err := c.messageWithID(in.ID)
	if err != nil || !known {
		return got, false, err
	}
	if !m.says(&in.Draft) {
		return got, true, Errorf(Conflict, "another message has the id %s: from %s to %s", Clip(in.ID), m.Sender, m.Recipient).
			WithHint("`mailroom trace %s` shows it; give this one an id of its own", Clip(in.ID))
	}
	agent := conf.agents[m.Recipient]
	reads := agent != nil && agent.Deliver == in.Target
	got = Reception{Known: true, Placed: reads || m.MarkOf(in.Target) != "", Mark: m.MarkOf(in.Target)}
	if !got.Placed && m.AcknowledgedAt == "" {
		err = c.checkCopy(&m, in)
	}
	return got, true, err
}

// checkCopy refuses a file whose message was delivered as a file below another root, unless it is the one that the message
// came with: that root may have been moved here, and then no other file is left for the recipient.
func (c *Conn) checkCopy(m *Message, in *TakenIn) error {
	scheme, _, _ := strings.Cut(in.Target, ":")
	for target := range m.marksOf() {
		if !strings.HasPrefix(target, scheme+":") {
			continue
		}
		from, _, err := c.text(`SELECT error FROM message_trace WHERE message_id = ? AND event = '`+string(tracing.Created)+`' ORDER BY id LIMIT 1`, m.ID)
		if err != nil || from == takenFrom(in.Path) {
			return err
		}
		return Errorf(Conflict, "it was delivered as a file already, through %s, and %s has not acknowledged it", Clip(target), m.Recipient).
			WithHint("Remove it if it is a copy; if the folder was moved here, `mailroom agent add %s --deliver %s`", m.Recipient, in.Target)
	}
	return nil
}

// takenFrom is what the trace says of where a message came from.
func takenFrom(path string) string { return "taken in from " + path }

// MovePlaced notes that the file of a message which was delivered through target stands elsewhere now: mark replaces the note
// was, and those of other targets of the same transport. It changes nothing when something else has happened meanwhile, or
// when the message is acknowledged. Errors: those of the database.
func (r *Router) MovePlaced(ctx context.Context, id, target, was, mark string) error {
	scheme, _, _ := strings.Cut(target, ":")
	return r.write(ctx, func(t *tx) error {
		m, found, err := t.messageWithID(id)
		if err != nil || !found || m.Status != Delivered || m.AcknowledgedAt != "" || m.MarkOf(target) != was {
			return err
		}
		marks := m.marksOf()
		maps.DeleteFunc(marks, func(other, _ string) bool { return strings.HasPrefix(other, scheme+":") })
		marks[target] = mark
		text, err := json.Marshal(marks)
		if err != nil {
			return err
		}
		_, err = t.Exec(`UPDATE `+m.table()+` SET delivery_marks = ? WHERE message_id = ?`, string(text), id)
		return err
	})
}

func (t *tx) takeIn(in TakenIn) (Reception, error) {
	conf, err := t.config()
	if err != nil {
		return Reception{}, err
	}
	got, known, err := t.takenIn(conf, &in)
	switch {
	case err != nil:
		return got, err
	case known && in.Done:
		done, err := t.dealtWith(in.ID)
		got.Placed = !done
		return got, err
	case known:
		return got, nil
	}
	if err := t.traceCreated(); err != nil { // so that the event of this row is one of its own, and has its text
		return got, err
	}
	if conf, err = t.acting(in.Sender, false); err != nil {
		return got, err
	}
	agent := conf.agents[in.Recipient]
	if agent == nil {
		return got, t.unknownAgent(UnknownRecipient, "", in.Recipient, conf)
	}
	got.Placed = agent.Deliver == in.Target && !in.Done
	if agent.Deliver != in.Target && !in.Done {
		if err := t.checkBacklog(conf, []string{in.Recipient}); err != nil {
			return got, err
		}
	}
	return got, t.storeTakenIn(conf, &in, got.Placed)
}

// storeTakenIn stores the row of a file, and all that is known of it at once.
func (t *tx) storeTakenIn(conf *config, in *TakenIn, placed bool) error {
	how := takenFrom(in.Path)
	row := insertion{draft: &in.Draft, id: in.ID, recipient: in.Recipient, status: Pending, failure: how, maxRetries: conf.settings.MaxRetries}
	if in.ReplyTo != "" {
		p, err := t.parentOf(conf, in.ReplyTo)
		switch {
		case CodeOf(err) == NotFound:
			in.ReplyTo = "" // Origin has it
		case err != nil:
			return err
		default:
			row.hops = p.Hops + 1
		}
	}
	row.expire(t, &conf.settings)
	if err := t.insert(&row); err != nil {
		return err
	}
	if err := t.saidPresence(&in.Draft); err != nil {
		return err
	}
	if err := t.heartbeat(in.Sender); err != nil {
		return err
	}
	t.ring.add([]string{in.Recipient})
	if placed {
		if err := t.addMark(&Message{seq: row.seq}, in.Target, in.Mark); err != nil {
			return err
		}
	}
	if placed || in.Done {
		if _, err := t.changeStatus(bySeq(row.seq), change{to: Delivered, event: tracing.Delivered, failure: how}); err != nil {
			return err
		}
	}
	if in.Done {
		_, err := t.dealtWith(in.ID)
		return err
	}
	return nil
}

// dealtWith acknowledges a message, if it is delivered.
func (t *tx) dealtWith(id string) (done bool, err error) {
	m, found, err := t.messageWithID(id)
	if err != nil || !found || m.Status != Delivered {
		return false, err
	}
	return true, t.acknowledge(&m)
}

// Placed is a message that was delivered into a folder, and of which nobody knows that its recipient has dealt with it.
type Placed struct {
	ID   string
	Mark string // that its transport left with it

	table string
	seq   int64
	marks string
}

// placedPage bounds the messages that EachPlaced hands over at once.
const placedPage = 500

// EachPlaced calls f with what was delivered to an agent through target (dir:ROOT) alone and is not acknowledged, in the
// order of sending, some hundreds at a time, archived messages last. f may take its time. It ends with f's first error.
func (r *Router) EachPlaced(ctx context.Context, agent, target string, f func(page []Placed) error) error {
	for _, table := range []string{"agent_message", "agent_message_archive"} {
		for after, more := int64(math.MinInt64), true; more; {
			if err := ctx.Err(); err != nil {
				return err
			}
			var page []Placed
			n := 0
			err := r.look(ctx, func(c *Conn) error {
				return c.query(placedQuery(table), func(row store.Row) error {
					p := Placed{table: table, seq: row.Int(0), ID: row.Text(1), marks: row.Text(2)}
					n, after = n+1, p.seq
					marks := (&Message{marks: p.marks}).marksOf()
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

// AcknowledgeRemoved notes that the recipient of these messages has taken them out of its folder, and how many that are.
// One that something else has happened to since EachPlaced found it is left alone.
func (r *Router) AcknowledgeRemoved(ctx context.Context, list []Placed) (acknowledged int, err error) {
	err = r.write(ctx, func(t *tx) error {
		acknowledged = 0
		for _, p := range list {
			columns := messageColumns
			if p.table == "agent_message_archive" {
				columns = archivedColumns
			}
			ms, err := t.messages(`SELECT `+columns+` FROM `+p.table+` WHERE `+placedUnacknowledged+` AND seq = ? AND delivery_marks = ?`, p.seq, p.marks)
			if err != nil {
				return err
			}
			for i := range ms {
				if err := t.acknowledgeBecause(&ms[i], "its file was removed"); err != nil {
					return err
				}
				acknowledged++
			}
		}
		return nil
	})
	return acknowledged, err
}

// BridgeProblem is something about a file or a folder that keeps `ralph watch` from doing its work with it.
type BridgeProblem struct {
	Path        string `json:"path"`
	Fingerprint string `json:"-"` // by which it is known that the file has not changed since
	Problem     string `json:"problem"`
	FoundAt     string `json:"found_at"`
}

// BridgeProblems lists the problems that are there, by path.
func (r *Router) BridgeProblems(ctx context.Context) (list []BridgeProblem, err error) {
	err = r.look(ctx, func(c *Conn) error {
		list = []BridgeProblem{}
		return c.query(`SELECT path, fingerprint, problem, found_at FROM bridge_problems ORDER BY path`, func(row store.Row) error {
			list = append(list, BridgeProblem{row.Text(0), row.Text(1), row.Text(2), row.Text(3)})
			return nil
		})
	})
	return list, err
}

// NoteBridgeProblem records a problem. It reports whether that is news: many processes may find the same one, and one of
// them says so.
func (r *Router) NoteBridgeProblem(ctx context.Context, p BridgeProblem) (news bool, err error) {
	err = r.write(ctx, func(t *tx) error {
		before, found, err := t.text(`SELECT fingerprint FROM bridge_problems WHERE path = ?`, p.Path)
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
			p.Path, p.Fingerprint, p.Problem, t.now)
		return err
	})
	return news, err
}

// ForgetBridgeProblems removes what is recorded of these paths.
func (r *Router) ForgetBridgeProblems(ctx context.Context, paths []string) error {
	return r.write(ctx, func(t *tx) error {
		for _, path := range paths {
			if _, err := t.Exec(`DELETE FROM bridge_problems WHERE path = ?`, path); err != nil {
				return err
			}
		}
		return nil
	})
}

// MarkOf returns the note that a transport left with a message which the router has returned; "" is none.
func (m *Message) MarkOf(target string) string { return m.marksOf()[target] }

// CanonicalTarget returns what an agent's transport would be called if it were added with this one now. Error:
// invalid_params.
func (r *Router) CanonicalTarget(target string) (string, error) {
	return r.checkDeliver("address", target, "")
}
