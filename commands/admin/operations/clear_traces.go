package operations

import (
	"context"
	"time"

	"mailroom/commands"
	"mailroom/orchestrator/retention"
)

// ClearTracesParams holds the age from which traces are deleted.
type ClearTracesParams struct {
	OlderThanDays *int `json:"older_than_days,omitempty" desc:"age in days; default: the setting retention.trace" check:"min=1,max=3650"`
}

// ClearTracesResult counts deleted rows.
type ClearTracesResult struct {
	MessageTraces int64 `json:"message_traces_deleted"`
	CommandTraces int64 `json:"command_traces_deleted"`
}

var clearTracesCommand = commands.Define(vocabulary, "clear_traces", clearTraces).
	With(commands.Traits{Confirm: "This permanently deletes traces."})

func clearTraces(ctx context.Context, env commands.Env, p ClearTracesParams) (ClearTracesResult, error) {
	var age time.Duration
	if p.OlderThanDays != nil {
		age = time.Duration(*p.OlderThanDays) * 24 * time.Hour
	}
	messages, spans, err := retention.ClearTraces(ctx, env.Ledger, age)
	return ClearTracesResult{MessageTraces: messages, CommandTraces: spans}, err
}
