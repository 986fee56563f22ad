package operations

import (
	"context"

	"mailroom/commands"
	"mailroom/orchestrator/ledger"
)

// SettingGetParams names a setting.
type SettingGetParams struct {
	Key string `json:"key" desc:"setting to show" check:"min=1,max=64" arg:"1"`
}

var settingGetCommand = commands.Define(vocabulary, "setting get", settingGet).Knowing("key", knownSettings)

func settingGet(ctx context.Context, env commands.Env, p SettingGetParams) (ledger.Setting, error) {
	return env.Ledger.Setting(ctx, p.Key)
}
