package orchestrator

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// pushTimeout bounds one attempt at a device, in seconds: a request, and another one when the first was too large.
const pushTimeout = 30

// readDevices reads the devices that can be pushed to, as recipients.
func readDevices(c *Conn) (list []*Agent, err error) {
	err = c.query(`SELECT device_id, kind FROM signal_devices WHERE state = 'active' AND push_host <> '' AND push_problem = ''
		ORDER BY device_id`, func(row store.Row) error {
		id, scheme := row.Text(0), "push:"
		if row.Text(1) == DeviceNtfy {
			scheme = "ntfy:"
		}
		list = append(list, &Agent{Name: DevicePrefix + id, Deliver: scheme + id, TimeoutSeconds: pushTimeout})
		return nil
	})
	return list, err
}

// pushSecret is the Secret of an attempt at a device.
func (t *tx) pushSecret(recipient string) (string, error) {
	conf, err := t.config()
	if err != nil {
		return "", err
	}
	var kind, endpoint, key, auth string
	err = t.query(`SELECT d.kind, s.endpoint, s.p256dh, s.auth FROM signal_devices d JOIN signal_subscriptions s USING (device_id)
		WHERE device_id = ?`, func(row store.Row) error {
		kind, endpoint, key, auth = row.Text(0), row.Text(1), row.Text(2), row.Text(3)
		return nil
	}, recipient[len(DevicePrefix):])
	if err != nil {
		return "", err
	}
	s := &conf.settings
	var secret any
	if kind == DeviceNtfy {
		secret = NtfySecret{URL: endpoint, Token: auth, Key: key, SignalURL: s.SignalURL, Hosts: s.PushHosts, AllowPrivate: s.AllowPrivatePush}
	} else {
		public, private, err := t.vapidKeys()
		if err != nil {
			return "", err
		}
		secret = PushSecret{
			Endpoint: endpoint, P256dh: key, Auth: auth, VAPIDPrivate: private, VAPIDPublic: public, Subscriber: subscriber(s.SignalURL),
			Hosts: s.PushHosts, AllowPrivate: s.AllowPrivatePush,
		}
	}
	text, err := json.Marshal(secret)
	return string(text), err
}

// push makes a row for each device that can be pushed to and is one of those named, and for the ntfy topic, which can read
// nothing that is encrypted. It returns how many it made. thread is the question or alert, by which its pushes are found.
func (t *tx) push(devices []string, p Push, priority int, life time.Duration) (pushed int, err error) {
	conf, err := t.config()
	if err != nil {
		return 0, err
	}
	for _, id := range devices {
		name := DevicePrefix + id
		if conf.agents[name] == nil {
			continue
		}
		if err := t.pushTo(name, p, priority, life); err != nil {
			return pushed, err
		}
		pushed++
	}
	if topic := DevicePrefix + ntfyDevice; conf.agents[topic] != nil {
		if p.Encrypted {
			p.Body = ""
		}
		err = t.pushTo(topic, p, priority, life)
	}
	return pushed, err
}

func (t *tx) pushTo(recipient string, p Push, priority int, life time.Duration) error {
	conf, err := t.config()
	if err != nil {
		return err
	}
	payload, err := json.Marshal(p)
	if err != nil {
		return err
	}
	id, err := t.newID("msg-")
	if err != nil {
		return err
	}
	d := Draft{Sender: SystemSender, Recipient: recipient, Type: pushType, Payload: payload, Priority: priority, ThreadID: p.ID, TTL: life}
	row := insertion{draft: &d, id: id, recipient: recipient, status: Pending, maxRetries: conf.settings.MaxRetries}
	row.expire(t, &conf.settings)
	t.ring.add([]string{recipient})
	return t.insert(&row)
}

// endedLife is for how long it is worth telling a device that a question needs no answer any more.
const endedLife = 24 * time.Hour

// endPushes tells the devices that were told of a question what became of it, but for the one that answered; those that
// were not yet are not told of it any more.
func (t *tx) endPushes(q *Question, answeredBy string) error {
	if err := t.traceCreated(); err != nil {
		return err
	}
	ms, err := t.pushesOf(q.ID)
	if err != nil {
		return err
	}
	conf, err := t.config()
	if err != nil {
		return err
	}
	told := map[string]bool{DevicePrefix + answeredBy: true}
	for i := range ms {
		m := &ms[i]
		if (m.Status == Pending || m.Status == Retry) && m.leaseToken == "" {
			if _, err := t.changeStatus(bySeq(m.seq), change{to: Cancelled, event: tracing.Cancelled, failure: "the question was " + string(q.Status)}); err != nil {
				return err
			}
			if m.Status == Pending {
				continue // a retry may have arrived all the same
			}
		}
		if told[m.Recipient] || conf.agents[m.Recipient] == nil {
			continue
		}
		told[m.Recipient] = true
		if err := t.pushTo(m.Recipient, Push{Kind: PushEnded, ID: q.ID, Status: string(q.Status)}, q.Priority, endedLife); err != nil {
			return err
		}
	}
	return nil
}

// pushAgain pushes a question that is open again to the devices that it was pushed to before, and that are still there.
func (t *tx) pushAgain(q *Question) error {
	if err := t.traceCreated(); err != nil {
		return err
	}
	ms, err := t.pushesOf(q.ID)
	if err != nil {
		return err
	}
	var devices []string
	for i := range ms {
		if id := strings.TrimPrefix(ms[i].Recipient, DevicePrefix); id != ntfyDevice && !slices.Contains(devices, id) {
			devices = append(devices, id)
		}
	}
	p := Push{Kind: PushQuestion, ID: q.ID, Encrypted: q.Encrypted, Body: q.Body}
	_, err = t.push(devices, p, q.Priority, max(parseStamp(q.ExpiresAt).Sub(t.clock), time.Second))
	return err
}

// deviceGone notes that a device cannot be pushed to any more, and forgets what was to be pushed to it: it waits in the app.
// It reports false when the device has subscribed anew since the secret that was tried.
func (t *tx) deviceGone(recipient, tried, reason string) (gone bool, err error) {
	device := recipient[len(DevicePrefix):]
	secret, err := t.pushSecret(recipient)
	if err != nil || secret != tried {
		return false, err
	}
	if _, err := t.Exec(`UPDATE signal_devices SET push_problem = ? WHERE device_id = ?`, t.now+" "+reason, device); err != nil {
		return false, err
	}
	t.after = append(t.after, func() {
		do := "open the app on it, which subscribes anew"
		if device == ntfyDevice {
			do = "mailroom signal ntfy --url ..."
		}
		t.r.log.Error("a device cannot be pushed to any more", "device", device, "reason", reason, "do", do)
	})
	if err := t.dropPushes(device, "the device cannot be pushed to any more"); err != nil {
		return false, err
	}
	return true, t.configChanged()
}

// pushIsOver says that the question of a push has ended: its device is told, or will be, what became of it, and nothing else
// after that. "" is that it has not, and of other pushes.
func (t *tx) pushIsOver(m *Message) (why string, err error) {
	var p Push
	if json.Unmarshal(m.Payload, &p) != nil || p.Kind != PushQuestion {
		return "", nil
	}
	q, found, err := t.questionBy(`question_id = ?`, p.ID)
	if err != nil || !found || q.Status == QuestionPending {
		return "", err
	}
	return "the question was " + string(q.Status), nil
}

// dropPushes cancels what waits to be pushed to a device.
func (t *tx) dropPushes(device, why string) error {
	if err := t.traceCreated(); err != nil {
		return err
	}
	_, err := t.changeStatus(selection{live + ` AND recipient = ?8 AND lease_token = ''`, []any{DevicePrefix + device}},
		change{to: Cancelled, event: tracing.Cancelled, failure: why})
	return err
}

// pushedTo notes what came of the last attempt at a device.
func (t *tx) pushedTo(recipient, outcome string) error {
	_, err := t.Exec(`UPDATE signal_devices SET pushed_at = ?, push_outcome = ? WHERE device_id = ?`, t.now, outcome, recipient[len(DevicePrefix):])
	return err
}

// pushesOf are the pushes of a question or alert, in their order.
func (c *Conn) pushesOf(id string) ([]Message, error) {
	return c.messages(`SELECT `+messageColumns+` FROM agent_message WHERE thread_id = ? AND message_type = '`+pushType+`'
		AND sender = '`+SystemSender+`' ORDER BY seq`, id)
}

// subscriber is whom push services are told to ask in case of trouble: the app's address, if it has a public one.
// Source: RFC 8292, part 2.1.
func subscriber(signalURL string) string {
	if strings.HasPrefix(signalURL, "https://") {
		return signalURL
	}
	return "https://mailroom.invalid"
}
