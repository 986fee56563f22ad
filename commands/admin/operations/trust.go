package operations

import (
	"context"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/schedules"
)

// TrustParams selects what to do about a database. The default is to trust it.
type TrustParams struct {
	Show   bool `json:"show,omitempty" desc:"show the actions outside the database, without trusting it"`
	Remove bool `json:"remove,omitempty" desc:"stop trusting the database"`
	List   bool `json:"list,omitempty" desc:"list the databases that are trusted on this machine"`
}

// TrustResult holds whether the database is trusted and, with list, all trusted databases.
type TrustResult struct {
	schedules.TrustState
	Databases []ledger.TrustedDatabase `json:"databases,omitempty"`
}

// trustCommand has LooksOnly so that its span does not create a database in place of one that no longer exists.
var trustCommand = commands.Define(vocabulary, "trust", trust).With(commands.Traits{HereOnly: true, LooksOnly: true})

// trust trusts a database, stops trusting it, or shows its state. The answer always has what the database does
// outside itself.
func trust(ctx context.Context, env commands.Env, p TrustParams) (r TrustResult, err error) {
	switch {
	case p.Remove && (p.Show || p.List):
		return r, orchestrator.Errorf(orchestrator.InvalidParams,
			"remove: cannot be combined with `show` or `list`")
	case p.Show || p.List:
		r.TrustState, err = schedules.Trusted(ctx, env.Ledger)
	default:
		r.TrustState, err = schedules.SetTrusted(ctx, env.Ledger, !p.Remove)
	}
	if err == nil && p.List {
		r.Databases, err = schedules.TrustedDatabases(env.Ledger)
	}
	return r, err
}

// Text writes what the database does before whether it is trusted. Nothing is truncated, because the important part
// could be at the end.
func (r TrustResult) Text(w *terminal.Text) {
	for _, o := range r.Outside {
		w.Block(terminal.Painted(o.What+" "+terminal.Inline(o.Name)+": "), "    ", o.Does)
		if o.Folder != "" {
			w.Body("    ", "in the folder "+o.Folder)
		}
	}
	switch {
	case r.Gone:
		w.Printf("%s does not exist, and is no longer trusted.\n", r.Database)
	case !r.Trusted:
		w.Printf("%s is not trusted: %s. Mailroom does not perform any actions outside the database.\n", r.Database, r.Reason)
	case len(r.Outside) == 0:
		w.Printf("%s is trusted. It does not trigger any actions outside the database yet.\n", r.Database)
	default:
		w.Printf("%s is trusted, so the actions listed above are in effect. To stop trusting it, run `mailroom trust --remove`.\n", r.Database)
	}
	for _, d := range r.Databases {
		gone := ""
		if d.Gone {
			gone = ", which does not exist (to remove it from the list, run `mailroom --db PATH trust --remove`)"
		}
		w.Printf("trusted since %s: %s%s\n", d.Since, d.Path, gone)
	}
}
