package relay

import (
	"context"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
)

// QueryMessageHistoryParams selects from all messages. Source: document 000, "query_message_history".
type QueryMessageHistoryParams struct {
	ThreadID string `json:"threadId,omitempty" desc:"only messages in this thread, oldest first" check:"max=256"`
	Source   string `json:"source,omitempty" desc:"only messages from this program" check:"agent"`
	Target   string `json:"target,omitempty" desc:"only messages to this program or group" check:"agent|group|role"`
	Type     string `json:"message_type,omitempty" desc:"only messages of this type" check:"min=1"`
	Status   string `json:"status,omitempty" desc:"only messages with this status" check:"status"`
	Since    string `json:"since,omitempty" desc:"earliest sending time: ISO 8601, or how long ago, such as 1h" check:"max=64"`
	Until    string `json:"until,omitempty" desc:"latest sending time: ISO 8601, or how long ago, such as 1h" check:"max=64"`
	Continue string `json:"continue,omitempty" desc:"value of continue in the previous answer" check:"max=64"`
	Limit    int    `json:"limit,omitempty" desc:"maximum number of messages" check:"min=1,max=100" default:"50"`
}

var queryMessageHistoryCommand = commands.Define(vocabulary, "query_message_history", queryMessageHistory)

// queryMessageHistory lists messages. It changes nothing.
func queryMessageHistory(ctx context.Context, env commands.Env, p QueryMessageHistoryParams) (SentMessagesResult,
	error) {
	if p.ThreadID == "" && p.Source == "" && p.Target == "" {
		return SentMessagesResult{},
			orchestrator.Errorf(orchestrator.InvalidParams, "at least one of threadId, source, and target is required")
	}
	return history(ctx, env, messages.HistoryFilter{
		ThreadID: p.ThreadID, Sender: p.Source, Target: p.Target, Type: p.Type, Status: orchestrator.Status(p.Status),
		Since: p.Since, Until: p.Until, Limit: p.Limit, OldestFirst: p.ThreadID != "",
	}, p.Continue)
}
