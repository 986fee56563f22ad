package ledger

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"mailroom/orchestrator/store"
)

// Config holds the data that the engine needs for every message: the participants and the settings. It is read again
// only when its version changes. It is never modified after loading, so that goroutines may share it.
type Config struct {
	version    string
	Stored     map[string]string // settings that differ from their defaults
	unreadable map[string]error  // errors of stored settings that cannot be read
	Settings   Settings
	Agents     map[string]*Agent   // agents, and the other recipients: operator, user, devices
	Names      []string            // names of the agents, sorted
	Groups     map[string][]string // members by group, in order of joining
	formers    map[string]int64    // by name that was removed and added again, see Former
	holds      map[[2]string]Hold  // by the sorted names of two agents, see HoldOf
	goOn       map[[2]string]Hold  // by the sorted names of two agents, see MayGoOn

	Elsewhere bool   // some agents get their messages on other hosts
	Untrusted string // reason why the database must not act outside of itself; "" means it may, see trust.go

	LongestSilence time.Duration // the longest silence that any agent is allowed
	ShortestLease  time.Duration // the shortest default lease of an attempt at any agent

	Odd []string // entries that are ignored, for the doctor command
}

// ConfigCache caches the configuration, so that it is read again only when it has changed. It is safe for concurrent
// use.
type ConfigCache struct {
	parts    []*Part
	judge    func(*Config) // called with each new configuration before anybody else sees it
	mu       sync.Mutex
	conf     *Config
	admitted atomic.Pointer[string] // last version of the configuration under which this program may use the tables
}

// Config returns the configuration as of the beginning of the transaction, or as of its last call of ConfigChanged.
func (t *Tx) Config() *Config { return t.conf }

// Read calls fn with a connection whose statements all see the same state of the database. It fails if a newer
// program has changed the tables so that this program can no longer use them. It may call fn more than once, see
// store.Store.
func (l *Ledger) Read(ctx context.Context, fn func(c *store.Conn) error) error {
	return l.Store.Read(ctx, onOurTables(l, fn))
}

// Look calls fn with a connection for one statement, or for several statements that need not see the same state of
// the database. Look costs less than Read.
func (l *Ledger) Look(ctx context.Context, fn func(c *store.Conn) error) error {
	return l.Store.Look(ctx, onOurTables(l, fn))
}

// LookUnchecked calls fn as Look does, but does not check whether a newer program has changed the tables. fn must
// make that check by loading the configuration.
func (l *Ledger) LookUnchecked(ctx context.Context, fn func(c *store.Conn) error) error {
	return l.Store.Look(ctx, fn)
}

// Version returns a number that changes whenever anybody commits. If known is false, anything may have been committed
// since the last call. See store.Versioned.
func (l *Ledger) Version() (version int64, known bool) {
	if s, ok := l.Store.(store.Versioned); ok {
		return s.Version()
	}
	return 0, false
}

// AfterCommits repeats an action only if somebody has committed since the last time. It is for one goroutine.
type AfterCommits struct {
	version int64 // version of the database at the last run, if known
	known   bool
}

// Do calls do, unless nobody has committed since the last successful call.
func (a *AfterCommits) Do(l *Ledger, do func() error) error {
	version, known := l.Version()
	if known && a.known && version == a.version {
		return nil
	}
	err := do()
	a.version, a.known = version, known && err == nil
	return err
}

// onOurTables returns a function that calls fn, or fails without calling it if a newer program has changed the tables
// so that this program can no longer use them.
func onOurTables(l *Ledger, fn func(c *store.Conn) error) func(c *store.Conn) error {
	return func(c *store.Conn) error {
		if _, err := l.Config.admit(c); err != nil {
			return err
		}
		return fn(c)
	}
}

// View calls fn as Read does, with the configuration in addition. The configuration is shared: do not change it.
func (l *Ledger) View(ctx context.Context, fn func(c *store.Conn, conf *Config) error) error {
	return l.Store.Read(ctx, func(c *store.Conn) error {
		conf, err := l.Config.Load(c)
		if err != nil {
			return err
		}
		return fn(c, conf)
	})
}

// ReadValue calls fn as Read does, and returns the value that fn returns.
func ReadValue[T any](ctx context.Context, l *Ledger, fn func(c *store.Conn) (T, error)) (answer T, err error) {
	err = l.Read(ctx, func(c *store.Conn) error {
		answer, err = fn(c)
		return err
	})
	return answer, err
}

// Configuration returns the current agents, groups and settings. The result is shared: do not change it.
func (l *Ledger) Configuration(ctx context.Context) (conf *Config, err error) {
	err = l.View(ctx, func(_ *store.Conn, now *Config) error {
		conf = now
		return nil
	})
	return conf, err
}

// Load returns the configuration as seen by a connection.
func (cache *ConfigCache) Load(c *store.Conn) (*Config, error) {
	version, err := cache.admit(c)
	if err != nil {
		return nil, err
	}
	if have := cache.Known(version); have != nil {
		return have, nil
	}
	fresh, err := readConfig(c, version, cache.parts)
	if err != nil {
		return nil, err
	}
	if cache.judge(fresh); fresh.Untrusted != "" {
		if err := c.CheckConfigured(); err != nil {
			return nil, err
		}
	}
	cache.mu.Lock()
	cache.conf = fresh
	cache.mu.Unlock()
	return fresh, nil
}

// admit returns the version of the configuration as seen by a connection. It refuses tables that a newer program has
// changed so that this program can no longer use them. The check also covers connections that have been open for
// long, because a migration changes the version of the configuration.
func (cache *ConfigCache) admit(c *store.Conn) (version string, err error) {
	if version, _, err = c.Text(`SELECT value FROM settings WHERE key = '` + store.ConfigVersion + `'`); err != nil {
		return "", err
	}
	if admitted := cache.admitted.Load(); admitted != nil && *admitted == version {
		return version, nil
	}
	if err := c.Admit(); err != nil {
		return "", err
	}
	cache.admitted.Store(&version)
	return version, nil
}

// Known returns the cached configuration if it has the given version, and nil otherwise.
func (cache *ConfigCache) Known(version string) *Config {
	cache.mu.Lock()
	defer cache.mu.Unlock()
	if cache.conf == nil || cache.conf.version != version {
		return nil
	}
	return cache.conf
}

// Last returns the cached configuration, which may be out of date. It returns nil before the first load.
func (cache *ConfigCache) Last() *Config {
	cache.mu.Lock()
	defer cache.mu.Unlock()
	return cache.conf
}

func readConfig(c *store.Conn, version string, parts []*Part) (*Config, error) {
	conf := &Config{version: version, Stored: map[string]string{}, Agents: map[string]*Agent{},
		Groups: map[string][]string{}}
	err := c.Query(`SELECT key, value FROM settings`, func(row store.Row) error {
		conf.Stored[row.Text(0)] = row.Text(1)
		return nil
	})
	if err != nil {
		return nil, err
	}
	conf.Settings, conf.unreadable = settingsFrom(conf.Stored)
	conf.formers = formersIn(conf.Stored)
	conf.holds, conf.goOn = holdsIn(conf.Stored, holdPrefix), holdsIn(conf.Stored, goOnPrefix)
	for _, def := range settingList {
		if err := conf.unreadable[def.Key]; err != nil {
			conf.Odd = append(conf.Odd,
				fmt.Sprintf("cannot read the setting %s (%v): Mailroom uses the default, %s", def.Key, err, def.Default))
		}
	}
	conf.addBuiltIns()
	for _, p := range parts {
		if p.Recipients == nil {
			continue
		}
		list, err := p.Recipients(c)
		if err != nil {
			return nil, err
		}
		for _, a := range list {
			conf.Agents[a.Name] = a
		}
	}
	err = c.Query(`SELECT `+AgentColumns+` FROM agents ORDER BY name`, func(row store.Row) error {
		a := scanAgent(row)
		conf.Agents[a.Name] = a
		conf.Names = append(conf.Names, a.Name)
		conf.LongestSilence = max(conf.LongestSilence, time.Duration(a.SilentAfter)*time.Second)
		return nil
	})
	if err != nil {
		return nil, err
	}
	conf.ShortestLease = conf.UsualLease(nil)
	for _, agent := range conf.Agents {
		conf.ShortestLease = min(conf.ShortestLease, conf.UsualLease(agent))
	}
	return conf, conf.readGroups(c)
}

func (conf *Config) readGroups(c *store.Conn) error {
	return c.Query(`SELECT g.name, m.agent FROM groups g LEFT JOIN group_members m ON m.group_name = g.name
		ORDER BY g.name, m.position`, func(row store.Row) error {
		name := row.Text(0)
		members, again := conf.Groups[name]
		if !again && conf.Agents[name] != nil {
			conf.Odd = append(conf.Odd, "the group "+name+" has the name of an agent, so messages to that name go to the agent")
		}
		if row[1] != nil { // the group has members
			members = append(members, row.Text(1))
		}
		conf.Groups[name] = members
		return nil
	})
}

// ConfigChanged makes every process read the configuration again. Call it after the last change of agents, groups or
// settings. The new version is random: a counter that is rolled back and used again would be mistaken for a known
// version.
func (t *Tx) ConfigChanged() error {
	if err := t.MustBeAlone(); err != nil {
		return err
	}
	id, err := t.NewID("")
	if err != nil {
		return err
	}
	t.WakeAll()
	t.KeepSpan()
	if err := t.StoreSetting(store.ConfigVersion, id); err != nil {
		return err
	}
	conf, err := t.Ledger.Config.Load(t.Conn)
	if err == nil {
		t.conf = conf
	}
	return err
}
