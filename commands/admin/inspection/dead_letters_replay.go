package inspection

import (
	"context"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
)

// DeadLettersReplayParams names one dead letter, or selects many.
type DeadLettersReplayParams struct {
	MessageID string `json:"message_id,omitempty" desc:"ID of the dead letter, or multicast_id of a send to a group" check:"id" arg:"1"`
	All       bool   `json:"all,omitempty" desc:"replay all dead letters that match recipient, sender, and error"`
	Recipient string `json:"recipient,omitempty" desc:"only dead letters to this recipient; requires the parameter all" check:"agent"`
	Sender    string `json:"sender,omitempty" desc:"only dead letters from this sender; requires the parameter all" check:"agent"`
	Error     string `json:"error,omitempty" desc:"only dead letters with a similar error; requires the parameter all" check:"max=65536"`
	Limit     int    `json:"limit,omitempty" desc:"maximum number of dead letters to replay with the parameter all" check:"min=1,max=100000" default:"1000"`
}

// DeadLettersReplayResult lists the messages that are pending again. Skipped counts those with an unknown recipient
// or sender.
type DeadLettersReplayResult struct {
	Replayed []string `json:"replayed"`
	Skipped  int      `json:"skipped"`

	noDaemon bool // for people
}

var deadLettersReplayCommand = commands.Define(vocabulary, "dead_letters replay", deadLettersReplay).
	With(commands.Traits{
		Confirm: "This sends {foreseen} again.", ConfirmWith: "all",
		Last: func(m *orchestrator.Message, _ string) bool {
			return m.Status == orchestrator.Failed || m.Status == orchestrator.Expired
		},
	}).Foreseeing(countReplayed)

func deadLettersReplay(ctx context.Context, env commands.Env, p DeadLettersReplayParams) (DeadLettersReplayResult,
	error) {
	var r DeadLettersReplayResult
	if p.All == (p.MessageID != "") {
		return r, orchestrator.Errorf(orchestrator.InvalidParams, "message_id: give either the ID of a dead letter or `all`").
			WithHint("Run `mailroom dead_letters replay ID`, or run `mailroom dead_letters replay --all` with a recipient or a sender")
	}
	if !p.All && p.Recipient+p.Sender+p.Error != "" {
		return r, orchestrator.InvalidParam("all", "`recipient`, `sender`, and `error` are filters that require `all`").
			WithHint("A replay keeps the recipient. To reach another recipient, send the text in a new message")
	}
	var ms []orchestrator.Message
	var err error
	if p.All {
		var filter messages.DeadLetterFilter
		if filter, err = p.filter(env.Caller); err != nil {
			return r, err
		}
		ms, r.Skipped, err = messages.ReplayAll(ctx, env.Ledger, filter)
	} else {
		ms, err = messages.Replay(ctx, env.Ledger, p.MessageID, env.Caller.Name)
	}
	for i := range ms {
		r.Replayed = append(r.Replayed, ms[i].ID)
	}
	r.noDaemon = commands.NoDaemon(ctx, env)
	return r, err
}

// filter returns the filter for the parameter all. An agent can replay only dead letters that it sent itself.
func (p *DeadLettersReplayParams) filter(caller commands.Caller) (f messages.DeadLetterFilter, err error) {
	f = messages.DeadLetterFilter{Recipient: p.Recipient, Sender: p.Sender, Error: p.Error, Limit: p.Limit,
		Own: caller.Name != ""}
	if f.Own {
		f.Sender, err = commands.ActAs(caller, p.Sender)
	}
	return f, err
}

// countReplayed counts the dead letters that the parameter all selects, including those that would be skipped.
func countReplayed(ctx context.Context, env commands.Env, p DeadLettersReplayParams) (string, error) {
	filter, err := p.filter(env.Caller)
	if err != nil {
		return "", err
	}
	n, err := messages.CountForReplay(ctx, env.Ledger, filter)
	return orchestrator.Plural(int(n), "dead letter"), err
}

// Text writes the counts, and the ids of the messages.
func (r DeadLettersReplayResult) Text(w *terminal.Text) {
	w.Printf("Replayed %d, skipped %d.\n", len(r.Replayed), r.Skipped)
	for _, id := range r.Replayed {
		w.Printf("%s\n", id)
	}
	if r.noDaemon && len(r.Replayed) > 0 {
		commands.TellNoDaemon(w, "the messages are")
	}
	if r.Skipped > 0 {
		w.Printf("The skipped dead letters have an unknown sender or recipient. To add a missing agent, run `mailroom agent add NAME`.\n")
	}
}
