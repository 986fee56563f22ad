package signal

import (
	"cmp"
	"context"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/person"
	"mailroom/tracing"
)

// SendAlertParams describes an alert to the person. Source: document 000, "send_alert".
type SendAlertParams struct {
	Message   string `json:"message" desc:"text of the alert" check:"private,characters,min=1,max=2000" arg:"rest"`
	AlertType string `json:"alertType,omitempty" desc:"kind of alert" check:"oneof=error|warning|success|info" default:"info"`
	Priority  string `json:"priority,omitempty" desc:"notification: low is silent, high stays until the person acts on it; default: high for an error, otherwise normal" check:"oneof=low|normal|high"`
	Context   string `json:"context,omitempty" desc:"additional context" check:"private,characters,max=500"`
	SessionID string `json:"sessionId,omitempty" desc:"session that the alert belongs to; default: the caller's session" check:"max=256"`
	Encrypt   bool   `json:"encrypt,omitempty" desc:"encrypt the alert end to end, so only the person's devices can read it" default:"true"`
	Source    string `json:"source,omitempty" desc:"program that sends the alert; may be left out if the caller's credential names it" check:"agent"`
}

// SendAlertResult names the alert.
type SendAlertResult struct {
	AlertID string `json:"alertId"`
	Devices int    `json:"devices"`        // that can show the alert
	Note    string `json:"note,omitempty"` // what may prevent its display
}

var sendAlertCommand = commands.Define(vocabulary, "send_alert", sendAlert).
	With(commands.Traits{Kind: tracing.Producer, BesideAny: true, Document: true}).
	Called("alert", "", "Tell the person something that needs no answer")

// sendAlert sends an alert. The alert is durable when sendAlert returns. An encrypted alert is encrypted in this
// process.
func sendAlert(ctx context.Context, env commands.Env, p SendAlertParams) (SendAlertResult, error) {
	source, err := commands.ActAs(env.Caller, p.Source)
	if err != nil {
		return SendAlertResult{}, err
	}
	told, err := person.Tell(ctx, env.Ledger, person.Alert{
		Sender: source, Message: p.Message, Type: p.AlertType, Context: p.Context, Priority: p.Priority,
		Encrypted: p.Encrypt, SessionID: cmp.Or(p.SessionID, env.Caller.Session),
	})
	if err != nil {
		return SendAlertResult{}, err
	}
	return SendAlertResult{told.ID, told.Devices,
		noteOf(ctx, env, told.Unused, told.Devices, told.Pushed,
			"No device can show the alert. Mailroom keeps it for the first device that you approve")}, nil
}

// Text writes the result for people.
func (r SendAlertResult) Text(w *terminal.Text) {
	if r.Devices == 0 {
		w.Printf("Stored alert %s. No device has received it yet.\n", w.Paint(terminal.Bold, r.AlertID))
	} else {
		w.Printf("Sent alert %s (devices: %d).\n", w.Paint(terminal.Bold, r.AlertID), r.Devices)
	}
	if r.Note != "" {
		w.Printf("%s.\n", r.Note)
	}
}
