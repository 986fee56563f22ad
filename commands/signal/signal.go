// Package signal is the second half of document 000: questions and alerts that reach a person's phone, under the
// document's own names, and the commands that manage phones. Encryption is in package orchestrator/person.
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

// Definitions lists the document's commands in its order, then Mailroom's own.
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

// noteOf returns what may prevent the display of a question or an alert that was stored, or "" if nothing does.
// nobody is the text for the case that there is no device.
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
		env.Log.Warn("cannot determine whether pushes are sent", "error", err) // the question or alert was stored
	}
	switch {
	case untrusted != "":
		notes = append(notes, "Mailroom sends no pushes "+ledger.UntilTrusted+": "+ledger.NotTrusted)
	case devices > 0 && pushed == 0:
		notes = append(notes, "No device can receive pushes now. The question or alert appears when the app or the console is opened")
	}
	return strings.Join(notes, ". ")
}
