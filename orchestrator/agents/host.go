package agents

import (
	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
)

// chooseHost sets the host of an agent in a database that several hosts share: the host on which its files and
// commands were set. All of them must be on one host. An update that would move a file or command that it does not
// name is refused.
func chooseHost(l *ledger.Ledger, u *Update, a *ledger.Agent) error {
	here, was := l.Host(), a.Host
	invalid := func(text string, args ...any) *orchestrator.Error {
		return orchestrator.Errorf(orchestrator.InvalidParams, "host: "+text, args...)
	}
	named := *a // reduced to what the update itself sets
	if u.Deliver == nil {
		named.Deliver = ""
	}
	if u.Fallback == nil {
		named.Fallback = ""
	}
	if u.StartCommand == nil {
		named.StartCommand = ""
	}
	switch {
	case u.Host != nil && *u.Host != "" && !l.IsCentral():
		return invalid("a database in a file supports only one host")
	case u.Host != nil && *u.Host != "" && !ledger.IsHostName(*u.Host):
		return invalid("%q is not a valid host name", *u.Host)
	case u.Host != nil && *u.Host != "" && *u.Host != here && ledger.NeedsHost(l, &named):
		return invalid("you can set files and commands only on their own host, but this host is %s", here).
			WithHint("Run `mailroom agent add` on %s. Or, to move only the existing files and commands to that host, repeat this command without the new ones", *u.Host)
	case u.Host != nil:
		a.Host = *u.Host
	case !l.IsCentral():
	case !ledger.NeedsHost(l, a):
		a.Host = ""
	case ledger.NeedsHost(l, &named):
		a.Host = here
	}
	if a.Host == was || was == "" || u.Host != nil || a.Host == "" {
		return nil
	}
	kept := *a
	if u.Deliver != nil {
		kept.Deliver = ""
	}
	if u.Fallback != nil {
		kept.Fallback = ""
	}
	if u.StartCommand != nil {
		kept.StartCommand = ""
	}
	if ledger.NeedsHost(l, &kept) {
		return orchestrator.Errorf(orchestrator.Conflict,
			"%s already has a file or command on %s, but the new one would be on %s. All files and commands of an agent must be on one host", a.Name, was, here).
			WithHint("Run `mailroom agent add` on %s, or specify all files and commands in one call", was)
	}
	return nil
}
