package questions

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/push"
	"mailroom/orchestrator/store"
)

// The states and kinds of devices.
const (
	DeviceWaiting = "waiting" // paired, and not yet approved
	DeviceActive  = "active"
	DeviceRevoked = "revoked"

	DeviceApp  = "app"  // a phone
	DeviceDesk = "desk" // a browser with the console open; it polls and receives no pushes
	DeviceNtfy = "ntfy"
)

// ntfyDevice is the device ID of the ntfy topic.
const ntfyDevice = "ntfy"

// Device is a phone or a browser of the user, or a topic of an ntfy server. A topic cannot read encrypted content.
type Device struct {
	ID          string
	Name        string
	Kind        string // DeviceApp, DeviceDesk or DeviceNtfy
	State       string
	Recipient   string // age recipient, "age1..."; "" for a topic
	Fingerprint string // of the recipient
	CreatedAt   string
	ApprovedAt  string
	RevokedAt   string
	SeenAt      string // when it last made a request, to the minute
	PushHost    string // host of its push service; "" if it receives no pushes
	PushProblem string // since when and why pushes to it have stopped
	PushedAt    string // the last attempt
	PushOutcome string // "delivered", or why it failed
}

const deviceColumns = `device_id, name, kind, state, recipient, created_at, approved_at, revoked_at, seen_at, push_host, push_problem,
	pushed_at, push_outcome`

func scanDevice(row store.Row) Device {
	return Device{
		ID: row.Text(0), Name: row.Text(1), Kind: row.Text(2), State: row.Text(3), Recipient: row.Text(4),
		Fingerprint: Fingerprint(row.Text(4)), CreatedAt: row.Text(5), ApprovedAt: row.Text(6), RevokedAt: row.Text(7),
		SeenAt: row.Text(8), PushHost: row.Text(9), PushProblem: row.Text(10), PushedAt: row.Text(11),
		PushOutcome: row.Text(12),
	}
}

// crockford is base32 with an alphabet in which no two characters look alike.
var crockford = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ")

// inGroups encodes bytes as the given number of Crockford base32 characters, a multiple of four, in groups of four.
func inGroups(b []byte, characters int) string {
	groups := slices.Collect(slices.Chunk([]byte(crockford.EncodeToString(b)[:characters]), 4))
	return string(bytes.Join(groups, []byte("-")))
}

// ungrouped normalizes text that a person typed. It ignores case and grouping, and reads O as 0, and I and L as 1.
func ungrouped(text string) string {
	return strings.NewReplacer("-", "", " ", "", "O", "0", "I", "1", "L", "1").Replace(strings.ToUpper(text))
}

// Fingerprint returns a short form of an age recipient that people can compare: 16 characters (80 bits) in groups of
// four. It returns "" for "".
func Fingerprint(recipient string) string {
	if recipient == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(recipient))
	return inGroups(sum[:], 16)
}

// SameFingerprint reports whether a typed text matches a fingerprint, regardless of case and grouping.
func SameFingerprint(typed, fingerprint string) bool {
	return fingerprint != "" && ungrouped(typed) == ungrouped(fingerprint)
}

// Devices returns all devices, including revoked ones, oldest first.
func Devices(ctx context.Context, l *ledger.Ledger) ([]Device, error) {
	return ledger.ReadValue(ctx, l, DevicesIn)
}

// DevicesIn returns all devices, including revoked ones, oldest first. It reads them within a transaction.
func DevicesIn(c *store.Conn) ([]Device, error) {
	return store.List(c, scanDevice, `SELECT `+deviceColumns+` FROM signal_devices ORDER BY created_at, device_id`)
}

func device(c *store.Conn, id string) (Device, error) {
	d, found, err := store.First(c, scanDevice, `SELECT `+deviceColumns+` FROM signal_devices WHERE device_id = ?`, id)
	if err == nil && !found {
		err = orchestrator.Errorf(orchestrator.NotFound, "unknown device %q", orchestrator.Clip(id)).
			WithHint("To list the devices, run `mailroom signal device list`")
	}
	return d, err
}

// DeviceOfToken returns the device that a token belongs to, and records when the device was seen, to the minute. It
// reads the database each time, so that a revocation takes effect immediately. Error: unauthenticated, which does not
// include a reason.
func DeviceOfToken(ctx context.Context, l *ledger.Ledger, token string) (d Device, err error) {
	refused := orchestrator.Errorf(orchestrator.Unauthenticated, "the device's token is not valid").
		WithHint("To pair the device again, run `mailroom signal pair`")
	if !strings.HasPrefix(token, deviceTokenPrefix) || len(token) > 128 {
		return d, refused
	}
	err = l.Read(ctx, func(c *store.Conn) error {
		id, found, err := c.Text(`SELECT device_id FROM signal_subscriptions WHERE token_hash = ?`,
			agents.HashToken(token))
		if err == nil && !found {
			err = refused
		}
		if err != nil {
			return err
		}
		d, err = device(c, id)
		return err
	})
	if err == nil && d.State == DeviceRevoked || orchestrator.CodeOf(err) == orchestrator.NotFound {
		err = refused
	}
	if err != nil {
		return Device{}, err
	}
	if d.SeenAt < orchestrator.Stamp(l.Now().Add(-time.Minute)) {
		if err := seen(ctx, l, d.ID); err != nil { // a database that cannot be written can still be read
			l.Log.Warn("cannot record when a device was last seen", "device", d.ID, "error", err)
		}
	}
	return d, nil
}

// seen records that a device was seen. It waits at most a second for other writers.
func seen(ctx context.Context, l *ledger.Ledger, device string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return l.Write(ctx, store.Shared, func(t *ledger.Tx) error {
		t.Quiet = true
		return t.Run(`UPDATE signal_devices SET seen_at = ? WHERE device_id = ?`, t.Now, device)
	})
}

// changeDevice changes a device within a transaction that makes every process reload the devices.
func changeDevice(ctx context.Context, l *ledger.Ledger, id string,
	change func(t *ledger.Tx, d *Device) error) (d Device, err error) {
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		if d, err = device(t.Conn, id); err != nil {
			return err
		}
		if err := change(t, &d); err != nil {
			return err
		}
		if d, err = device(t.Conn, id); err != nil {
			return err
		}
		return t.ConfigChanged()
	})
	return d, err
}

// ActivateDevice approves a paired device, which can then see and answer questions. recipient is the device's key as
// checked and stored by the caller. Errors: not_found; conflict if the device was revoked or the table contains a
// different key.
func ActivateDevice(ctx context.Context, l *ledger.Ledger, id, recipient string) (Device, error) {
	return changeDevice(ctx, l, id, func(t *ledger.Tx, d *Device) error {
		if d.State == DeviceRevoked {
			return orchestrator.Errorf(orchestrator.Conflict, "the device %s was revoked at %s", id, d.RevokedAt).
				WithHint("To pair the device again, run `mailroom signal pair`")
		}
		if d.Recipient != recipient {
			return orchestrator.Errorf(orchestrator.Conflict,
				"the key of the device %s changed during the approval", id)
		}
		if err := t.Run(`UPDATE signal_devices SET state = 'active',
			approved_at = CASE WHEN state = 'active' THEN approved_at ELSE ? END
			WHERE device_id = ?`, t.Now, id); err != nil {
			return err
		}
		return agents.ReleaseHeld(t, orchestrator.User, "a device was approved")
	})
}

// RevokeDevice withdraws a device: it deletes the device's token and subscription, and nothing more is sealed for it.
// Content that the device has already read cannot be taken back. Questions that no other device can read are
// cancelled. Error: not_found.
func RevokeDevice(ctx context.Context, l *ledger.Ledger, id string) (Device, error) {
	return changeDevice(ctx, l, id, func(t *ledger.Tx, d *Device) error {
		if err := dropPushes(t, id, "the device was revoked"); err != nil {
			return err
		}
		if err := t.Run(`DELETE FROM signal_subscriptions WHERE device_id = ?`, id); err != nil {
			return err
		}
		_, err := t.Exec(`UPDATE signal_devices SET state = 'revoked',
			revoked_at = CASE WHEN revoked_at = '' THEN ? ELSE revoked_at END,
			push_host = '', push_problem = '' WHERE device_id = ?`, t.Now, id)
		if err != nil {
			return err
		}
		return endUnreadable(t)
	})
}

// HasDevice reports whether the user has an active device that can decrypt content.
func HasDevice(c *store.Conn) (bool, error) {
	n, err := c.Number(`SELECT EXISTS (SELECT 1 FROM signal_devices WHERE state = 'active' AND kind <> '` + DeviceNtfy +
		`')`)
	return n != 0, err
}

// endUnreadable cancels the questions that no remaining device can read, so that their askers do not wait for an
// answer.
func endUnreadable(t *ledger.Tx) error {
	list, err := questionsBy(t.Conn, `status = 'pending' AND encrypted <> 0 AND NOT EXISTS (
		SELECT 1 FROM signal_devices d WHERE d.state = 'active' AND d.kind <> '`+DeviceNtfy+
		`' AND d.approved_at <= signal_questions.created_at)`)
	for i := range list {
		if err == nil {
			err = endQuestion(t, &list[i], Cancelled, "", "no remaining device can read the question")
		}
	}
	return err
}

// Subscription is the address of a device's browser at its push service, and the keys to encrypt for it, as provided
// by the browser. Source: W3C Push API, PushSubscription.
type Subscription struct {
	Endpoint string
	P256dh   string // base64url
	Auth     string // base64url
}

// Subscribe sets the address for pushes to a device. Errors: not_found; permission_denied for a revoked device;
// invalid_params for an endpoint that is neither at a known push service nor at one that was added by hand, and for
// malformed keys.
func Subscribe(ctx context.Context, l *ledger.Ledger, device string, s Subscription) error {
	conf, err := l.Configuration(ctx)
	if err != nil {
		return err
	}
	host, err := push.CheckEndpoint(s.Endpoint, conf.Settings.PushHosts)
	if err == nil {
		err = push.CheckKeys(s.P256dh, s.Auth)
	}
	if err != nil {
		return err
	}
	_, err = changeDevice(ctx, l, device, func(t *ledger.Tx, d *Device) error {
		if d.State == DeviceRevoked {
			return orchestrator.Errorf(orchestrator.PermissionDenied, "the device %s was revoked", device)
		}
		if err := t.Run(`UPDATE signal_subscriptions SET endpoint = ?, p256dh = ?, auth = ? WHERE device_id = ?`,
			s.Endpoint, s.P256dh, s.Auth, device); err != nil {
			return err
		}
		return t.Run(`UPDATE signal_devices SET push_host = ?, push_problem = '' WHERE device_id = ?`, host, device)
	})
	return err
}

// Unsubscribe ends pushes to a device. Error: not_found.
func Unsubscribe(ctx context.Context, l *ledger.Ledger, device string) error {
	_, err := changeDevice(ctx, l, device, func(t *ledger.Tx, d *Device) error {
		if err := dropPushes(t, device, "the device unsubscribed"); err != nil {
			return err
		}
		if err := t.Run(`UPDATE signal_subscriptions SET endpoint = '', p256dh = '', auth = '' WHERE device_id = ?`,
			device); err != nil {
			return err
		}
		return t.Run(`UPDATE signal_devices SET push_host = '', push_problem = '' WHERE device_id = ?`, device)
	})
	return err
}

// deviceTokenPrefix begins every device token, so that secret scanners can find a leaked one.
const deviceTokenPrefix = "mailroom_device_"

// NtfyConfig selects the topic of an ntfy server to push to.
type NtfyConfig struct {
	URL   string // of the topic; "" is none
	Token string // that the server requires; "" is none
}

// SetNtfy adds a topic of an ntfy server to the user's devices, or removes it if the URL is "". Errors:
// invalid_params for an address that is neither at ntfy.sh nor at a server that was added by hand; not_found if there
// is none to remove.
func SetNtfy(ctx context.Context, l *ledger.Ledger, n NtfyConfig) (d Device, err error) {
	if n.URL == "" {
		return RevokeDevice(ctx, l, ntfyDevice)
	}
	conf, err := l.Configuration(ctx)
	if err != nil {
		return d, err
	}
	if _, err := push.CheckNtfyURL(n.URL, conf.Settings.PushHosts, conf.Settings.AllowPrivatePush); err != nil {
		return d, err
	}
	u, err := url.Parse(n.URL)
	if err != nil {
		return d, err
	}
	var key [32]byte
	rand.Read(key[:]) // never fails; see crypto/rand
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		if err := t.Run(`
			INSERT INTO signal_devices (device_id, name, kind, state, created_at, approved_at, push_host)
				VALUES (?1, ?2, ?3, 'active', ?4, ?4, ?2)
			ON CONFLICT (device_id) DO UPDATE SET name = ?2, state = 'active', approved_at = ?4, revoked_at = '',
				push_host = ?2, push_problem = ''`,
			ntfyDevice, u.Host, DeviceNtfy, t.Now); err != nil {
			return err
		}
		if err := t.Run(`
			INSERT INTO signal_subscriptions (device_id, endpoint, p256dh, auth) VALUES (?1, ?2, ?3, ?4)
			ON CONFLICT (device_id) DO UPDATE SET token_hash = '', endpoint = ?2, p256dh = ?3, auth = ?4`,
			ntfyDevice, n.URL, hex.EncodeToString(key[:]), n.Token); err != nil {
			return err
		}
		if d, err = device(t.Conn, ntfyDevice); err != nil {
			return err
		}
		return t.ConfigChanged()
	})
	return d, err
}
