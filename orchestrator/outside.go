package orchestrator

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"mailroom/orchestrator/store"
)

// TrustState is whether a database is trusted on this machine, and what it does outside of itself while it is.
type TrustState struct {
	Database string    `json:"database"`
	Trusted  bool      `json:"trusted"`
	Reason   string    `json:"reason,omitempty"` // why it is not
	Gone     bool      `json:"gone,omitempty"`   // there is no file at its path any more; it was taken off the list
	Outside  []Outside `json:"outside"`
}

// Outside is one thing by which a database acts outside of itself, or lets others in.
type Outside struct {
	What string `json:"what"` // deliver, fallback, start, schedule, setting, tokens, phones, trigger
	Name string `json:"name"` // agent, schedule, setting or trigger
	Does string `json:"does"`
	// Folder is where a command runs, which a copy of the database elsewhere keeps.
	Folder string `json:"folder,omitempty"`
}

// TrustState reports whether the database is trusted. Errors: those of the database.
func (r *Router) TrustState(ctx context.Context) (s TrustState, err error) {
	err = r.read(ctx, func(c *Conn) error {
		conf, err := r.config.load(c)
		if err != nil {
			return err
		}
		s = TrustState{Database: r.Path(), Trusted: conf.untrusted == "", Reason: conf.untrusted}
		s.Outside, err = r.outside(c, conf)
		return err
	})
	return s, err
}

// outside lists what a database does outside of itself, and how others come into it.
func (r *Router) outside(c *Conn, conf *config) ([]Outside, error) {
	list := []Outside{}
	add := func(what, name, does, folder string) {
		if does != "" {
			list = append(list, Outside{What: what, Name: name, Does: does, Folder: folder})
		}
	}
	for _, name := range conf.names {
		a := conf.agents[name]
		if r.setTransport(a) == nil {
			folder := ""
			if strings.HasPrefix(a.Deliver, "exec:") {
				folder = a.Folder
			}
			add("deliver", name, a.Deliver, folder)
		}
		add("fallback", name, a.Fallback, "")
		add("start", name, a.StartCommand, a.Folder)
	}
	schedules, err := c.schedules()
	if err != nil {
		return nil, err
	}
	for i := range schedules {
		if s := &schedules[i]; !s.isPreset() && s.Enabled {
			add("schedule", s.Name, fmt.Sprintf("%s: %s %s", s.Spec, s.Command, s.Params), "")
		}
	}
	for _, key := range []string{"signal.url", "signal.push_hosts", "signal.allow_private"} {
		add("setting", key, conf.stored[key], "")
	}
	err = c.query(`
		SELECT 'tokens', agent, count(*) || CASE max(admin) WHEN 0 THEN ' of the agent' ELSE ', of an administrator too' END
		FROM tokens WHERE revoked_at = '' GROUP BY agent
		UNION ALL SELECT 'phones', device_id, kind || ' ' || name || ': reads and answers questions' FROM signal_devices WHERE state = 'active'
		UNION ALL SELECT 'trigger', name, sql FROM sqlite_schema WHERE type = 'trigger'
		    AND tbl_name IN (SELECT name FROM sqlite_schema WHERE type = 'table')`, func(row store.Row) error {
		add(row.Text(0), row.Text(1), row.Text(2), "")
		return nil
	})
	return list, err
}

// SetTrusted trusts the database as it is here, or takes that back, also when there is no file at its path any more. It takes
// effect in every process at its next transaction. Errors: unavailable when it cannot be kept; those of the database.
func (r *Router) SetTrusted(ctx context.Context, trusted bool) (TrustState, error) {
	if r.trust == nil {
		return TrustState{}, Errorf(Unavailable, "this program asks of no database whether it is trusted")
	}
	if _, err := r.TrustState(ctx); err != nil { // where there is no database, none is made only to be trusted
		if _, missing := os.Stat(r.Path()); !trusted && errors.Is(missing, fs.ErrNotExist) {
			return r.forgetGone(err)
		}
		return TrustState{}, err
	}
	err := r.write(ctx, func(t *tx) error {
		id, _, err := t.text(`SELECT value FROM settings WHERE key = '` + databaseID + `'`)
		if err != nil {
			return err
		}
		if id == "" {
			id = rand.Text()
			if err := t.storeSetting(databaseID, id); err != nil {
				return err
			}
		}
		// Before the commit, so that whoever reads the new configuration finds it.
		if trusted {
			err = r.trust.add(TrustedDatabase{ID: id, Path: r.trustedPath(), Since: t.now})
		} else {
			err = r.trust.remove(id, r.trustedPath())
		}
		if err != nil {
			return r.trustNotKept(err)
		}
		return t.configChanged()
	})
	if err != nil {
		return TrustState{}, err
	}
	return r.TrustState(ctx)
}

// forgetGone takes back the trust in what was at the path of a database that is gone, whatever its id was. err is what there is
// to say of a path at which nothing is trusted.
func (r *Router) forgetGone(err error) (TrustState, error) {
	n, problem := r.trust.removeAt(r.trustedPath())
	switch {
	case problem != nil:
		return TrustState{}, r.trustNotKept(problem)
	case n == 0:
		return TrustState{}, err
	}
	return TrustState{Database: r.Path(), Reason: "it is gone: there is no file at its path", Gone: true, Outside: []Outside{}}, nil
}

func (r *Router) trustNotKept(err error) error {
	return &Error{Code: Unavailable, Message: "it cannot be kept whether the database is trusted", Err: err, Hint: "Check the folder " + r.trust.Folder}
}

// TrustedDatabases lists the databases that this user made or trusts on this machine, by path.
func (r *Router) TrustedDatabases() ([]TrustedDatabase, error) {
	if r.trust == nil {
		return []TrustedDatabase{}, nil
	}
	list, err := r.trust.list()
	for i := range list {
		_, missing := os.Stat(list[i].Path)
		list[i].Gone = errors.Is(missing, fs.ErrNotExist)
	}
	return list, err
}

// isPreset reports whether a schedule is one that every new database has.
func (s *Schedule) isPreset() bool {
	return slices.ContainsFunc(presetSchedules, func(p Schedule) bool {
		return p.Name == s.Name && p.Spec == s.Spec && p.Command == s.Command && string(p.Params) == string(s.Params)
	})
}

// RunnableSchedules lists the schedules that a daemon may run. Of a database that is not trusted, for which untrusted says
// why, those are the ones by which every new database delivers and keeps itself tidy.
func (r *Router) RunnableSchedules(ctx context.Context) (list []Schedule, untrusted string, err error) {
	err = r.read(ctx, func(c *Conn) error {
		conf, err := r.config.load(c)
		if err != nil {
			return err
		}
		untrusted = conf.untrusted
		if list, err = c.schedules(); untrusted != "" {
			list = slices.DeleteFunc(list, func(s Schedule) bool { return !s.isPreset() })
		}
		return err
	})
	return list, untrusted, err
}
