package signal

import (
	"context"

	"mailroom/commands"
	"mailroom/orchestrator/person"
)

// DeviceRevokeParams names the device to revoke.
type DeviceRevokeParams struct {
	ID string `json:"id" desc:"device to revoke" check:"id" arg:"1"`
}

var deviceRevokeCommand = commands.Define(vocabulary, "signal device revoke", deviceRevoke).
	With(commands.Traits{Confirm: "This revokes the device {id}. To use the device again, you must pair it again."}).Knowing("id", knownDevices)

// deviceRevoke revokes a device. The device keeps what it has already read.
func deviceRevoke(ctx context.Context, env commands.Env, p DeviceRevokeParams) (DeviceResult, error) {
	d, err := person.Revoke(ctx, env.Ledger, p.ID)
	return DeviceResult{shown(&d, false)}, err
}
