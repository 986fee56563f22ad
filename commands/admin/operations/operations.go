// Package operations contains the commands that maintain the database and the daemon: settings and schedules;
// creating, copying and migrating a database; checks; the service; trust; and the demo, which runs commands of all
// packages.
package operations

import (
	"context"
	"embed"

	"mailroom/commands"
	"mailroom/orchestrator/overview"
)

//go:embed *.md
var cards embed.FS

var vocabulary = &commands.Vocabulary{Name: "admin", Cards: cards, FoldCase: true, TopLevel: true}

// Look is a check that doctor runs in addition to its own. With mend, it may repair what it finds.
type Look func(ctx context.Context, env commands.Env, mend bool) overview.Findings

// Definitions lists the commands in the order in which they are shown. doctor also runs the checks in looks.
func Definitions(looks ...Look) []*commands.Definition {
	return []*commands.Definition{
		settingListCommand.Definition,
		settingGetCommand.Definition,
		settingSetCommand.Definition,
		scheduleListCommand.Definition,
		scheduleAddCommand.Definition,
		scheduleRunCommand.Definition,
		scheduleRemoveCommand.Definition,
		commandsCommand.Definition,
		initCommand.Definition,
		backupCommand.Definition,
		restoreCommand.Definition,
		migrateCommand.Definition,
		checkpointCommand.Definition,
		clearTracesCommand.Definition,
		recountCommand.Definition,
		doctorCommand(looks).Definition,
		serviceInstallCommand.Definition,
		trustCommand.Definition,
		holdCommand.Definition,
		demoCommand.Definition,
	}
}
