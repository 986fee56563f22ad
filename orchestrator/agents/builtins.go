package agents

import (
	"context"
	"slices"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
)

// BuiltInsIn returns the operator and the user, as the configuration knows them, sorted by name.
func BuiltInsIn(conf *ledger.Config) []ledger.Agent {
	return Of(conf, []string{orchestrator.Operator, orchestrator.User})
}

// BuiltIns returns the recipients that always exist and are no agents: the operator and the user. Their Note is set if
// an agent or a group in the tables has the same name; that one is not used.
func BuiltIns(ctx context.Context, l *ledger.Ledger) ([]ledger.Agent, error) {
	conf, err := l.Configuration(ctx)
	if err != nil {
		return nil, err
	}
	return BuiltInsIn(conf), nil
}

// userSchemes are the transports to the user and the user's devices, which no agent can have.
var userSchemes = []string{"person", "push", "ntfy"}

// askingTypes are the message types that want an answer of whoever gets them, in the vocabularies that have such.
var askingTypes = []string{"QUERY", "question", "plan_approval_request", "shutdown_request"}

// AsksUser reports whether a message of this type to orchestrator.User becomes a question on the user's devices. Others
// become alerts.
func AsksUser(messageType string) bool { return slices.Contains(askingTypes, messageType) }

// MayReachUser checks whether the user has a device that could show a message. If there is none, a message that asks is
// refused; any other is kept, and note tells its sender that it waits.
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

// CheckActor returns an error if the name is the user's: nobody acts as the user. Error: unknown_sender.
func CheckActor(name string) error {
	if name == orchestrator.User {
		return orchestrator.Errorf(orchestrator.UnknownSender,
			"`%s` is reserved for the person who runs the agents and answers on a phone, so you cannot act as `%[1]s`", orchestrator.User).
			WithHint("Act as an agent. To list the agents, run `mailroom agent list`")
	}
	return nil
}

// NoMember returns the error for a built-in name that was to become part of a group, a session or a thread; of says
// which.
func NoMember(name, of string) *orchestrator.Error {
	return orchestrator.Errorf(orchestrator.InvalidParams, "`%s` cannot be part of a %s, because the name is reserved for %s", name, of,
		orchestrator.BuiltIns[name]).WithHint("Send the message to `%s` directly", name)
}
