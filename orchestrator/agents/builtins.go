package agents

import (
	"context"
	"slices"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
)

// BuiltInsIn returns the operator and the user from the configuration, sorted by name.
func BuiltInsIn(conf *ledger.Config) []ledger.Agent {
	return Of(conf, []string{orchestrator.Operator, orchestrator.User})
}

// BuiltIns returns the recipients that always exist and are not agents: the operator and the user. The Note of each
// is set if an agent or a group in the tables has the same name, which is then ignored.
func BuiltIns(ctx context.Context, l *ledger.Ledger) ([]ledger.Agent, error) {
	conf, err := l.Configuration(ctx)
	if err != nil {
		return nil, err
	}
	return BuiltInsIn(conf), nil
}

// userSchemes lists the transports to the user and the user's devices. No agent can have them.
var userSchemes = []string{"person", "push", "ntfy"}

// askingTypes lists the message types that ask for an answer, in all vocabularies that have such types.
var askingTypes = []string{"QUERY", "question", "plan_approval_request", "shutdown_request"}

// AsksUser reports whether a message of this type to orchestrator.User becomes a question on the user's devices.
// Messages of other types become alerts.
func AsksUser(messageType string) bool { return slices.Contains(askingTypes, messageType) }

// MayReachUser checks whether the user has a device that could show a message. If there is none, a message that
// asks is refused. Any other message is kept, and note is the text for its sender that it waits.
func MayReachUser(t *ledger.Tx, d *orchestrator.Draft) (note string, err error) {
	there, err := t.UserHasDevice()
	if err != nil || there {
		return "", err
	}
	if !AsksUser(d.Type) {
		return orchestrator.WaitsForDevice, nil
	}
	e := orchestrator.Errorf(orchestrator.Unavailable, "no paired phone can show the question to the user; nothing was sent")
	e.Recipient = orchestrator.User
	return "", e.WithHint("To pair a phone, run `mailroom signal pair`")
}

// CheckActor returns an error if name is the user's, because nobody acts as the user. Error: unknown_sender.
func CheckActor(name string) error {
	if name == orchestrator.User {
		return orchestrator.Errorf(orchestrator.UnknownSender,
			"`%s` is reserved for the person who runs the agents and answers on a phone, so you cannot act as `%[1]s`", orchestrator.User).
			WithHint("Act as an agent. To list the agents, run `mailroom agent list`")
	}
	return nil
}

// NoMember returns the error for a built-in name that cannot join a group, a session or a thread. of names the
// kind.
func NoMember(name, of string) *orchestrator.Error {
	return orchestrator.Errorf(orchestrator.InvalidParams, "`%s` cannot be part of a %s, because the name is reserved for %s", name, of,
		orchestrator.BuiltIns[name]).WithHint("Send the message to `%s` directly", name)
}
