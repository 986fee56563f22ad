package orchestrator

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// Alert is what an agent told the user.
type Alert struct {
	ID        string
	Sender    string
	Encrypted bool
	Body      string // as a question's
	Priority  int
	SessionID string
	MessageID string // of the message to User; "" when a command told it
	CreatedAt string
}

// AlertDraft is an alert about to be told.
type AlertDraft struct {
	ID        string // from NewSignalID
	Sender    string
	Register  bool // as a question's
	Encrypted bool
	Body      string // at most 64 KiB
	Priority  int
	SessionID string
	MessageID string
	Devices   []string // ids of those that can read it
}

// maxAlerts is how many alerts one agent can send within an hour.
const maxAlerts = 100

// alertLife is for how long an alert is worth a push.
const alertLife = 7 * day

const alertColumns = `alert_id, sender, encrypted, body, priority, session_id, message_id, created_at`

func scanAlert(row store.Row) Alert {
	return Alert{
		ID: row.Text(0), Sender: row.Text(1), Encrypted: row.Int(2) != 0, Body: row.Text(3), Priority: int(row.Int(4)),
		SessionID: row.Text(5), MessageID: row.Text(6), CreatedAt: row.Text(7),
	}
}

// AlertUser stores an alert and pushes it to the devices that can read it, in one transaction; it is on disk when AlertUser
// returns. pushed counts the devices. With a MessageID it is stored once: a repeat returns the first. Errors:
// invalid_params, unknown_sender, unavailable when the sender has sent too many within an hour.
func (r *Router) AlertUser(ctx context.Context, d AlertDraft) (a Alert, pushed int, err error) {
	if d.Sender, err = CheckName("sender", d.Sender); err != nil {
		return a, 0, err
	}
	if len(d.Body) > maxSignal {
		return a, 0, Errorf(InvalidParams, "the alert has %d bytes; at most %d are allowed", len(d.Body), maxSignal)
	}
	err = r.write(ctx, func(t *tx) error {
		a, pushed, err = t.alertUser(&d)
		return err
	})
	return a, pushed, err
}

func (t *tx) alertUser(d *AlertDraft) (a Alert, pushed int, err error) {
	if d.MessageID != "" {
		found := false
		err = t.query(`SELECT `+alertColumns+` FROM signal_alerts WHERE `+ofMessage, func(row store.Row) error {
			a, found = scanAlert(row), true
			return nil
		}, d.MessageID)
		if err != nil || found {
			return a, 0, err
		}
	}
	// What the router itself sends to the user as a message, nobody's name is on.
	if d.Sender != SystemSender || d.MessageID == "" {
		if _, err := t.acting(d.Sender, d.Register); err != nil {
			return a, 0, err
		}
	}
	if err := t.mayTell(d.Sender); err != nil {
		return a, 0, err
	}
	a = Alert{
		ID: d.ID, Sender: d.Sender, Encrypted: d.Encrypted, Body: d.Body, Priority: d.Priority, SessionID: d.SessionID,
		MessageID: d.MessageID, CreatedAt: t.now,
	}
	traceID := ""
	if span := tracing.FromContext(t.ctx); span != nil {
		traceID = span.TraceID
		span.Set(tracing.AttrMessageID, a.ID)
		span.Set(tracing.AttrDestination, User)
	}
	_, err = t.Exec(`INSERT INTO signal_alerts (`+alertColumns+`, sealed_at, trace_id, span_id) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9, ?10)`,
		a.ID, a.Sender, asFlag(a.Encrypted), a.Body, a.Priority, a.SessionID, a.MessageID, a.CreatedAt, traceID, t.spanID)
	if err != nil {
		return a, 0, err
	}
	if err := t.noteSignal(a.ID, tracing.Created, "", "sent", ""); err != nil {
		return a, 0, err
	}
	p := Push{Kind: PushAlert, ID: a.ID, Encrypted: a.Encrypted, Body: a.Body}
	if pushed, err = t.push(d.Devices, p, a.Priority, alertLife); err != nil {
		return a, 0, err
	}
	return a, pushed, t.heartbeat(d.Sender)
}

// mayTell refuses an alert too many: what comes in a loop must not ring a phone without end.
func (t *tx) mayTell(sender string) error {
	n, err := t.number(`SELECT count(*) FROM signal_alerts WHERE created_at > ? AND sender = ?`, stamp(t.clock.Add(-time.Hour)), sender)
	if err != nil || n < maxAlerts {
		return err
	}
	return Errorf(Unavailable, "%d alerts of %s came within an hour, the limit; nothing was sent", n, sender).WithHint("Wait, or put them together in one")
}

// Alert returns an alert. Error: not_found.
func (r *Router) Alert(ctx context.Context, id string) (a Alert, err error) {
	err = r.read(ctx, func(c *Conn) error {
		found := false
		err := c.query(`SELECT `+alertColumns+` FROM signal_alerts WHERE alert_id = ?`, func(row store.Row) error {
			a, found = scanAlert(row), true
			return nil
		}, id)
		if err == nil && !found {
			err = Errorf(NotFound, "there is no alert %q", Clip(id))
		}
		return err
	})
	return a, err
}

// Alerts lists the alerts since a time, newest first, at most limit. The zero time is the beginning.
func (r *Router) Alerts(ctx context.Context, since time.Time, limit int) (list []Alert, err error) {
	from := ""
	if !since.IsZero() {
		from = stamp(since)
	}
	err = r.read(ctx, func(c *Conn) error {
		list, err = c.alerts(limit, `created_at >= ?2 ORDER BY created_at DESC`, from)
		return err
	})
	return list, err
}

// alerts returns those that fulfil a condition, whose parameter is ?2, in an order that an index has.
func (c *Conn) alerts(limit int, where, arg string) (list []Alert, err error) {
	list = []Alert{}
	err = c.query(`SELECT `+alertColumns+` FROM signal_alerts WHERE `+where+` LIMIT +?1`,
		func(row store.Row) error {
			list = append(list, scanAlert(row))
			return nil
		}, limit, arg)
	return list, err
}

// ReplaceAlert puts another body in place of the old one of an alert: one that could be read by nobody is sealed anew for
// the devices that came later. Errors: not_found; conflict when the alert has another body than old by now.
func (r *Router) ReplaceAlert(ctx context.Context, id, old, body string) error {
	if len(body) > maxSignal {
		return Errorf(InvalidParams, "the alert has %d bytes; at most %d are allowed", len(body), maxSignal)
	}
	return r.write(ctx, func(t *tx) error {
		n, err := t.Exec(`UPDATE signal_alerts SET body = ?, sealed_at = ? WHERE alert_id = ? AND body = ?`, body, t.now, id, old)
		if err != nil || n > 0 {
			return err
		}
		_, found, err := t.text(`SELECT alert_id FROM signal_alerts WHERE alert_id = ?`, id)
		switch {
		case err != nil:
			return err
		case found:
			return Errorf(Conflict, "the alert %q was sealed anew by somebody else", Clip(id))
		}
		return Errorf(NotFound, "there is no alert %q", Clip(id))
	})
}

// Bounds of what a device is shown at once.
const (
	shownQuestions = 200
	shownAlerts    = 50
)

// SignalsFor returns what a device shows: the pending questions, oldest first and at most 200, and the newest 50 alerts.
// What was sealed before the device was approved is left out, since it cannot read it.
func (r *Router) SignalsFor(ctx context.Context, d Device) (questions []Question, alerts []Alert, err error) {
	err = r.read(ctx, func(c *Conn) error {
		questions = []Question{}
		// Each asker has its turn, so that one with many questions hides nobody's.
		err := c.query(`SELECT `+questionColumns+` FROM (SELECT *, row_number() OVER (PARTITION BY asker ORDER BY rowid) AS turn
			FROM signal_questions WHERE status = 'pending' AND expires_at > ? AND (encrypted = 0 OR created_at >= ?)) AS q
			ORDER BY turn LIMIT +?`, func(row store.Row) error {
			questions = append(questions, scanQuestion(row))
			return nil
		}, stamp(r.Now()), d.ApprovedAt, shownQuestions)
		slices.SortFunc(questions, func(a, b Question) int {
			return cmp.Or(strings.Compare(a.CreatedAt, b.CreatedAt), strings.Compare(a.ID, b.ID))
		})
		if err == nil {
			alerts, err = c.alertsFor(d.ApprovedAt)
		}
		return err
	})
	return questions, alerts, err
}

// alertsFor are the newest alerts that a device can read: those in clear, and those that were sealed since its approval.
func (c *Conn) alertsFor(approvedAt string) ([]Alert, error) {
	clear, err := c.alerts(shownAlerts, `encrypted = 0 AND created_at >= ?2 ORDER BY created_at DESC`, "")
	if err != nil {
		return nil, err
	}
	sealed, err := c.alerts(shownAlerts, `encrypted <> 0 AND sealed_at >= ?2 ORDER BY sealed_at DESC`, approvedAt)
	all := append(clear, sealed...)
	slices.SortFunc(all, func(a, b Alert) int {
		return cmp.Or(strings.Compare(b.CreatedAt, a.CreatedAt), strings.Compare(b.ID, a.ID))
	})
	return all[:min(len(all), shownAlerts)], err
}
