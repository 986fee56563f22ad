package agents_test

import (
	"errors"
	"strings"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/teams"
	"mailroom/orchestrator/threads"
)

// An unknown acting or named agent is an error that describes what to do, even if no known name is similar.
func TestUnknownNamesSayWhatToDo(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "architect")
	const nobody = "zzz"
	for name, act := range map[string]func() error{
		"joining": func() error {
			_, err := agents.Join(t.Context(), f.Ledger, agents.Joining{Session: "s", Agent: nobody})
			return err
		},
		"taking part": func() error {
			return teams.TakePart(t.Context(), f.Ledger, agents.Joining{Session: "s", Agent: nobody}, false)
		},
		"a thread": func() error {
			_, err := threads.Create(t.Context(), f.Ledger, threads.Draft{Session: "s", Name: "x", Creator: nobody})
			return err
		},
		"a participant": func() error {
			_, err := threads.Create(t.Context(), f.Ledger,
				threads.Draft{Session: "s", Name: "x", Creator: "architect", Participants: []string{nobody}})
			return err
		},
		"a send": func() error {
			_, err := messages.Send(t.Context(), f.Ledger, orchestrator.Draft{Sender: nobody, Recipient: "architect"})
			return err
		},
		"a broadcast": func() error {
			_, err := teams.Send(t.Context(), f.Ledger,
				orchestrator.Draft{SessionID: "s", Sender: nobody, Recipient: teams.Teammates})
			return err
		},
		"the end of a turn": func() error {
			_, err := teams.EndTurn(t.Context(), f.Ledger, "", orchestrator.Draft{SessionID: "s", Sender: nobody})
			return err
		},
		"a lead": func() error {
			_, err := teams.EndTurn(t.Context(), f.Ledger, nobody,
				orchestrator.Draft{SessionID: "s", Sender: "architect"})
			return err
		},
		"a wait": func() error {
			_, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: nobody, Limit: 1})
			return err
		},
	} {
		var e *orchestrator.Error
		if err := act(); !errors.As(err, &e) ||
			!strings.HasPrefix(e.Hint, "To add the agent, run `mailroom agent add zzz`") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
