// Package signal is the second half of document 000: questions and alerts that reach a person's phone, under the
// document's own names, and what it takes to have a phone. What is sealed, and how, stands in orchestrator/person.
package signal

import (
	"context"
	"embed"
	"strings"

	"mailroom/commands"
	"mailroom/orchestrator/ledger"
)

//go:embed *.md
var cards embed.FS

var vocabulary = &commands.Vocabulary{Name: "signal", Cards: cards}

// Definitions lists the document's commands in its order, then ours.
func Definitions() []*commands.Definition {
	return []*commands.Definition{
		askQuestionCommand.Definition,
		getResponseCommand.Definition,
		sendAlertCommand.Definition,
		cancelCommand.Definition,
		listCommand.Definition,
		pairCommand.Definition,
		deviceListCommand.Definition,
		deviceApproveCommand.Definition,
		deviceRevokeCommand.Definition,
		ntfyCommand.Definition,
		doctorCommand.Definition,
	}
}

// noteOf says what is off about a question or an alert that was stored; "" when nothing is. nobody is
// what it says if there is no device.
func noteOf(ctx context.Context, env commands.Env, unused []string, devices, pushed int, nobody string) string {
	var notes []string
	if devices == 0 && nobody != "" {
		notes = append(notes, nobody)
	}
	if len(unused) > 0 {
		notes = append(notes, "Mailroom does not use these devices, because they are active in the database but were not approved on this machine: "+
			strings.Join(unused, ", "))
	}
	untrusted, err := env.Ledger.Untrusted(ctx)
	if err != nil {
		env.Log.Warn("cannot determine whether pushes are sent", "error", err) // it was stored
	}
	switch {
	case untrusted != "":
		notes = append(notes, "Mailroom sends no pushes "+ledger.UntilTrusted+": "+ledger.NotTrusted)
	case devices > 0 && pushed == 0:
		notes = append(notes, "No device can receive pushes now. The question or alert appears when the app or the console is opened")
	}
	return strings.Join(notes, ". ")
}
