package signal

import (
	"context"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/person"
)

// DeviceApproveParams say which device may read questions.
type DeviceApproveParams struct {
	Fingerprint string `json:"fingerprint" desc:"fingerprint that the phone shows: 16 characters, upper or lower case, with or without dashes" check:"min=16,max=64" arg:"rest"`
}

// DeviceResult is a device as it stands now.
type DeviceResult struct {
	Device Device `json:"device"`
}

var deviceApproveCommand = commands.Define(vocabulary, "signal device approve", deviceApprove).
	With(commands.Traits{HereOnly: true})

// deviceApprove is offered to nobody but who sits at this machine: an agent with an administrator's token could approve
// a phone of its own. It also seals for the device the alerts that nobody could read so far.
func deviceApprove(ctx context.Context, env commands.Env, p DeviceApproveParams) (DeviceResult, error) {
	d, err := person.Approve(ctx, env.Ledger, p.Fingerprint)
	return DeviceResult{shown(&d, err == nil)}, err
}

// Text says it in a sentence.
func (r DeviceResult) Text(w *terminal.Text) {
	w.Printf("%s (%s) is %s.\n", w.Paint(terminal.Bold, r.Device.ID), r.Device.Name, r.Device.State)
}
