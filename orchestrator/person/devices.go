package person

import (
	"context"
	"errors"
	"strings"

	"filippo.io/age"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/questions"
)

// devicePin is the stored record of an approved device. Content is sealed to this recipient and to no other.
type devicePin struct {
	Recipient string `json:"recipient"`
}

// Approve lets the device with a fingerprint read questions and alerts from now on, and the alerts that were kept
// because no device could read them. The fingerprint may be in upper or lower case, with or without dashes and
// spaces. It is compared with the fingerprint of the device's recipient. Approve is idempotent. It also approves a
// device that is active in the table but was not approved here. Errors: invalid_params; not_found if no device has
// the fingerprint; conflict if several have it. If only the kept alerts could not be sealed again, Approve returns an
// error, but the device is active.
func Approve(ctx context.Context, l *ledger.Ledger, fingerprint string) (questions.Device, error) {
	if len(fingerprint) > 64 || len(strings.NewReplacer("-", "", " ", "").Replace(fingerprint)) != 16 {
		return questions.Device{},
			orchestrator.InvalidParam("fingerprint", "must have 16 characters; dashes and spaces are ignored").
				WithHint("Enter the complete fingerprint that the phone shows")
	}
	devices, err := questions.Devices(ctx, l)
	if err != nil {
		return questions.Device{}, err
	}
	var found []questions.Device
	var ids []string
	for _, d := range devices {
		if d.State != questions.DeviceRevoked &&
			questions.SameFingerprint(fingerprint, questions.Fingerprint(d.Recipient)) {
			found, ids = append(found, d), append(ids, d.ID)
		}
	}
	switch len(found) {
	case 1:
		return approve(ctx, l, &found[0])
	case 0:
		return questions.Device{}, orchestrator.Errorf(orchestrator.NotFound, "no paired device has this fingerprint").
			WithHint("To list the paired devices, run `mailroom signal device list`. The phone shows its own fingerprint")
	}
	return questions.Device{},
		orchestrator.Errorf(orchestrator.Conflict,
			"%d devices have this fingerprint, but at most one of them is the phone: %s", len(ids),
			strings.Join(ids, ", ")).
			WithHint("Revoke each of them with `mailroom signal device revoke ID`, and then pair the phone again")
}

func approve(ctx context.Context, l *ledger.Ledger, waiting *questions.Device) (questions.Device, error) {
	if _, err := age.ParseX25519Recipient(waiting.Recipient); err != nil {
		return *waiting,
			orchestrator.Errorf(orchestrator.Conflict, "the key of the device %s is not valid", waiting.ID).
				WithHint("Run `mailroom signal device revoke %s`, and then pair the phone again", waiting.ID)
	}
	if err := Here(ctx, l); err != nil {
		return *waiting, err
	}
	if err := stay(ctx, l); err != nil {
		return *waiting, err
	}
	k, err := openKeys(l, true)
	if err != nil {
		return *waiting, err
	}
	defer k.close()
	if err := k.write(devicesFolder, waiting.ID, devicePin{waiting.Recipient}); err != nil {
		return *waiting, err
	}
	d, err := questions.ActivateDevice(ctx, l, waiting.ID, waiting.Recipient)
	if code := orchestrator.CodeOf(err); code == orchestrator.Conflict || code == orchestrator.NotFound {
		// The device was revoked in the meantime.
		err = errors.Join(err, k.remove(devicesFolder, waiting.ID))
	}
	if err != nil {
		return d, err
	}
	if err := resealKept(ctx, l, k); err != nil {
		return d, &orchestrator.Error{
			Code: orchestrator.CodeOf(err), Err: err,
			Message: "the device " + d.ID +
				" is active, but the stored alerts could not be encrypted for it",
			Hint: "The device can read new questions and alerts. The daemon tries again every minute. To try again now, approve the device again",
		}
	}
	return d, nil
}

// Approved returns the IDs of the devices that were approved on this machine with the recipients that are in the
// table.
func Approved(l *ledger.Ledger, devices []questions.Device) (ids []string, err error) {
	k, err := openKeys(l, false)
	if err != nil {
		return nil, err
	}
	defer k.close()
	for i := range devices {
		recipient, err := k.pinned(&devices[i])
		if err != nil {
			return nil, err
		}
		if recipient != nil {
			ids = append(ids, devices[i].ID)
		}
	}
	return ids, nil
}

// Revoke withdraws a device: it cannot decrypt any later question or alert. Error: not_found.
func Revoke(ctx context.Context, l *ledger.Ledger, id string) (questions.Device, error) {
	unpinned := unpin(l, id) // first: a device without a pin receives nothing, whatever is in the table
	d, err := questions.RevokeDevice(ctx, l, id)
	return d, errors.Join(err, unpinned, unpin(l, id)) // again, since the device may have been approved in between
}

func unpin(l *ledger.Ledger, id string) error {
	if !plainID(id) {
		return nil // no device with such an ID was ever approved
	}
	k, err := openKeys(l, false)
	if err != nil {
		return err
	}
	defer k.close()
	return k.remove(devicesFolder, id)
}
