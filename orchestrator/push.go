package orchestrator

import (
	"crypto/ecdh"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// DevicePrefix begins the recipient of a push, before the id of the device. No agent has such a name.
const DevicePrefix = "device:"

// pushType is the message_type of a push. A push is sent by the system, so that nobody is told when it fails: a question
// waits in the app, too.
const pushType = "push"

// PushKind is what a push is about.
type PushKind string

// The kinds of pushes.
const (
	PushQuestion PushKind = "question"
	PushAlert    PushKind = "alert"
	PushEnded    PushKind = "ended" // a question needs no answer any more
	PushTest     PushKind = "test"
)

// Push is the payload of a push.
type Push struct {
	Kind      PushKind `json:"kind"`
	ID        string   `json:"id"`               // of the question or alert
	Status    string   `json:"status,omitempty"` // of a question that ended
	Encrypted bool     `json:"encrypted,omitempty"`
	Body      string   `json:"body,omitempty"` // encrypted: an age file in base64; otherwise JSON. Not for those who cannot read it
}

// PushSecret is what an attempt at a device has as its Secret, in JSON.
type PushSecret struct {
	Endpoint     string   `json:"endpoint"`
	P256dh       string   `json:"p256dh"` // base64url
	Auth         string   `json:"auth"`   // base64url
	VAPIDPrivate string   `json:"vapid_private"`
	VAPIDPublic  string   `json:"vapid_public"`
	Subscriber   string   `json:"subscriber"` // https URL
	Hosts        []string `json:"hosts"`      // push hosts that were added by hand
	AllowPrivate bool     `json:"allow_private"`
}

// NtfySecret is what an attempt at an ntfy topic has as its Secret, in JSON.
type NtfySecret struct {
	URL          string   `json:"url"`
	Token        string   `json:"token"`      // that the server wants; "" is none
	Key          string   `json:"key"`        // of the tokens of its buttons, hex
	SignalURL    string   `json:"signal_url"` // where the app is; "" is nowhere
	Hosts        []string `json:"hosts"`
	AllowPrivate bool     `json:"allow_private"`
}

// CheckPushKeys says what is wrong with the keys of a subscription, as a browser gives them: a point of the curve P-256 and
// 16 bytes, both in base64url. Errors are invalid_params, and show nothing of the keys.
func CheckPushKeys(p256dh, auth string) error {
	point, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(p256dh, "="))
	if err == nil {
		_, err = ecdh.P256().NewPublicKey(point)
	}
	if err != nil {
		return Errorf(InvalidParams, "p256dh is no public key of the curve P-256 in base64url")
	}
	if secret, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(auth, "=")); err != nil || len(secret) != 16 {
		return Errorf(InvalidParams, "auth is not 16 bytes in base64url")
	}
	return nil
}

// pushTimeout bounds one attempt at a device, in seconds: a request, and another one when the first was too large.
const pushTimeout = 30

// readDevices reads the devices that can be pushed to, as recipients.
func readDevices(c *conn) (list []*Agent, err error) {
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
func (t *tx) pushSecret(device string) (string, error) {
	conf, err := t.config()
	if err != nil {
		return "", err
	}
	var kind, endpoint, key, auth string
	err = t.query(`SELECT d.kind, s.endpoint, s.p256dh, s.auth FROM signal_devices d JOIN signal_subscriptions s USING (device_id)
		WHERE device_id = ?`, func(row store.Row) error {
		kind, endpoint, key, auth = row.Text(0), row.Text(1), row.Text(2), row.Text(3)
		return nil
	}, device)
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
			Endpoint: endpoint, P256dh: key, Auth: auth, VAPIDPrivate: private, VAPIDPublic: public, Subscriber: s.subscriber(),
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
// It reports false when the device has subscribed anew meanwhile.
func (t *tx) deviceGone(c *claim, reason string) (gone bool, err error) {
	device := c.agent.Name[len(DevicePrefix):]
	secret, err := t.pushSecret(device)
	if err != nil || secret != c.secret {
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

// pushIsOver cancels a push of a question whose attempt failed while the question ended: the device is told, or will be, what
// became of it, and nothing else after that.
func (t *tx) pushIsOver(c *claim, m *Message, out *outcome) (bool, error) {
	var p Push
	if !c.agent.isDevice() || json.Unmarshal(m.Payload, &p) != nil || p.Kind != PushQuestion {
		return false, nil
	}
	q, found, err := t.questionBy(`question_id = ?`, p.ID)
	if err != nil || !found || q.Status == QuestionPending {
		return false, err
	}
	_, err = t.changeStatus(bySeq(m.seq), change{
		to: Cancelled, event: tracing.Cancelled, failure: "the question was " + string(q.Status) + " during the attempt: " + out.reason, detail: out.detail,
	})
	return true, err
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

// isDevice reports whether a recipient is a device.
func (a *Agent) isDevice() bool { return strings.HasPrefix(a.Name, DevicePrefix) }

// pushedTo notes what came of the last attempt at a device.
func (t *tx) pushedTo(c *claim, out *outcome) error {
	what := "delivered"
	if !out.delivered {
		what = out.reason
	}
	_, err := t.Exec(`UPDATE signal_devices SET pushed_at = ?, push_outcome = ? WHERE device_id = ?`, t.now, what, c.agent.Name[len(DevicePrefix):])
	return err
}

// pushesOf are the pushes of a question or alert, in their order.
func (c *conn) pushesOf(id string) ([]Message, error) {
	return c.messages(`SELECT `+messageColumns+` FROM agent_message WHERE thread_id = ? AND message_type = '`+pushType+`'
		AND sender = '`+SystemSender+`' ORDER BY seq`, id)
}
