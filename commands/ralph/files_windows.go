package ralph

import (
	"context"

	"mailroom/commands"
	"mailroom/orchestrator"
)

// WatchResult is empty: nothing is watched on Windows.
type WatchResult struct{}

func watch(context.Context, commands.Env, WatchParams) (r WatchResult, err error) {
	return r, orchestrator.Errorf(orchestrator.InvalidParams, "ralph watch is not supported on Windows").
		WithHint("Run `mailroom ralph watch` on the Linux or macOS machine that has the folders")
}

// removeFile finds no file: no agent of this machine has a folder.
func removeFile(string, *orchestrator.Message, string) (removed bool, err error) { return false, nil }
