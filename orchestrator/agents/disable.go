package agents

import (
	"cmp"
	"context"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// Disabling is a request to stop using an agent's transport until Enable.
type Disabling struct {
	Agent string
	Why   string // at most 256 bytes, one line
	By    string // who asks, in words; "" is the administrator
}

// ByHand begins the reason for which an agent is disabled, if somebody disabled it.
const ByHand = "it was disabled by "

// Disable stops the use of the agent's transport. Its new messages go to its fallback, or wait. An attempt in
// progress is completed, and the agent can still read its messages itself. disabled is false if the transport was
// already disabled. Errors: invalid_params, also for the operator and the user; not_found.
func Disable(ctx context.Context, l *ledger.Ledger, d Disabling) (agent ledger.Agent, disabled bool, err error) {
	if err := orchestrator.CheckText("why", d.Why, orchestrator.MaxKey); err != nil {
		return agent, false, err
	}
	if err := orchestrator.CheckPlain("why", d.Why); err != nil {
		return agent, false, err
	}
	reason := ByHand + cmp.Or(d.By, "hand")
	if d.Why != "" {
		reason += ": " + d.Why
	}
	return changeDisabled(ctx, l, d.Agent, func(t *ledger.Tx, a *ledger.Agent) (bool, error) {
		if a.Disabled != "" {
			return false, nil
		}
		a.Disabled = t.Now + " " + reason
		return true, nil
	})
}

// Enable resumes the use of the agent's transport and makes the waiting messages due. enabled is false if the
// transport was not disabled. Errors: as for Disable.
func Enable(ctx context.Context, l *ledger.Ledger, name string) (agent ledger.Agent, enabled bool, err error) {
	return changeDisabled(ctx, l, name, func(t *ledger.Tx, a *ledger.Agent) (bool, error) {
		if a.Disabled == "" {
			return false, nil
		}
		a.Disabled = ""
		return true, ReleasePutOff(t, a.Name, "the agent's transport was enabled again")
	})
}

// changeDisabled applies change to an agent, and stores the agent if change returns true.
func changeDisabled(ctx context.Context, l *ledger.Ledger, name string,
	change func(*ledger.Tx, *ledger.Agent) (bool, error)) (a ledger.Agent, changed bool, err error) {
	name = orchestrator.FoldName(name)
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		conf := t.Config()
		known := conf.Agents[name]
		switch {
		case known == nil || l.PartOf(name) != nil:
			return NoAgent(t.Conn, name, conf)
		case known.BuiltIn:
			return orchestrator.Errorf(orchestrator.InvalidParams, "`%s` is reserved for %s; you can disable only agents", name,
				orchestrator.BuiltIns[name])
		}
		a = *known
		a.Groups = groupsOf(conf, name)
		if changed, err = change(t, &a); err != nil || !changed {
			return err
		}
		a.UpdatedAt = t.Now
		t.KeepSpan()
		if err := Store(t, &a); err != nil {
			return err
		}
		return t.ConfigChanged()
	})
	return a, changed, err
}
