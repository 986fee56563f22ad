package operations

import (
	"context"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/person"
)

// SettingSetParams holds the change to one setting.
type SettingSetParams struct {
	Key     string `json:"key" desc:"setting to change" check:"min=1,max=64" arg:"1"`
	Value   string `json:"value,omitempty" desc:"new value" check:"max=256" arg:"2"`
	Default bool   `json:"default,omitempty" desc:"restore the default"`
}

var settingSetCommand = commands.Define(vocabulary, "setting set", settingSet).Knowing("key", knownSettings)

// settingSet changes a setting. The change takes effect in every process at its next transaction. Callers over the
// network cannot change local settings.
func settingSet(ctx context.Context, env commands.Env, p SettingSetParams) (ledger.Setting, error) {
	if p.Default == (p.Value != "") {
		return ledger.Setting{},
			orchestrator.Errorf(orchestrator.InvalidParams, "value: give either a value or `default`")
	}
	if env.Caller.Remote {
		setting, err := env.Ledger.Setting(ctx, p.Key)
		if err != nil {
			return setting, err
		}
		if setting.Local {
			return setting, commands.OnlyHere("key", p.Key, "mailroom setting set "+p.Key)
		}
	}
	if p.Key == ledger.SignalHost {
		if err := person.MayMove(ctx, env.Ledger, p.Value); err != nil {
			return ledger.Setting{}, err
		}
	}
	return env.Ledger.SetSetting(ctx, p.Key, p.Value)
}
