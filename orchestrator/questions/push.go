package questions

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/push"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// pushTimeout bounds one attempt at a device, in seconds: one request, and another if the first was too large.
const pushTimeout = 30

// readDevices returns the devices that can receive pushes, as recipients.
func readDevices(c *store.Conn) (list []*ledger.Agent, err error) {
	return store.List(c, func(row store.Row) *ledger.Agent {
		id, scheme := row.Text(0), "push:"
		if row.Text(1) == DeviceNtfy {
			scheme = "ntfy:"
		}
		return &ledger.Agent{Name: push.DevicePrefix + id, Deliver: scheme + id, TimeoutSeconds: pushTimeout}
	}, `SELECT device_id, kind FROM signal_devices WHERE state = 'active' AND push_host <> '' AND push_problem = ''
		ORDER BY device_id`)
}

// pushSecret returns the data that an attempt at a device needs, as JSON: its Attempt.Secret.
func pushSecret(t *ledger.Tx, recipient string) (string, error) {
	var kind, endpoint, key, auth string
	err := t.Query(`SELECT d.kind, s.endpoint, s.p256dh, s.auth FROM signal_devices d
		JOIN signal_subscriptions s USING (device_id)
		WHERE device_id = ?`, func(row store.Row) error {
		kind, endpoint, key, auth = row.Text(0), row.Text(1), row.Text(2), row.Text(3)
		return nil
	}, recipient[len(push.DevicePrefix):])
	if err != nil {
		return "", err
	}
	s := &t.Config().Settings
	var secret any
	if kind == DeviceNtfy {
		secret = push.NtfySecret{URL: endpoint, Token: auth, Key: key, SignalURL: s.SignalURL, Hosts: s.PushHosts,
			AllowPrivate: s.AllowPrivatePush}
	} else {
		public, private, err := vapidKeys(t)
		if err != nil {
			return "", err
		}
		secret = push.Secret{
			Endpoint: endpoint, P256dh: key, Auth: auth, VAPIDPrivate: private, VAPIDPublic: public,
			Subscriber: subscriber(s.SignalURL),
			Hosts:      s.PushHosts, AllowPrivate: s.AllowPrivatePush,
		}
	}
	text, err := json.Marshal(secret)
	return string(text), err
}

// sendPush adds a row for each of the named devices that can receive pushes, and for the ntfy topic, which gets no
// encrypted body. It returns the number of rows for devices. Pushes are found by their thread, which is the question
// or alert.
func sendPush(t *ledger.Tx, devices []string, p push.Message, priority int, life time.Duration) (pushed int,
	err error) {
	conf := t.Config()
	for _, id := range devices {
		name := push.DevicePrefix + id
		if conf.Agents[name] == nil {
			continue
		}
		if err := pushTo(t, name, p, priority, life); err != nil {
			return pushed, err
		}
		pushed++
	}
	if topic := push.DevicePrefix + ntfyDevice; conf.Agents[topic] != nil {
		if p.Encrypted {
			p.Body = ""
		}
		err = pushTo(t, topic, p, priority, life)
	}
	return pushed, err
}

func pushTo(t *ledger.Tx, recipient string, p push.Message, priority int, life time.Duration) error {
	payload, err := json.Marshal(p)
	if err != nil {
		return err
	}
	id, err := t.NewID("msg-")
	if err != nil {
		return err
	}
	d := orchestrator.Draft{Sender: orchestrator.SystemSender, Recipient: recipient, Type: push.Type, Payload: payload,
		Priority: priority, ThreadID: p.ID, TTL: life}
	row := ledger.Insertion{Draft: &d, Id: id, Recipient: recipient, Status: orchestrator.Pending,
		MaxRetries: t.Config().Settings.MaxRetries}
	row.Expire(t, &t.Config().Settings)
	t.Wake(recipient)
	return t.Insert(&row)
}

// endedLife is how long a device is notified that a question no longer needs an answer.
const endedLife = 24 * time.Hour

// endPushes notifies the devices that received a question of its end, except the device that answered. Pushes that
// were not sent yet are cancelled.
func endPushes(t *ledger.Tx, q *Question, answeredBy string) error {
	if err := t.TraceCreated(); err != nil {
		return err
	}
	ms, err := PushesOf(t.Conn, q.ID)
	if err != nil {
		return err
	}
	conf := t.Config()
	told := map[string]bool{push.DevicePrefix + answeredBy: true}
	for i := range ms {
		m := &ms[i]
		if (m.Status == orchestrator.Pending || m.Status == orchestrator.Retry) && m.LeaseToken == "" {
			if _, err := t.ChangeStatus(ledger.BySeq(m.Seq),
				ledger.Change{To: orchestrator.Cancelled, Event: tracing.Cancelled,
					Failure: "the question is already " + string(q.Status)}); err != nil {
				return err
			}
			if m.Status == orchestrator.Pending {
				continue // a retry is different: an earlier attempt may have arrived
			}
		}
		if told[m.Recipient] || conf.Agents[m.Recipient] == nil {
			continue
		}
		told[m.Recipient] = true
		if err := pushTo(t, m.Recipient, push.Message{Kind: push.Ended, ID: q.ID, Status: string(q.Status)}, q.Priority,
			endedLife); err != nil {
			return err
		}
	}
	return nil
}

// pushAgain pushes a reopened question to the devices that it was pushed to before and that still exist.
func pushAgain(t *ledger.Tx, q *Question) error {
	if err := t.TraceCreated(); err != nil {
		return err
	}
	ms, err := PushesOf(t.Conn, q.ID)
	if err != nil {
		return err
	}
	var devices []string
	for i := range ms {
		if id := strings.TrimPrefix(ms[i].Recipient, push.DevicePrefix); id != ntfyDevice &&
			!slices.Contains(devices, id) {
			devices = append(devices, id)
		}
	}
	p := push.Message{Kind: push.Question, ID: q.ID, Encrypted: q.Encrypted, Body: q.Body}
	_, err = sendPush(t, devices, p, q.Priority, max(orchestrator.ParseStamp(q.ExpiresAt).Sub(t.Clock), time.Second))
	return err
}

// deviceGone records that a device can no longer receive pushes, and cancels the waiting ones, whose content remains
// in the app. It returns false if the device has subscribed again since the secret that was tried.
func deviceGone(t *ledger.Tx, recipient, tried, reason string) (gone bool, err error) {
	device := recipient[len(push.DevicePrefix):]
	secret, err := pushSecret(t, recipient)
	if err != nil || secret != tried {
		return false, err
	}
	if err := t.Run(`UPDATE signal_devices SET push_problem = ? WHERE device_id = ?`, t.Now+" "+reason,
		device); err != nil {
		return false, err
	}
	t.AfterCommit(func() {
		do := "open the app on the device; the app then subscribes again"
		if device == ntfyDevice {
			do = "mailroom signal ntfy --url ..."
		}
		t.Ledger.Log.Error("can no longer push to a device", "device", device, "reason", reason, "do", do)
	})
	if err := dropPushes(t, device, "Mailroom can no longer push to the device"); err != nil {
		return false, err
	}
	return true, t.ConfigChanged()
}

// pushIsOver returns why a push need not be sent anymore: its question has ended, and another push notifies the
// device of that. It returns "" if the question is open, and for pushes of other kinds.
func pushIsOver(t *ledger.Tx, m *orchestrator.Message) (why string, err error) {
	var p push.Message
	if json.Unmarshal(m.Payload, &p) != nil || p.Kind != push.Question {
		return "", nil
	}
	q, found, err := questionBy(t.Conn, `question_id = ?`, p.ID)
	if err != nil || !found || q.Status == Pending {
		return "", err
	}
	return "the question is already " + string(q.Status), nil
}

// dropPushes cancels the waiting pushes to a device.
func dropPushes(t *ledger.Tx, device, why string) error {
	if err := t.TraceCreated(); err != nil {
		return err
	}
	_, err := t.ChangeStatus(ledger.Selection{Where: ledger.Live + ` AND recipient = ?1 AND lease_token = ''`,
		Arg: push.DevicePrefix + device},
		ledger.Change{To: orchestrator.Cancelled, Event: tracing.Cancelled, Failure: why})
	return err
}

// pushedTo records the result of the last attempt at a device.
func pushedTo(t *ledger.Tx, recipient, outcome string) error {
	return t.Run(`UPDATE signal_devices SET pushed_at = ?, push_outcome = ? WHERE device_id = ?`, t.Now, outcome,
		recipient[len(push.DevicePrefix):])
}

// PushesOf returns the push messages about a question or an alert, oldest first.
func PushesOf(c *store.Conn, id string) ([]orchestrator.Message, error) {
	return ledger.Messages(c,
		`SELECT `+ledger.MessageColumns+` FROM agent_message WHERE thread_id = ? AND message_type = '`+push.Type+`'
		AND sender = '`+orchestrator.SystemSender+`' ORDER BY seq`, id)
}

// subscriber returns the contact for push services in case of trouble: the address of the app, if it is a public one.
// Source: RFC 8292, part 2.1.
func subscriber(signalURL string) string {
	if strings.HasPrefix(signalURL, "https://") {
		return signalURL
	}
	return "https://mailroom.invalid"
}
