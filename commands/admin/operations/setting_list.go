package operations

import (
	"context"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/ledger"
)

// SettingListResult lists all settings.
type SettingListResult struct {
	Settings []ledger.Setting `json:"settings"`
}

var settingListCommand = commands.Define(vocabulary, "setting list", settingList)

func settingList(ctx context.Context, env commands.Env, _ struct{}) (SettingListResult, error) {
	list, err := env.Ledger.Settings(ctx)
	return SettingListResult{Settings: list}, err
}

// Text writes a table.
func (r SettingListResult) Text(w *terminal.Text) {
	terminal.TableOf(w, []string{"SETTING", "VALUE", "BOUNDS", "WHAT IT IS"}, r.Settings,
		func(s *ledger.Setting) []string {
			about := s.About
			if s.Local {
				about += "; cannot be changed over the network"
			}
			if s.Ignored != "" {
				about += "; the stored value is invalid and ignored: " + s.Ignored
			}
			return []string{s.Key, s.Value, s.Bounds, about}
		})
}

// knownSettings returns the settings, as completions for a shell.
func knownSettings(ctx context.Context, env commands.Env) ([]commands.Known, error) {
	list, err := env.Ledger.Settings(ctx)
	return commands.KnownOf(list,
		func(s *ledger.Setting) commands.Known { return commands.Known{Value: s.Key, About: s.About} }), err
}
