package route

import (
	"cmp"
	"context"

	"mailroom/commands"
	"mailroom/commands/parameter"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/tracing"
)

// DeliverAllParams configures a delivery run. Source: document 004, "Operation 2: Deliver All Pending Messages".
type DeliverAllParams struct {
	Recipient string            `json:"recipient,omitempty" desc:"deliver only to this agent" check:"agent"`
	Timeout   parameter.Seconds `json:"delivery_timeout_seconds,omitempty" desc:"time limit of one attempt; default: the agent's limit, or the setting delivery.timeout" check:"min=1,max=3600"`
	BatchSize int               `json:"batch_size,omitempty" desc:"messages per claim, not a limit on the run; default: the setting delivery.claim_size" check:"min=1,max=10000"`
	Wait      bool              `json:"wait,omitempty" desc:"wait for slow transports; false: answer when the inbox deliveries are done" default:"true"`
}

// DeliverAllResult is the answer defined by document 004. Errors lists the failed attempts of this run.
type DeliverAllResult struct {
	Delivered int              `json:"messages_delivered"`
	Failed    int              `json:"messages_failed"`
	PutOff    int              `json:"messages_put_off,omitempty"`    // the recipient asked for a later attempt
	Disabled  []string         `json:"transports_disabled,omitempty"` // agents whose address no longer exists
	Untrusted string           `json:"untrusted,omitempty"`           // why nothing is delivered outside the database
	Summary   []delivery.Count `json:"delivery_summary"`
	Errors    []AttemptError   `json:"errors,omitempty"`
	Timestamp string           `json:"timestamp"`
}

// AttemptError is the error object of document 004 for one failed attempt.
type AttemptError struct {
	Success bool `json:"success"` // always false
	delivery.FailedAttempt
}

var deliverAllCommand = commands.Define(vocabulary, "deliver_all", deliverAll).
	With(commands.Traits{Kind: tracing.Consumer, Document: true})

// deliverAll delivers everything that is due. Failed attempts do not fail the run.
func deliverAll(ctx context.Context, env commands.Env, p DeliverAllParams) (DeliverAllResult, error) {
	apart := env.Caller.Remote && !env.Caller.Admin
	if apart && p.Timeout > 0 && p.Recipient != env.Caller.Name {
		return DeliverAllResult{},
			orchestrator.Errorf(orchestrator.PermissionDenied,
				"delivery_timeout_seconds: only an administrator may set it for deliveries to other agents").
				WithHint("Omit delivery_timeout_seconds, or give your own name as the recipient")
	}
	d, err := env.Engine.DeliverAll(ctx, delivery.Options{
		Recipient: p.Recipient, Timeout: p.Timeout.Duration(), ClaimSize: p.BatchSize, Background: !p.Wait,
	})
	if err != nil {
		return DeliverAllResult{}, err
	}
	r := DeliverAllResult{Delivered: d.Delivered, Failed: d.Failed, PutOff: d.PutOff, Disabled: d.Disabled,
		Summary: d.Summary, Timestamp: timestamp(env)}
	if !apart {
		r.Untrusted = d.Untrusted
	}
	for _, failed := range d.Errors {
		if apart && failed.Recipient != env.Caller.Name {
			continue // the output of other agents' commands and servers is confidential
		}
		r.Errors = append(r.Errors, AttemptError{FailedAttempt: failed})
	}
	return r, nil
}

// Text writes the counts, and the failed attempts.
func (r DeliverAllResult) Text(w *terminal.Text) {
	w.Printf("Delivered: %d. Failed attempts: %d.\n", r.Delivered, r.Failed)
	if r.PutOff > 0 {
		w.Printf("Deferred because the recipient asked for a later attempt: %d. To see when a message is due, run `mailroom why ID`.\n",
			r.PutOff)
	}
	for _, name := range r.Disabled {
		w.Printf("The address of %[1]s no longer exists, so Mailroom disabled its transport. To set another transport, run `mailroom agent add %[1]s --deliver ...`.\n", name)
	}
	commands.NotTrusted(w, r.Untrusted)
	for _, e := range r.Errors { // not in a table, because cells are cut, and the reason must be shown whole
		w.Printf("\n")
		w.Fields([2]string{"message", e.MessageID}, [2]string{"to", e.Recipient},
			[2]string{"retry at", cmp.Or(e.RetryAt, "never (dead letter)")}, [2]string{"reason", e.Message})
	}
}
