package person

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/questions"
)

// Here returns a conflict error if the keys of questions are on another host, according to the setting signal.host.
func Here(ctx context.Context, l *ledger.Ledger) error {
	conf, err := l.Configuration(ctx)
	if err != nil {
		return err
	}
	if host := conf.Settings.SignalHost; l.IsCentral() && host != "" && host != l.Host() {
		return orchestrator.Errorf(orchestrator.Conflict,
			"the phone service (signal) runs on the host %s, which has its keys, but this host is %s", host, l.Host()).
			WithHint("Run the command on %s. Messages to the agent `user` can be sent from every host. To run the phone service on this host instead, copy its keys to this host, and then run `mailroom setting set signal.host %s`; see docs/postgres.md", host, l.Host())
	}
	return nil
}

// stay records that the keys of questions are on this host, unless a host is recorded already. A database file has
// only one host, so nothing is recorded for it.
func stay(ctx context.Context, l *ledger.Ledger) error {
	conf, err := l.Configuration(ctx)
	if err != nil || !l.IsCentral() || conf.Settings.SignalHost != "" {
		return err
	}
	_, err = l.SetSetting(ctx, ledger.SignalHost, l.Host())
	return err
}

// MayMove returns a conflict error if signal cannot move to a host because keys would be missing there: those of
// approved devices, or of open questions. The host "-" or "" stands for any host. Only the host itself can check
// whether it has the keys.
func MayMove(ctx context.Context, l *ledger.Ledger, to string) error {
	conf, err := l.Configuration(ctx)
	if to == "-" {
		to = ""
	}
	if err != nil || !l.IsCentral() || to == conf.Settings.SignalHost {
		return err
	}
	if to != "" && to != l.Host() {
		return orchestrator.Errorf(orchestrator.Conflict,
			"the phone service (signal) can be moved only by a command on the new host, but this host is %s", l.Host()).
			WithHint("Copy the keys to %s, if there are any. Then run `mailroom setting set signal.host %s` on that host; see docs/postgres.md", to, to)
	}
	devices, err := questions.Devices(ctx, l)
	if err != nil {
		return err
	}
	devices = slices.DeleteFunc(devices, func(d questions.Device) bool {
		return d.Kind == questions.DeviceNtfy || d.State != questions.DeviceActive
	})
	if len(devices) == 0 {
		return nil // no device can open a question
	}
	at := cmp.Or(conf.Settings.SignalHost, "the host where the phones were approved")
	if to == "" {
		return orchestrator.Errorf(orchestrator.Conflict, "the phone service (signal) must stay on %s, because its keys are on that host",
			at).
			WithHint("To move the phone service, copy its keys to another host, and run `mailroom setting set signal.host HOST` on that host; see docs/postgres.md")
	}
	k, err := openKeys(l, false)
	if err != nil {
		return err
	}
	defer k.close()
	approved, err := Approved(l, devices)
	if err != nil {
		return err
	}
	lost, err := unanswerable(ctx, l, k)
	var missing []string
	for _, d := range devices {
		if !slices.Contains(approved, d.ID) {
			missing = append(missing, "the phone "+d.ID)
		}
	}
	if lost > 0 {
		missing = append(missing, orchestrator.Plural(lost, "open question"))
	}
	if err == nil && len(missing) > 0 {
		err = orchestrator.Errorf(orchestrator.Conflict, "the phone service (signal) cannot run on this host yet: %s does not contain the keys of %s",
			k.path, strings.Join(missing, ", ")).
			WithHint("Copy the key folder of %s to this host. To find the folder, run `mailroom signal doctor` on that host. If the folder is lost, run `mailroom signal device revoke ID` for each of these phones, and pair the phones again", at)
	}
	return err
}

// unanswerable counts the open questions whose answers cannot be opened here, because their keys are not in the
// folder.
func unanswerable(ctx context.Context, l *ledger.Ledger, k *keys) (n int, err error) {
	sealed, err := k.names(repliesFolder)
	clear, err2 := k.names(clearFolder)
	if err = errors.Join(err, err2); err != nil {
		return 0, err
	}
	open, err := questions.List(ctx, l, questions.Filter{Status: questions.Pending, Limit: 1000})
	for i := range open {
		if !slices.Contains(sealed, open[i].ID) && !slices.Contains(clear, open[i].ID) {
			n++
		}
	}
	return n, err
}
