package questions

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/push"
	"mailroom/orchestrator/store"
)

// A pairing code has 12 characters of Crockford base32. The first four select the pairing, and a wrong code uses up
// one of its tries only if they match. So random guesses do not block a pairing. The other eight characters are 40
// bits, of which five values can be tried.
const (
	pairingLife      = 5 * time.Minute
	pairingTries     = 5
	pairingSelector  = 4
	pairingLength    = 12
	maxDeviceName    = 64 // characters
	maxWaitingDevice = 24 * time.Hour
)

// StartPairing creates a code with which one phone can become a device within five minutes.
func StartPairing(ctx context.Context, l *ledger.Ledger) (code, expiresAt string, err error) {
	var random [8]byte
	rand.Read(random[:]) // never fails; see crypto/rand
	code = inGroups(random[:], pairingLength)
	plain := ungrouped(code)
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		t.KeepSpan()
		if err := t.Run(`DELETE FROM signal_pairings WHERE expires_at <= ? OR expires_at > ?`, t.ClockText,
			orchestrator.Stamp(t.Clock.Add(pairingLife))); err != nil {
			return err
		}
		expiresAt = orchestrator.Stamp(t.Clock.Add(pairingLife))
		return t.Run(`INSERT INTO signal_pairings (selector, secret_hash, created_at, expires_at)
			VALUES (?1, ?2, ?3, ?4)
			ON CONFLICT (selector) DO UPDATE SET secret_hash = ?2, created_at = ?3, expires_at = ?4, tries = 0`,
			plain[:pairingSelector], agents.HashToken(plain), t.Now, expiresAt)
	})
	return code, expiresAt, err
}

// PairRequest is a phone's request to become a device.
type PairRequest struct {
	Code      string // as typed
	Name      string // the phone's own name, at most 64 characters
	Recipient string // age recipient of its key, which the caller has checked
}

// Pair uses up a pairing code and adds the phone as a device that waits for approval. The device authenticates with
// token from now on. Errors: permission_denied for a code that is wrong, used or too old, without a distinction;
// invalid_params.
func Pair(ctx context.Context, l *ledger.Ledger, p PairRequest) (d Device, token string, err error) {
	if p.Name, err = checkDeviceName(p.Name); err != nil {
		return d, "", err
	}
	refused := orchestrator.Errorf(orchestrator.PermissionDenied,
		"the code is wrong, has already been used, or is older than five minutes").WithHint("To make a new code, run `mailroom signal pair`")
	plain := ungrouped(p.Code)
	if len(plain) != pairingLength {
		return d, "", refused
	}
	// A random guess does not take the write lock.
	known, err := ledger.ReadValue(ctx, l, func(c *store.Conn) (int64, error) {
		return c.Number(`SELECT count(*) FROM signal_pairings WHERE selector = ?`, plain[:pairingSelector])
	})
	if err == nil && known == 0 {
		err = refused
	}
	if err != nil {
		return d, "", err
	}
	right := false
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) (err error) {
		if right, err = usePairing(t, plain); err != nil || !right {
			return err // the try counts
		}
		d, token, err = addDevice(t, DeviceApp, p.Name, p.Recipient)
		return err
	})
	if err == nil && !right {
		err = refused
	}
	if err != nil {
		return Device{}, "", err
	}
	return d, token, nil
}

// PairDesk adds a browser with the console open as a device, which waits for approval as a phone does. It needs no
// code, because the caller has checked that the browser has a console session, which was opened with a code of this
// machine. name and recipient are as in a PairRequest. Error: invalid_params.
func PairDesk(ctx context.Context, l *ledger.Ledger, name, recipient string) (d Device, token string, err error) {
	if name, err = checkDeviceName(name); err != nil {
		return d, "", err
	}
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		t.KeepSpan()
		d, token, err = addDevice(t, DeviceDesk, name, recipient)
		return err
	})
	return d, token, err
}

// checkDeviceName returns the name of a device without surrounding spaces.
func checkDeviceName(name string) (string, error) {
	name = strings.TrimSpace(name)
	if name == "" || utf8.RuneCountInString(name) > maxDeviceName || strings.ContainsFunc(name, unicode.IsControl) {
		return "", orchestrator.Errorf(orchestrator.InvalidParams,
			"name: must have 1 to %d characters and no control characters", maxDeviceName)
	}
	return name, nil
}

// usePairing reports whether a code is correct. A correct code is used up; a wrong one uses up a try.
func usePairing(t *ledger.Tx, code string) (right bool, err error) {
	hash, found, err := t.Text(`SELECT secret_hash FROM signal_pairings WHERE selector = ? AND expires_at > ?
		AND expires_at <= ? AND tries < ?`,
		code[:pairingSelector], t.ClockText, orchestrator.Stamp(t.Clock.Add(pairingLife)), pairingTries)
	if err != nil || !found {
		return false, err
	}
	t.KeepSpan()
	if subtle.ConstantTimeCompare([]byte(hash), []byte(agents.HashToken(code))) != 1 {
		_, err = t.Exec(`UPDATE signal_pairings SET tries = tries + 1 WHERE selector = ?`, code[:pairingSelector])
		return false, err
	}
	_, err = t.Exec(`DELETE FROM signal_pairings WHERE selector = ?`, code[:pairingSelector])
	return true, err
}

// addDevice adds a device that waits for approval, and returns the token with which it authenticates.
func addDevice(t *ledger.Tx, kind, name, recipient string) (d Device, token string, err error) {
	// Devices that were not approved within a day are deleted.
	old := orchestrator.Stamp(t.Clock.Add(-maxWaitingDevice))
	for _, forget := range []string{
		`DELETE FROM signal_subscriptions
			WHERE device_id IN (SELECT device_id FROM signal_devices WHERE state = 'waiting' AND created_at < ?)`,
		`DELETE FROM signal_devices WHERE state = 'waiting' AND created_at < ?`,
	} {
		if err := t.Run(forget, old); err != nil {
			return d, "", err
		}
	}
	id, err := NewSignalID(t.Ledger, "d-")
	if err != nil {
		return d, "", err
	}
	token = agents.NewToken(deviceTokenPrefix)
	if err := t.Run(`INSERT INTO signal_devices (device_id, name, kind, recipient, created_at, seen_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?5)`,
		id, name, kind, recipient, t.Now); err != nil {
		return d, "", err
	}
	if err := t.Run(`INSERT INTO signal_subscriptions (device_id, token_hash) VALUES (?, ?)`, id,
		agents.HashToken(token)); err != nil {
		return d, "", err
	}
	d, err = device(t.Conn, id)
	return d, token, err
}

// VAPIDPublicKey returns the key that identifies this database to push services: an uncompressed P-256 point in
// base64url. The key is created by the first call. Source: RFC 8292, part 3.2.
func VAPIDPublicKey(ctx context.Context, l *ledger.Ledger) (key string, err error) {
	err = l.Read(ctx, func(c *store.Conn) error {
		key, _, err = c.Text(`SELECT public_key FROM signal_keys WHERE name = 'vapid'`)
		return err
	})
	if err != nil || key != "" {
		return key, err
	}
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		key, _, err = vapidKeys(t)
		return err
	})
	return key, err
}

func vapidKeys(t *ledger.Tx) (public, private string, err error) {
	err = t.Query(`SELECT public_key, private_key FROM signal_keys WHERE name = 'vapid'`, func(row store.Row) error {
		public, private = row.Text(0), row.Text(1)
		return nil
	})
	if err != nil || public != "" {
		return public, private, err
	}
	if err := t.MustBeAlone(); err != nil { // another process may be about to create one
		return "", "", err
	}
	pair, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		return "", "", err
	}
	public = base64.RawURLEncoding.EncodeToString(pair.PublicKey().Bytes())
	private = base64.RawURLEncoding.EncodeToString(pair.Bytes())
	err = t.Run(`
		INSERT INTO signal_keys (name, public_key, private_key, created_at) VALUES ('vapid', ?, ?, ?)
		ON CONFLICT (name) DO UPDATE SET public_key = excluded.public_key, private_key = excluded.private_key,
			created_at = excluded.created_at`,
		public, private, t.Now)
	return public, private, err
}

// NtfyOption answers an unencrypted question through a button in the ntfy app. option is the index of the button,
// from 0, and token is its one-time secret. Errors: permission_denied for a wrong token; those of Answer.
func NtfyOption(ctx context.Context, l *ledger.Ledger, question string, option int, token string) error {
	key, err := ledger.ReadValue(ctx, l, func(c *store.Conn) (string, error) {
		key, _, err := c.Text(`SELECT s.p256dh FROM signal_subscriptions s JOIN signal_devices d USING (device_id)
			WHERE d.kind = 'ntfy' AND d.state = 'active'`)
		return key, err
	})
	if err != nil {
		return err
	}
	if key == "" || subtle.ConstantTimeCompare([]byte(push.NtfyToken(key, question, option)), []byte(token)) != 1 {
		return orchestrator.Errorf(orchestrator.PermissionDenied, "the button's token is not valid")
	}
	q, err := Get(ctx, l, question)
	if err != nil {
		return err
	}
	if q.Encrypted {
		return orchestrator.Errorf(orchestrator.PermissionDenied, "an encrypted question can be answered only in the app")
	}
	_, err = Answer(ctx, l, question, ntfyDevice, fmt.Sprintf(`{"option":%d}`, option))
	return err
}

// SignalURL returns the setting signal.url: the https address of the phone app, without a path. It returns "" if the
// setting is not set. Error: unavailable if the database is not trusted, because the setting comes from it.
func SignalURL(ctx context.Context, l *ledger.Ledger) (string, error) {
	conf, err := l.Configuration(ctx)
	if err == nil && conf.Untrusted != "" {
		err = orchestrator.Errorf(orchestrator.Unavailable,
			"the address of the phone app comes from this database, which is not trusted: %s", conf.Untrusted).
			WithHint("%s", ledger.NotTrustedHint)
	}
	if err != nil {
		return "", err
	}
	return conf.Settings.SignalURL, nil
}
