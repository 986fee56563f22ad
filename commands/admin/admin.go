// Package admin is the vocabulary for those who run Mailroom: agents and groups, settings and schedules, and every way
// of asking what happened.
package admin

import (
	"context"
	"embed"

	"mailroom/commands"
	"mailroom/orchestrator/overview"
)

//go:embed *.md
var cards embed.FS

var vocabulary = &commands.Vocabulary{Name: "admin", Cards: cards, FoldCase: true, TopLevel: true}

// Look is a check that doctor makes beside its own. With mend it may repair what it finds.
type Look func(ctx context.Context, env commands.Env, mend bool) overview.Findings

// Definitions lists the commands in the order in which they are shown. doctor also makes these checks.
func Definitions(looks ...Look) []*commands.Definition {
	return []*commands.Definition{
		statusCommand.Definition,
		statsCommand.Definition,
		nowCommand.Definition,
		roomCommand.Definition,
		agentAddCommand.Definition,
		agentListCommand.Definition,
		agentShowCommand.Definition,
		agentRemoveCommand.Definition,
		agentDisableCommand.Definition,
		agentEnableCommand.Definition,
		agentTokenCommand.Definition,
		groupSetCommand.Definition,
		groupAddCommand.Definition,
		groupRemoveCommand.Definition,
		groupDeleteCommand.Definition,
		groupListCommand.Definition,
		messagesListCommand.Definition,
		deadLettersListCommand.Definition,
		deadLettersGroupsCommand.Definition,
		deadLettersReplayCommand.Definition,
		traceCommand.Definition,
		whyCommand.Definition,
		sqlCommand.Definition,
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
		demoCommand.Definition,
	}
}
