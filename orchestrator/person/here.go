package person

import (
	"context"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
)

// Here returns an error, conflict, where the keys of questions are on another host, as the setting signal.host says.
func Here(ctx context.Context, l *ledger.Ledger) error {
	conf, err := l.Configuration(ctx)
	if err != nil {
		return err
	}
	if host := conf.Settings.SignalHost; l.IsCentral() && host != "" && host != l.Host() {
		return orchestrator.Errorf(orchestrator.Conflict, "signal is served by the host %s, where its keys are, and this is %s", host, l.Host()).
			WithHint("Call it on %s. Messages to the agent `user` reach it from every host. `mailroom setting set signal.host %s` there moves signal here, without its keys", host, l.Host())
	}
	return nil
}

// stay notes that the keys of questions are on this host, unless that is said already. In a file there is one host.
func stay(ctx context.Context, l *ledger.Ledger) error {
	conf, err := l.Configuration(ctx)
	if err != nil || !l.IsCentral() || conf.Settings.SignalHost != "" {
		return err
	}
	_, err = l.SetSetting(ctx, ledger.SignalHost, l.Host())
	return err
}
