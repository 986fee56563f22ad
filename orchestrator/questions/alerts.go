package questions

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/push"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// Alert is a notice from an agent to the user, without an answer.
type Alert struct {
	ID        string
	Sender    string
	Encrypted bool
	Body      string // as for a question
	CreatedAt string
}

// AlertDraft is an alert that is about to be stored.
type AlertDraft struct {
	ID        string // from NewSignalID
	Sender    string
	Encrypted bool
	Body      string // at most 64 KiB
	Priority  int
	SessionID string
	MessageID string   // of the message to User; "" if a command sent the alert
	Devices   []string // IDs of the devices that can read it
}

// maxAlerts is how many alerts one agent can send within an hour.
const maxAlerts = 100

// alertLife is how long an alert is pushed.
const alertLife = 7 * orchestrator.Day

const alertColumns = `alert_id, sender, encrypted, body, created_at`

func scanAlert(row store.Row) Alert {
	return Alert{ID: row.Text(0), Sender: row.Text(1), Encrypted: row.Int(2) != 0, Body: row.Text(3),
		CreatedAt: row.Text(4)}
}

// AlertUser stores an alert and pushes it to the devices that can read it, in one transaction. The alert is on disk
// when AlertUser returns. pushed is the number of these devices. An alert with a MessageID is stored once; a repeated
// call returns the first alert. Errors: invalid_params; unknown_sender; unavailable if the sender has sent too many
// alerts within an hour.
func AlertUser(ctx context.Context, l *ledger.Ledger, d AlertDraft) (a Alert, pushed int, err error) {
	if d.Sender, err = orchestrator.CheckName("sender", d.Sender); err != nil {
		return a, 0, err
	}
	if len(d.Body) > maxSignal {
		return a, 0, orchestrator.Errorf(orchestrator.InvalidParams, "the alert has %d bytes; the limit is %d",
			len(d.Body), maxSignal)
	}
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		a, pushed, err = alertUser(t, &d)
		return err
	})
	return a, pushed, err
}

func alertUser(t *ledger.Tx, d *AlertDraft) (a Alert, pushed int, err error) {
	if d.MessageID != "" {
		a, found, err := alertBy(t.Conn, ofMessage, d.MessageID)
		if err != nil || found {
			return a, 0, err
		}
	}
	// Messages that Mailroom itself sends to the user have no agent as their sender.
	if d.Sender != orchestrator.SystemSender || d.MessageID == "" {
		if _, err := agents.Acting(t, d.Sender); err != nil {
			return a, 0, err
		}
	}
	if err := mayTell(t, d.Sender); err != nil {
		return a, 0, err
	}
	a = Alert{ID: d.ID, Sender: d.Sender, Encrypted: d.Encrypted, Body: d.Body, CreatedAt: t.Now}
	_, err = t.Exec(`INSERT INTO signal_alerts (alert_id, sender, encrypted, body, priority, session_id, message_id,
		created_at, sealed_at, trace_id, span_id)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9, ?10)`,
		a.ID, a.Sender, a.Encrypted, a.Body, d.Priority, d.SessionID, d.MessageID, a.CreatedAt, traceOf(t, a.ID),
		t.SpanID)
	if err != nil {
		return a, 0, err
	}
	if err := noteSignal(t, a.ID, tracing.Created, "", "sent", ""); err != nil {
		return a, 0, err
	}
	p := push.Message{Kind: push.Alert, ID: a.ID, Encrypted: a.Encrypted, Body: a.Body}
	if pushed, err = sendPush(t, d.Devices, p, d.Priority, alertLife); err != nil {
		return a, 0, err
	}
	t.Heartbeat(d.Sender)
	return a, pushed, nil
}

// mayTell returns an error if an agent has sent too many alerts within an hour, so that an agent in a loop cannot
// ring a phone endlessly.
func mayTell(t *ledger.Tx, sender string) error {
	n, err := t.Number(`SELECT count(*) FROM signal_alerts WHERE created_at > ? AND sender = ?`,
		orchestrator.Stamp(t.Clock.Add(-time.Hour)), sender)
	if err != nil || n < maxAlerts {
		return err
	}
	return orchestrator.Errorf(orchestrator.Unavailable,
		"%s has reached the limit of %d alerts per hour; the alert was not sent", sender, maxAlerts).
		WithHint("Wait, or combine several alerts into one")
}

// GetAlert returns an alert by its ID. Error: not_found.
func GetAlert(ctx context.Context, l *ledger.Ledger, id string) (Alert, error) {
	return ledger.ReadValue(ctx, l, func(c *store.Conn) (Alert, error) {
		a, found, err := alertBy(c, `alert_id = ?`, id)
		if err == nil && !found {
			err = noAlert(id)
		}
		return a, err
	})
}

func noAlert(id string) error {
	return orchestrator.Errorf(orchestrator.NotFound, "unknown alert %q", orchestrator.Clip(id))
}

// alertBy finds an alert by a condition that selects at most one.
func alertBy(c *store.Conn, where, arg string) (a Alert, found bool, err error) {
	return store.First(c, scanAlert, `SELECT `+alertColumns+` FROM signal_alerts WHERE `+where, arg)
}

// Alerts returns the newest alerts, newest first, at most limit of them.
func Alerts(ctx context.Context, l *ledger.Ledger, limit int) ([]Alert, error) {
	return ledger.ReadValue(ctx, l, func(c *store.Conn) ([]Alert, error) {
		return alerts(c, limit, `created_at >= ?2 ORDER BY created_at DESC`, "")
	})
}

// alerts returns the alerts that match a condition, whose parameter is ?2, in the order of an index.
func alerts(c *store.Conn, limit int, where, arg string) ([]Alert, error) {
	return store.List(c, scanAlert, `SELECT `+alertColumns+` FROM signal_alerts WHERE `+where+` LIMIT +?1`, limit, arg)
}

// ReplaceAlert replaces the body of an alert, if its body is still old. It is used to seal alerts that no device
// could read again for devices that came later. Errors: not_found; conflict if the body has changed.
func ReplaceAlert(ctx context.Context, l *ledger.Ledger, id, old, body string) error {
	if len(body) > maxSignal {
		return orchestrator.Errorf(orchestrator.InvalidParams, "the alert has %d bytes; the limit is %d",
			len(body), maxSignal)
	}
	return l.Write(ctx, store.Shared, func(t *ledger.Tx) error {
		n, err := t.Exec(`UPDATE signal_alerts SET body = ?, sealed_at = ? WHERE alert_id = ? AND body = ?`, body,
			t.Now, id, old)
		if err != nil || n > 0 {
			return err
		}
		_, found, err := t.Text(`SELECT alert_id FROM signal_alerts WHERE alert_id = ?`, id)
		switch {
		case err != nil:
			return err
		case found:
			return orchestrator.Errorf(orchestrator.Conflict, "another process has already re-encrypted the alert %q",
				orchestrator.Clip(id))
		}
		return noAlert(id)
	})
}

// Bounds of what a device shows at once.
const (
	shownQuestions = 200
	shownAlerts    = 50
)

// SignalsFor returns what a device shows: pending questions, oldest first and at most 200, and the newest 50 alerts.
// Content that was sealed before the device was approved is omitted, since the device cannot read it.
func SignalsFor(ctx context.Context, l *ledger.Ledger, d Device) (questions []Question, alerts []Alert, err error) {
	err = l.Read(ctx, func(c *store.Conn) (err error) {
		// Askers take turns, so that one with many questions does not hide those of others.
		questions, err = store.List(c, scanQuestion,
			`SELECT `+questionColumns+` FROM (SELECT *, row_number() OVER (PARTITION BY asker ORDER BY rowid) AS turn
				FROM signal_questions WHERE status = 'pending' AND expires_at > ?
					AND (encrypted = 0 OR created_at >= ?)) AS q
			ORDER BY turn LIMIT +?`, orchestrator.Stamp(l.Now()), d.ApprovedAt, shownQuestions)
		slices.SortFunc(questions, func(a, b Question) int {
			return cmp.Or(strings.Compare(a.CreatedAt, b.CreatedAt), strings.Compare(a.ID, b.ID))
		})
		if err == nil {
			alerts, err = alertsFor(c, d.ApprovedAt)
		}
		return err
	})
	return questions, alerts, err
}

// alertsFor returns the newest alerts that a device can read: those that are not encrypted, and those that were
// sealed since its approval.
func alertsFor(c *store.Conn, approvedAt string) ([]Alert, error) {
	clear, err := alerts(c, shownAlerts, `encrypted = 0 AND created_at >= ?2 ORDER BY created_at DESC`, "")
	if err != nil {
		return nil, err
	}
	sealed, err := alerts(c, shownAlerts, `encrypted <> 0 AND sealed_at >= ?2 ORDER BY sealed_at DESC`, approvedAt)
	all := append(clear, sealed...)
	slices.SortFunc(all, func(a, b Alert) int {
		return cmp.Or(strings.Compare(b.CreatedAt, a.CreatedAt), strings.Compare(b.ID, a.ID))
	})
	return all[:min(len(all), shownAlerts)], err
}
