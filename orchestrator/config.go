package orchestrator

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"mailroom/orchestrator/store"
)

// config is what the engine must know for every message: who there is, and the settings. It is read anew only when its
// version changed, and never modified once loaded, so that it may be shared.
type config struct {
	version    string
	stored     map[string]string // settings that differ from their defaults
	unreadable map[string]error  // why some of those cannot be read
	settings   Settings
	agents     map[string]*Agent   // and who else can be written to: the operator, the user, and devices
	names      []string            // of agents, in order
	groups     map[string][]string // members in order of joining
	taken      map[string][]string // by built-in name: what else has it in the tables, and is not used
	formers    map[string]int64    // by name that was removed and added again: see former

	untrusted string // why the database must not act outside of itself; "" is that it may, see trust.go

	longestSilence time.Duration // that any agent is allowed
	shortestLease  time.Duration // that an attempt for any agent has, unless its run says otherwise

	odd []string // what is passed over, for the doctor
}

type configCache struct {
	parts    []*Part
	judge    func(*config) // sees each configuration that was read, before anybody else does
	mu       sync.Mutex
	conf     *config
	admitted atomic.Pointer[string] // the last version of the configuration under which this program may use the tables
}

// config returns the configuration as this transaction sees it.
func (t *tx) config() (*config, error) {
	if t.conf != nil {
		return t.conf, nil
	}
	conf, err := t.r.config.load(t.Conn)
	t.conf = conf
	return conf, err
}

// read calls fn with a connection whose statements all see the same state of the database, see Store.Read. It fails in place of
// running on tables that a newer program has made unfit for this one.
func (r *Router) read(ctx context.Context, fn func(c *Conn) error) error {
	return r.store.Read(ctx, r.onOurTables(fn))
}

// look is read without a snapshot: fn runs one statement, or several that need not see the same state.
func (r *Router) look(ctx context.Context, fn func(c *Conn) error) error {
	return r.store.Look(ctx, r.onOurTables(fn))
}

// glance is a look that does not ask whether this program may still use the tables: fn does, by loading the configuration.
func (r *Router) glance(ctx context.Context, fn func(c *Conn) error) error {
	return r.store.Look(ctx, fn)
}

// onOurTables wraps fn, so that it fails in place of running on tables that a newer program has made unfit for this one.
func (r *Router) onOurTables(fn func(c *Conn) error) func(c *Conn) error {
	return func(c *Conn) error {
		if _, err := r.config.admit(c); err != nil {
			return err
		}
		return fn(c)
	}
}

// configuration returns the configuration as a reader sees it now.
func (r *Router) configuration(ctx context.Context) (conf *config, err error) {
	err = r.read(ctx, func(c *Conn) error {
		conf, err = r.config.load(c)
		return err
	})
	return conf, err
}

func (cache *configCache) load(c *Conn) (*config, error) {
	version, err := cache.admit(c)
	if err != nil {
		return nil, err
	}
	if have := cache.known(version); have != nil {
		return have, nil
	}
	fresh, err := readConfig(c, version, cache.parts)
	if err != nil {
		return nil, err
	}
	cache.judge(fresh)
	cache.mu.Lock()
	cache.conf = fresh
	cache.mu.Unlock()
	return fresh, nil
}

// admit returns the version of the configuration as a connection sees it. It refuses tables that a newer program has made
// unfit for this one, however long the connection has been open: a migration changes that version, too.
func (cache *configCache) admit(c *Conn) (version string, err error) {
	if version, _, err = c.text(`SELECT value FROM settings WHERE key = '` + configVersion + `'`); err != nil {
		return "", err
	}
	return version, cache.admitAt(c, version)
}

// admitAt does what admit does, with a version of the configuration that was read already.
func (cache *configCache) admitAt(c *Conn, version string) error {
	if admitted := cache.admitted.Load(); admitted != nil && *admitted == version {
		return nil
	}
	if err := c.Admit(); err != nil {
		return err
	}
	cache.admitted.Store(&version)
	return nil
}

// known returns the configuration of that version if it was the last to be read, else nil.
func (cache *configCache) known(version string) *config {
	cache.mu.Lock()
	defer cache.mu.Unlock()
	if cache.conf == nil || cache.conf.version != version {
		return nil
	}
	return cache.conf
}

// last returns the configuration that was read last, which may have changed since; nil before the first.
func (cache *configCache) last() *config {
	cache.mu.Lock()
	defer cache.mu.Unlock()
	return cache.conf
}

func readConfig(c *Conn, version string, parts []*Part) (*config, error) {
	conf := &config{version: version, stored: map[string]string{}, agents: map[string]*Agent{}, groups: map[string][]string{}, taken: map[string][]string{}}
	err := c.query(`SELECT key, value FROM settings`, func(row store.Row) error {
		conf.stored[row.Text(0)] = row.Text(1)
		return nil
	})
	if err != nil {
		return nil, err
	}
	conf.settings, conf.unreadable = settingsFrom(conf.stored)
	conf.formers = formersIn(conf.stored)
	for _, def := range settingList {
		if err := conf.unreadable[def.Key]; err != nil {
			conf.odd = append(conf.odd, fmt.Sprintf("the setting %s cannot be read (%v): its default holds, %s", def.Key, err, def.Default))
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
			conf.agents[a.Name] = a
		}
	}
	err = c.query(`SELECT `+agentColumns+` FROM agents ORDER BY name`, func(row store.Row) error {
		if _, ok := nameIn(row[0]); !ok {
			conf.oddName("agents", "name", row[0])
			return nil
		}
		a := scanAgent(row)
		if IsBuiltIn(a.Name) {
			conf.noteTaken(takenByAgent, a.Name)
			return nil
		}
		conf.agents[a.Name] = a
		conf.names = append(conf.names, a.Name)
		conf.longestSilence = max(conf.longestSilence, time.Duration(a.SilentAfter)*time.Second)
		return nil
	})
	if err != nil {
		return nil, err
	}
	conf.shortestLease = conf.usualLease(nil)
	for _, agent := range conf.agents {
		conf.shortestLease = min(conf.shortestLease, conf.usualLease(agent))
	}
	return conf, conf.readGroups(c)
}

func (conf *config) readGroups(c *Conn) error {
	return c.query(`SELECT g.name, m.agent, m.position FROM groups g LEFT JOIN group_members m ON m.group_name = g.name
		ORDER BY g.name, m.position`, func(row store.Row) error {
		name, ok := nameIn(row[0])
		if !ok {
			conf.oddName("groups", "name", row[0])
			return nil
		}
		if IsBuiltIn(name) {
			conf.noteTaken(takenByGroup, name)
			return nil
		}
		members, again := conf.groups[name]
		if !again && conf.agents[name] != nil {
			conf.odd = append(conf.odd, "the group "+name+" has the name of an agent, which gets what is sent to it")
		}
		member, ok := nameIn(row[1])
		switch {
		case row[2] == nil: // it has no members
		case !ok:
			conf.oddName("group_members", "agent", row[1])
		case IsBuiltIn(member):
			conf.noteTaken(takenByMember+name, member)
		default:
			members = append(members, member)
		}
		conf.groups[name] = members
		return nil
	})
}

// configChanged makes every process read the configuration again. The new version is random and not counted: a counter
// that was rolled back and used again would pass for known.
func (t *tx) configChanged() error {
	id, err := t.newID("")
	if err != nil {
		return err
	}
	t.conf, t.ring.all, t.traced = nil, true, true
	return t.storeSetting(configVersion, id)
}
