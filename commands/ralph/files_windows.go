package ralph

import (
	"context"

	"mailroom/commands"
	"mailroom/orchestrator"
)

// WatchResult is empty: nothing is watched on Windows.
type WatchResult struct{}

func watch(context.Context, commands.Env, WatchParams) (r WatchResult, err error) {
	return r, orchestrator.Errorf(orchestrator.InvalidParams, "folders of files are not watched on Windows").
		WithHint("Run `mailroom ralph watch` on Linux or macOS, where the folders are")
}

// removeFile finds no file: no agent of this machine has a folder.
func removeFile(string, *orchestrator.Message, string) (removed bool, err error) { return false, nil }
