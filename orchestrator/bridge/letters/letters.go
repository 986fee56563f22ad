// Package letters connects messages with their files in inbox folders. It stores messages that programs wrote as
// files into the folder of an agent, and finds the delivered files that the agent has not handled yet. Package
// bridge finds the files in the folders.
package letters

import (
	"context"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// TakenIn is a message that a program wrote as a file into the folder of its recipient, and that is about to be
// stored.
type TakenIn struct {
	// ReplyTo may name a message that does not exist. Idempotency keys, groups and unknown names are refused.
	orchestrator.Draft
	ID     string
	Path   string // of the file, for the trace
	Target string // transport and root of the folder: dir:ROOT
	// Mark is the note that this transport would have stored with the message if it had written the file; see
	// Attempt.Mark.
	Mark string
	Done bool // store it as acknowledged
	// Fault is the reason why it must not be stored. It is ignored if the message is already stored, because not
	// every delivery could be imported.
	Fault error
}

// Reception describes what happened to an imported message and its file.
type Reception struct {
	Known  bool   // nothing was stored: the message already existed
	Placed bool   // the recipient reads this file, so it must stay; otherwise it is not needed any more
	Mark   string // the note that the target stored with a known message, or ""
}

// TakeIn stores a message under its own ID, durably and once. If the same message already exists, nothing changes.
// If the recipient's transport is in.Target, the recipient has the file, so the message is delivered at once;
// otherwise it is pending. Errors: invalid_params; unknown_sender; unknown_recipient; conflict if another message
// has the ID, if this message was delivered as a file elsewhere, or if its chain of answers is too long;
// unavailable if the recipient has too many undelivered messages; those of the database.
func TakeIn(ctx context.Context, l *ledger.Ledger, in TakenIn) (got Reception, err error) {
	in.Sender, in.Recipient, in.Payload = orchestrator.FoldName(in.Sender), orchestrator.FoldName(in.Recipient),
		orchestrator.Compacted(in.Payload)
	known := false
	// Most files of a folder were imported long ago.
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
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

// check returns an error for an invalid message.
func (in *TakenIn) check() (err error) {
	if in.Fault != nil {
		return in.Fault
	}
	if in.ID == "" || len(in.ID) > orchestrator.MaxKey {
		return orchestrator.Errorf(orchestrator.InvalidParams, "id has %d bytes; it has 1 to %d", len(in.ID),
			orchestrator.MaxKey)
	}
	in.Draft, err = ledger.Check(in.Draft)
	return err
}

// takenIn checks whether a file was already imported or is a delivery.
func takenIn(c *store.Conn, conf *ledger.Config, in *TakenIn) (got Reception, known bool, err error) {
	m, known, err := ledger.MessageWithID(c, in.ID)
	if err != nil || !known {
		return got, false, err
	}
	if !ledger.Says(&m, &in.Draft) {
		return got, true, orchestrator.Errorf(orchestrator.Conflict, "another message has the id %s: from %s to %s",
			orchestrator.Clip(in.ID), m.Sender, m.Recipient).
			WithHint("`mailroom trace %s` shows it; give this one an id of its own", orchestrator.Clip(in.ID))
	}
	agent, mark := conf.Agents[m.Recipient], MarkOf(&m, in.Target)
	got = Reception{Known: true, Placed: mark != "" || agent != nil && agent.Deliver == in.Target, Mark: mark}
	if !got.Placed && m.AcknowledgedAt == "" {
		err = checkCopy(c, &m, in)
	}
	return got, true, err
}

// checkCopy returns an error for a file whose message was delivered as a file below another root. It accepts the
// file from which the message was imported, because that root may have been moved here, and the recipient then has
// no other file.
func checkCopy(c *store.Conn, m *orchestrator.Message, in *TakenIn) error {
	scheme, _, _ := strings.Cut(in.Target, ":")
	for target := range delivery.MarksOf(m) {
		if !strings.HasPrefix(target, scheme+":") {
			continue
		}
		from, _, err := c.Text(`SELECT error FROM message_trace WHERE message_id = ? AND event = '`+
			string(tracing.Created)+`' ORDER BY id LIMIT 1`, m.ID)
		if err != nil || from == takenFrom(in.Path) {
			return err
		}
		return orchestrator.Errorf(orchestrator.Conflict,
			"it was delivered as a file already, through %s, and %s has not acknowledged it", orchestrator.Clip(target),
			m.Recipient).
			WithHint("Remove it if it is a copy; if the folder was moved here, `mailroom agent add %s --deliver %s`",
				m.Recipient, in.Target)
	}
	return nil
}

// takenFrom returns the trace's description of where a message came from.
func takenFrom(path string) string { return "taken in from " + path }

func takeIn(t *ledger.Tx, in TakenIn) (Reception, error) {
	conf := t.Config()
	got, known, err := takenIn(t.Conn, conf, &in)
	if known && in.Done && err == nil {
		var done bool
		done, err = dealtWith(t, in.ID)
		got.Placed = !done
	}
	if err != nil || known {
		return got, err
	}
	if err := t.TraceCreated(); err != nil { // so that this row's event is separate and has its own text
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
		if err := messages.CheckBacklog(t, conf, []string{in.Recipient}, ""); err != nil {
			return got, err
		}
	}
	return got, storeTakenIn(t, conf, &in, got.Placed)
}

// storeTakenIn stores a message that was imported from a file. placed reports that its recipient reads that file,
// so that the message is delivered.
func storeTakenIn(t *ledger.Tx, conf *ledger.Config, in *TakenIn, placed bool) error {
	how := takenFrom(in.Path)
	row := ledger.Insertion{Draft: &in.Draft, Id: in.ID, Recipient: in.Recipient, Status: orchestrator.Pending,
		Failure: how, MaxRetries: conf.Settings.MaxRetries}
	if in.ReplyTo != "" {
		p, err := messages.ParentOf(t, conf, in.ReplyTo)
		switch {
		case orchestrator.CodeOf(err) == orchestrator.NotFound:
			in.ReplyTo = "" // Origin contains it
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
	if err := agents.NotePresence(t, &in.Draft); err != nil {
		return err
	}
	t.Heartbeat(in.Sender)
	t.Wake(in.Recipient)
	if placed {
		if err := delivery.AddMark(t, &orchestrator.Message{Seq: row.Seq}, in.Target, in.Mark); err != nil {
			return err
		}
	}
	if placed || in.Done {
		if _, err := t.ChangeStatus(ledger.BySeq(row.Seq),
			ledger.Change{To: orchestrator.Delivered, Event: tracing.Delivered, Failure: how}); err != nil {
			return err
		}
	}
	if in.Done {
		_, err := dealtWith(t, in.ID)
		return err
	}
	return nil
}

// dealtWith acknowledges a message if it is delivered.
func dealtWith(t *ledger.Tx, id string) (done bool, err error) {
	m, found, err := ledger.MessageWithID(t.Conn, id)
	if err != nil || !found || m.Status != orchestrator.Delivered {
		return false, err
	}
	return true, messages.AcknowledgeIn(t, &m, "")
}

// Problem describes a file or a folder that `ralph watch` cannot process, and why.
type Problem struct {
	Path        string `json:"path"`
	Fingerprint string `json:"-"` // identifies the state of the file
	Problem     string `json:"problem"`
	FoundAt     string `json:"found_at"`
}

// Problems returns the recorded problems, sorted by path.
func Problems(ctx context.Context, l *ledger.Ledger) ([]Problem, error) {
	return ledger.ReadValue(ctx, l, func(c *store.Conn) ([]Problem, error) {
		return store.List(c,
			func(row store.Row) Problem { return Problem{row.Text(0), row.Text(1), row.Text(2), row.Text(3)} },
			`SELECT path, fingerprint, problem, found_at FROM bridge_problems ORDER BY path`)
	})
}

// NoteProblem records a problem and reports whether it is new. If several processes find the same problem, it is
// new for one of them, which reports it.
func NoteProblem(ctx context.Context, l *ledger.Ledger, p Problem) (news bool, err error) {
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		before, found, err := t.Text(`SELECT fingerprint FROM bridge_problems WHERE path = ?`, p.Path)
		if err != nil {
			return err
		}
		if news = !found || before != p.Fingerprint; !news {
			return t.Run(`UPDATE bridge_problems SET problem = ?1 WHERE path = ?2 AND problem <> ?1`, p.Problem, p.Path)
		}
		return t.Run(`
			INSERT INTO bridge_problems (path, fingerprint, problem, found_at) VALUES (?, ?, ?, ?)
			ON CONFLICT (path) DO UPDATE SET fingerprint = excluded.fingerprint, problem = excluded.problem,
				found_at = excluded.found_at`,
			p.Path, p.Fingerprint, p.Problem, t.Now)
	})
	return news, err
}

// ForgetProblems deletes the records of problems with these paths.
func ForgetProblems(ctx context.Context, l *ledger.Ledger, paths []string) error {
	return l.Write(ctx, store.Shared, func(t *ledger.Tx) error {
		for _, path := range paths {
			if err := t.Run(`DELETE FROM bridge_problems WHERE path = ?`, path); err != nil {
				return err
			}
		}
		return nil
	})
}
