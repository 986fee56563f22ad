package ralph

import (
	"context"

	"mailroom/commands"
	"mailroom/orchestrator"
)

// WatchResult is empty, because folders are not watched on Windows.
type WatchResult struct{}

func watch(context.Context, commands.Env, WatchParams) (r WatchResult, err error) {
	return r, orchestrator.Errorf(orchestrator.InvalidParams, "ralph watch is not supported on Windows").
		WithHint("Run `mailroom ralph watch` on the Linux or macOS machine that has the folders")
}

// removeFile removes nothing, because no agent on a Windows machine has a folder.
func removeFile(string, *orchestrator.Message, string) (removed bool, err error) { return false, nil }
