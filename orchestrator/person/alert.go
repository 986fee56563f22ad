package person

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"filippo.io/age"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/questions"
)

// Alert is a notice for the person, without an answer.
type Alert struct {
	Sender    string // agent that sends it
	Message   string // 1 to 2,000 characters
	Type      string // error, warning, success or info; "" is info
	Context   string // up to 500 characters
	Priority  string // low, normal or high; "" is high for an error, else normal
	Encrypted bool
	SessionID string
	MessageID string // of the message to the agent `user` that it comes from; each message causes one alert
}

// Told is the result of sending an alert.
type Told struct {
	questions.Alert
	Devices int      // how many can read it
	Pushed  int      // how many of them, and of ntfy topics, it is pushed to
	Unused  []string // as in Asked
}

// Tell stores an alert and pushes it to the devices. Both are durable when it returns. If there is no device, the
// alert is kept for the first device that is approved; until then, an encrypted alert is sealed to a key of this
// machine. Errors: invalid_params.
func Tell(ctx context.Context, l *ledger.Ledger, a Alert) (Told, error) {
	if a.Type == "error" {
		a.Priority = cmp.Or(a.Priority, "high")
	}
	a.Type, a.Priority = cmp.Or(a.Type, "info"), cmp.Or(a.Priority, "normal")
	if err := a.check(); err != nil {
		return Told{}, err
	}
	k, to, err := readersOf(ctx, l)
	if err != nil {
		return Told{}, err
	}
	defer k.close()
	id, err := questions.NewSignalID(l, "a-")
	if err != nil {
		return Told{}, err
	}
	content := sealedAlert{
		V: 1, Kind: "alert", ID: id, From: a.Sender, Message: a.Message, AlertType: a.Type, Context: a.Context,
		Priority:  a.Priority,
		CreatedAt: orchestrator.Stamp(l.Now()),
	}
	if a.SessionID != orchestrator.DefaultSession { // the default session carries no information
		content.SessionID = a.SessionID
	}
	d := questions.AlertDraft{
		ID: id, Sender: a.Sender, Encrypted: a.Encrypted, Priority: orchestrator.PriorityOf(content.Priority),
		SessionID: a.SessionID, MessageID: a.MessageID, Devices: to.ids,
	}
	if d.Body, err = body(content, a.Encrypted, to, k); err != nil {
		return Told{}, err
	}
	stored, pushed, err := questions.AlertUser(ctx, l, d)
	if err == nil && a.Encrypted && len(to.ids) == 0 {
		_ = resealKept(ctx, l, k) // a device may have been approved in the meantime; if this fails, a sweep does it
	}
	return Told{stored, to.shown(a.Encrypted), to.told(pushed), to.unused}, err
}

// body returns the stored form of an alert: JSON, or data encrypted for the devices that can read it. If there is no
// such device, the data is encrypted for the key that is kept until there is one.
func body(content sealedAlert, encrypted bool, to readers, k *keys) (string, error) {
	if !encrypted {
		plain, err := orchestrator.JSON(content)
		return string(plain), err
	}
	if len(to.recipients) == 0 {
		identity, err := k.kept(true)
		if err != nil {
			return "", err
		}
		to.recipients = []age.Recipient{identity.Recipient()}
	}
	return seal(content, to.recipients)
}

func (a *Alert) check() error {
	if err := checkText("message", a.Message, 1, maxQuestion); err != nil {
		return err
	}
	if err := checkText("context", a.Context, 0, maxContext); err != nil {
		return err
	}
	if !slices.Contains([]string{"error", "warning", "success", "info"}, a.Type) {
		return orchestrator.InvalidParam("alertType", "must be error, warning, success, or info")
	}
	return checkPriority(a.Priority)
}

// keptFile is the file of the identity to which alerts are sealed while there is no device.
const keptFile = "k-keptalerts"

type keptKey struct {
	Identity string `json:"identity"`
}

// kept returns the key of this machine for which alerts are encrypted while there is no device. It returns nil if
// there is no key yet and create is false. Two processes that create a key at the same time agree on one.
func (k *keys) kept(create bool) (*age.X25519Identity, error) {
	var stored keptKey
	err := k.read(".", keptFile, &stored)
	if errors.Is(err, fs.ErrNotExist) && !create {
		return nil, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		var made *age.X25519Identity
		if made, err = age.GenerateX25519Identity(); err == nil {
			err = k.create(".", keptFile, keptKey{made.String()})
		}
		if err == nil {
			err = k.read(".", keptFile, &stored)
		}
	}
	if err != nil {
		return nil, err
	}
	identity, err := age.ParseX25519Identity(stored.Identity)
	if err != nil { // the cause could repeat the contents of the file
		return nil, orchestrator.Errorf(orchestrator.Unavailable, "%s does not contain a valid key",
			filepath.Join(k.path, keptFile)).
			WithHint("Remove the file. Mailroom then creates a new key. Alerts that were encrypted with the old key are lost")
	}
	return identity, nil
}

// keptAlerts is how many of the newest alerts a device shows, and therefore how many are sealed again for a new
// device.
const keptAlerts = 50

// resealKept seals the newest alerts that no device could read for the devices that can now read, if there are any.
// Several processes may do so at the same time; the first to replace an alert wins. The key is kept, since another
// process may be about to use it.
func resealKept(ctx context.Context, l *ledger.Ledger, k *keys) error {
	identity, err := k.kept(false)
	if err != nil || identity == nil {
		return err
	}
	to, err := k.readers(ctx, l)
	if err != nil || len(to.recipients) == 0 {
		return err
	}
	alerts, err := questions.Alerts(ctx, l, keptAlerts)
	if err != nil {
		return err
	}
	for i := range alerts {
		plain, err := open(alerts[i].Body, identity, maxAnswer)
		if err != nil {
			continue // it was sealed for devices, or not at all
		}
		sealed, err := sealBytes(plain, to.recipients)
		if err != nil {
			return err
		}
		err = questions.ReplaceAlert(ctx, l, alerts[i].ID, alerts[i].Body, sealed)
		if code := orchestrator.CodeOf(err); err != nil && code != orchestrator.NotFound &&
			code != orchestrator.Conflict {
			return err
		}
	}
	return nil
}
