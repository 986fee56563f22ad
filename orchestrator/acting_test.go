package orchestrator_test

import (
	"errors"
	"strings"
	"testing"

	"mailroom/orchestrator"
)

// Whoever acts or is named must be known; wherever it is not, the error says what to do about it, also when no known name
// is near.
func TestUnknownNamesSayWhatToDo(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "architect")
	const nobody = "zzz"
	for name, act := range map[string]func() error{
		"joining": func() error {
			_, err := f.Join(t.Context(), orchestrator.Joining{Session: "s", Agent: nobody})
			return err
		},
		"taking part": func() error {
			return f.TakePart(t.Context(), orchestrator.Joining{Session: "s", Agent: nobody}, false)
		},
		"a thread": func() error {
			_, err := f.CreateThread(t.Context(), orchestrator.ThreadDraft{Session: "s", Name: "x", Creator: nobody})
			return err
		},
		"a participant": func() error {
			_, err := f.CreateThread(t.Context(), orchestrator.ThreadDraft{Session: "s", Name: "x", Creator: "architect", Participants: []string{nobody}})
			return err
		},
		"a send": func() error {
			_, err := f.Send(t.Context(), orchestrator.Draft{Sender: nobody, Recipient: "architect"})
			return err
		},
		"a broadcast": func() error {
			_, err := f.SendToTeam(t.Context(), orchestrator.Draft{SessionID: "s", Sender: nobody, Recipient: orchestrator.Teammates})
			return err
		},
		"the end of a turn": func() error {
			_, err := f.EndTurn(t.Context(), "", orchestrator.Draft{SessionID: "s", Sender: nobody})
			return err
		},
		"a lead": func() error {
			_, err := f.EndTurn(t.Context(), nobody, orchestrator.Draft{SessionID: "s", Sender: "architect"})
			return err
		},
		"a wait": func() error {
			_, _, err := f.Wait(t.Context(), orchestrator.WaitOptions{Recipient: nobody, Limit: 1})
			return err
		},
	} {
		var e *orchestrator.Error
		if err := act(); !errors.As(err, &e) || !strings.HasPrefix(e.Hint, "Add the agent with `mailroom agent add zzz`") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
