package operations

import (
	"context"
	"fmt"
	"strings"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// RestoreParams names a backup.
type RestoreParams struct {
	File  string `json:"file" desc:"backup to restore" check:"min=1,max=4096" arg:"1"`
	Force bool   `json:"force,omitempty" desc:"restore even if the current database has undelivered messages"`
}

// RestoreResult describes the restored database, counts the revoked tokens and phones, and holds where the previous
// database is saved.
type RestoreResult struct {
	Database string `json:"database"`
	Messages int64  `json:"messages"`
	// Missing counts the messages of the previous database that are not in the backup.
	Missing int64 `json:"messages_not_in_backup"`
	// Adds lists the commands, addresses and schedules of the backup that the previous database did not have.
	Adds    []string `json:"outside_added,omitempty"`
	Revoked int64    `json:"tokens_revoked"`
	Devices int64    `json:"devices_revoked"`
	// Untrusted is why the database has no effect outside itself until it is trusted.
	Untrusted string `json:"untrusted,omitempty"`
	Previous  string `json:"previous,omitempty"`
}

var restoreCommand = commands.Define(vocabulary, "restore", restore).With(commands.Traits{
	HereOnly: true, MakesOne: true,
	Confirm: "This replaces all current messages with those in {file}.{foreseen}",
}).Foreseeing(foreseeRestore)

// restore replaces the content of the database in one transaction, so that other processes need not be stopped.
func restore(ctx context.Context, env commands.Env, p RestoreParams) (RestoreResult, error) {
	r, err := env.Ledger.Restore(ctx, p.File, p.Force)
	return RestoreResult{
		Database: env.Ledger.Path(), Messages: r.Messages, Missing: r.Missing, Adds: r.Adds, Revoked: r.Ended["tokens"], Devices: r.Ended["devices"],
		Untrusted: r.Untrusted, Previous: r.Previous,
	}, err
}

// foreseeRestore describes what the restore would remove and add.
func foreseeRestore(ctx context.Context, env commands.Env, p RestoreParams) (string, error) {
	found, err := ledger.CompareBackup(ctx, env.Ledger, p.File)
	if err == nil && !p.Force {
		err = store.KeepsUndelivered(found.Undelivered)
	}
	if err != nil {
		return "", err
	}
	says := fmt.Sprintf(" The database is %s. The backup has %s.", env.Ledger.Path(), orchestrator.Plural(int(found.Messages), "message"))
	for _, line := range changes(found) {
		says += "\n" + line
	}
	return says, nil
}

// changes describes in lines what a restore removes and adds.
func changes(found store.Compared) (lines []string) {
	if found.Missing > 0 {
		lines = append(lines, "The backup does not have "+orchestrator.Plural(int(found.Missing), "message")+" of the current database.")
	}
	if len(found.Adds) > 0 {
		lines = append(lines, "The backup triggers actions outside the database that the current database does not trigger:")
		for _, does := range found.Adds {
			lines = append(lines, "  "+strings.ReplaceAll(does, "\n", " "))
		}
	}
	return lines
}

// Text writes what was done.
func (r RestoreResult) Text(w *terminal.Text) {
	w.Printf("Restored %s into %s.\n", orchestrator.Plural(int(r.Messages), "message"), r.Database)
	for _, line := range changes(store.Compared{Missing: r.Missing, Adds: r.Adds}) {
		w.Printf("%s\n", line)
	}
	for _, revoked := range []struct {
		n    int64
		what string
	}{{r.Revoked, "token"}, {r.Devices, "device"}} {
		if revoked.n > 0 {
			w.Printf("Revoked: %s.\n", orchestrator.Plural(int(revoked.n), revoked.what))
		}
	}
	if r.Untrusted != "" {
		w.Printf("The database is not trusted: %s. Until you run `mailroom trust`, Mailroom performs no actions outside it.\n", r.Untrusted)
	}
	if r.Previous != "" {
		w.Printf("The previous database is saved in %s.\n", r.Previous)
	}
}
