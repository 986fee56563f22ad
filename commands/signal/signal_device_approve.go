package signal

import (
	"context"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/person"
)

// DeviceApproveParams holds the fingerprint of the device to approve.
type DeviceApproveParams struct {
	Fingerprint string `json:"fingerprint" desc:"fingerprint that the phone shows: 16 characters, upper or lower case, with or without dashes" check:"min=16,max=64" arg:"rest"`
}

// DeviceResult is a device in its present state.
type DeviceResult struct {
	Device Device `json:"device"`
}

var deviceApproveCommand = commands.Define(vocabulary, "signal device approve", deviceApprove).
	With(commands.Traits{HereOnly: true})

// deviceApprove approves a device for questions. Only a person at this machine can run the command, because an agent
// with an administrator's token could otherwise approve a phone of its own. deviceApprove also encrypts for the
// device the alerts that no device could read so far.
func deviceApprove(ctx context.Context, env commands.Env, p DeviceApproveParams) (DeviceResult, error) {
	d, err := person.Approve(ctx, env.Ledger, p.Fingerprint)
	return DeviceResult{shown(&d, err == nil)}, err
}

// Text writes the result for people.
func (r DeviceResult) Text(w *terminal.Text) {
	w.Printf("%s (%s) is %s.\n", w.Paint(terminal.Bold, r.Device.ID), r.Device.Name, r.Device.State)
}
