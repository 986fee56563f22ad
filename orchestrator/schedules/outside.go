package schedules

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"mailroom"
	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// TrustState states whether a database is trusted on this machine, and what it does outside of itself.
type TrustState struct {
	Database string    `json:"database"`
	Trusted  bool      `json:"trusted"`
	Reason   string    `json:"reason,omitempty"` // why it is not trusted
	Gone     bool      `json:"gone,omitempty"`   // no file at its path any more; it was taken off the list
	Outside  []Outside `json:"outside"`
}

// Outside is one way in which a database acts outside of itself, such as a command that it runs, or gives access to
// others.
type Outside struct {
	What string `json:"what"` // deliver, fallback, start, environment, schedule, setting, tokens, phones, trigger
	Name string `json:"name"` // agent, schedule, setting or trigger
	Does string `json:"does"`
	// Folder is where a command runs. A copy of the database in another place keeps it.
	Folder string `json:"folder,omitempty"`
}

// Trusted returns the trust state of the database. Errors: those of the database.
func Trusted(ctx context.Context, l *ledger.Ledger) (s TrustState, err error) {
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		s = TrustState{Database: l.Path(), Trusted: conf.Untrusted == "", Reason: conf.Untrusted}
		s.Outside, err = OutsideOf(l, c, conf)
		return err
	})
	return s, err
}

// OutsideOf lists the ways in which a database acts outside of itself or gives access to others.
func OutsideOf(l *ledger.Ledger, c *store.Conn, conf *ledger.Config) ([]Outside, error) {
	list := []Outside{}
	add := func(what, name, does, folder string) {
		if does != "" {
			list = append(list, Outside{What: what, Name: name, Does: does, Folder: folder})
		}
	}
	for _, name := range conf.Names {
		a := conf.Agents[name]
		if l.SetTransport(a) == nil {
			folder := ""
			if strings.HasPrefix(a.Deliver, "exec:") {
				folder = a.Folder
			}
			add("deliver", name, a.Deliver, folder)
		}
		add("fallback", name, a.Fallback, "")
		add("start", name, a.StartCommand, a.Folder)
		add("environment", name, a.PassEnv, "")
	}
	schedules, err := schedules(c)
	if err != nil {
		return nil, err
	}
	for i := range schedules {
		if s := &schedules[i]; !isPreset(s) && s.Enabled {
			add("schedule", s.Name, fmt.Sprintf("%s: %s %s", s.Spec, s.Command, s.Params), "")
		}
	}
	for _, key := range []string{"signal.url", "signal.push_hosts", "signal.allow_private"} {
		add("setting", key, conf.Stored[key], "")
	}
	err = c.Query(`
		SELECT 'tokens', agent,
			count(*) || CASE max(admin) WHEN 0 THEN ' for the agent' ELSE ', including one for an administrator' END
		FROM tokens WHERE revoked_at = '' GROUP BY agent
		UNION ALL SELECT 'phones', device_id, kind || ' ' || name || ': reads and answers questions' FROM signal_devices
			WHERE state = 'active'`, func(row store.Row) error {
		add(row.Text(0), row.Text(1), row.Text(2), "")
		return nil
	})
	if d, ok := c.Driver.(interface {
		Triggers(each func(name, text string)) error
	}); ok && err == nil {
		err = d.Triggers(func(name, text string) {
			if !strings.Contains(mailroom.Schema, text+";\n") { // ignore the triggers of the schema
				add("trigger", name, text, "")
			}
		})
	}
	return list, err
}

// SetTrusted trusts the database in its present state, or withdraws the trust. Withdrawing also works if there is no
// file at its path any more. Every process applies the change from its next transaction on. Errors: unavailable if
// the trust cannot be stored; those of the database.
func SetTrusted(ctx context.Context, l *ledger.Ledger, trusted bool) (TrustState, error) {
	if l.Trust == nil {
		return TrustState{},
			orchestrator.Errorf(orchestrator.Unavailable, "this program does not check whether databases are trusted")
	}
	if _, err := Trusted(ctx, l); err != nil { // a missing database is not created only to be trusted
		if _, missing := os.Stat(l.Path()); !trusted && errors.Is(missing, fs.ErrNotExist) {
			return forgetGone(l, err)
		}
		return TrustState{}, err
	}
	err := l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		id, _, err := t.Text(`SELECT value FROM settings WHERE key = '` + store.DatabaseID + `'`)
		if err != nil {
			return err
		}
		if id == "" {
			id = rand.Text()
			if err := t.StoreSetting(store.DatabaseID, id); err != nil {
				return err
			}
		}
		// Before the commit, so that a process that reads the new configuration also finds the new trust.
		if trusted {
			err = l.Trust.Add(ledger.TrustedDatabase{ID: id, Path: l.TrustedPath(), Since: t.Now})
		} else {
			err = l.Trust.Remove(id, l.TrustedPath())
		}
		if err != nil {
			return trustNotKept(l, err)
		}
		return t.ConfigChanged()
	})
	if err != nil {
		return TrustState{}, err
	}
	return Trusted(ctx, l)
}

// forgetGone withdraws the trust in any database at the path of a database whose file is gone. err is the error to
// return if no database at the path is trusted.
func forgetGone(l *ledger.Ledger, err error) (TrustState, error) {
	n, problem := l.Trust.RemoveAt(l.TrustedPath())
	switch {
	case problem != nil:
		return TrustState{}, trustNotKept(l, problem)
	case n == 0:
		return TrustState{}, err
	}
	return TrustState{Database: l.Path(), Reason: "the database does not exist: there is no file at its path", Gone: true,
		Outside: []Outside{}}, nil
}

func trustNotKept(l *ledger.Ledger, err error) error {
	return &orchestrator.Error{Code: orchestrator.Unavailable,
		Message: "cannot record whether the database is trusted", Err: err,
		Hint: "Check the folder " + l.Trust.Folder}
}

// TrustedDatabases returns the databases that this user has created or trusts on this machine, sorted by path.
func TrustedDatabases(l *ledger.Ledger) ([]ledger.TrustedDatabase, error) {
	if l.Trust == nil {
		return []ledger.TrustedDatabase{}, nil
	}
	list, err := l.Trust.List()
	for i := range list {
		_, missing := os.Stat(list[i].Path)
		list[i].Gone = errors.Is(missing, fs.ErrNotExist)
	}
	return list, err
}

// isPreset reports whether a schedule is one of those of every new database.
func isPreset(s *orchestrator.Schedule) bool {
	return slices.ContainsFunc(orchestrator.PresetSchedules, func(p orchestrator.Schedule) bool {
		return p.Name == s.Name && p.Spec == s.Spec && p.Command == s.Command && string(p.Params) == string(s.Params)
	})
}

// Runnable returns the schedules that a daemon may run. If the database is not trusted, untrusted is the reason, and
// the list contains only the preset schedules, which deliver messages and clean up.
func Runnable(ctx context.Context, l *ledger.Ledger) (list []orchestrator.Schedule, untrusted string, err error) {
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		untrusted = conf.Untrusted
		if list, err = schedules(c); untrusted != "" {
			list = slices.DeleteFunc(list, func(s orchestrator.Schedule) bool { return !isPreset(&s) })
		}
		return err
	})
	return list, untrusted, err
}
