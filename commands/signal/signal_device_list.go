package signal

import (
	"context"
	"slices"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/person"
	"mailroom/orchestrator/questions"
)

// Device is a phone, a browser at the console, or the ntfy topic.
type Device struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Kind  string `json:"kind"`  // app, desk (a browser at the console) or ntfy
	State string `json:"state"` // waiting, active or revoked
	// approved on this machine, with its present key; nothing is encrypted for any other device
	Approved    bool   `json:"approved"`
	Fingerprint string `json:"fingerprint,omitempty"`
	CreatedAt   string `json:"createdAt"`
	ApprovedAt  string `json:"approvedAt,omitempty"`
	RevokedAt   string `json:"revokedAt,omitempty"`
	SeenAt      string `json:"seenAt,omitempty"`
	PushHost    string `json:"pushHost,omitempty"`
	PushProblem string `json:"pushProblem,omitempty"`
	PushedAt    string `json:"pushedAt,omitempty"`
	PushOutcome string `json:"pushOutcome,omitempty"` // of the last push
}

// shown returns a device in the form of this vocabulary.
func shown(d *questions.Device, approved bool) Device {
	return Device{
		ID: d.ID, Name: d.Name, Kind: d.Kind, State: d.State, Approved: approved, Fingerprint: d.Fingerprint,
		CreatedAt:  d.CreatedAt,
		ApprovedAt: d.ApprovedAt, RevokedAt: d.RevokedAt, SeenAt: d.SeenAt, PushHost: d.PushHost,
		PushProblem: d.PushProblem,
		PushedAt:    d.PushedAt, PushOutcome: d.PushOutcome,
	}
}

// DeviceListResult lists the devices, oldest first.
type DeviceListResult struct {
	Devices []Device `json:"devices"`
}

var deviceListCommand = commands.Define(vocabulary, "signal device list", deviceList)

// deviceList lists the devices. It changes nothing.
func deviceList(ctx context.Context, env commands.Env, _ struct{}) (DeviceListResult, error) {
	if err := person.Here(ctx, env.Ledger); err != nil {
		return DeviceListResult{}, err
	}
	devices, err := questions.Devices(ctx, env.Ledger)
	if err != nil {
		return DeviceListResult{}, err
	}
	approved, err := person.Approved(env.Ledger, devices)
	r := DeviceListResult{Devices: make([]Device, len(devices))}
	for i := range devices {
		r.Devices[i] = shown(&devices[i], slices.Contains(approved, devices[i].ID))
	}
	return r, err
}

// Text writes a line for each device.
func (r DeviceListResult) Text(w *terminal.Text) {
	if len(r.Devices) == 0 {
		w.Printf("There are no devices. To pair a phone, run `mailroom signal pair`.\n")
		return
	}
	terminal.TableOf(w, []string{"DEVICE", "NAME", "STATE", "FINGERPRINT", "SEEN", "PUSHED THROUGH", "LAST PUSH"},
		r.Devices, func(d *Device) []string {
			state, push := d.State, d.PushHost
			if d.State == questions.DeviceActive && d.Kind != questions.DeviceNtfy && !d.Approved {
				state += ", not approved on this machine"
			}
			if d.PushProblem != "" {
				push = "problem: " + d.PushProblem
			}
			return []string{d.ID, d.Name, state, d.Fingerprint, w.When(d.SeenAt), push, d.PushOutcome}
		})
}
