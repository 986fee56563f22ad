package signal

import (
	"context"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/person"
	"mailroom/orchestrator/questions"
)

// NtfyParams names a topic of an ntfy server that is also notified.
type NtfyParams struct {
	URL    string `json:"url,omitempty" desc:"address of the topic: https://ntfy.sh/TOPIC, or a topic on a server in the setting signal.push_hosts" check:"private,min=1,max=2048" arg:"1"`
	Token  string `json:"token,omitempty" desc:"token that the server requires" check:"private,min=1,max=1024"`
	Remove bool   `json:"remove,omitempty" desc:"stop notifying the topic"`
}

var ntfyCommand = commands.Define(vocabulary, "signal ntfy", ntfy)

// ntfy sets or removes the topic. It stores the address and the token where `mailroom sql` cannot read them.
func ntfy(ctx context.Context, env commands.Env, p NtfyParams) (DeviceResult, error) {
	if p.Remove == (p.URL != "") || p.Remove && p.Token != "" {
		return DeviceResult{},
			orchestrator.Errorf(orchestrator.InvalidParams, "give either the `url` of a topic or `remove`, not both; `token` requires `url`")
	}
	if err := person.Here(ctx, env.Ledger); err != nil {
		return DeviceResult{}, err
	}
	d, err := questions.SetNtfy(ctx, env.Ledger, questions.NtfyConfig{URL: p.URL, Token: p.Token})
	return DeviceResult{shown(&d, false)}, err
}
