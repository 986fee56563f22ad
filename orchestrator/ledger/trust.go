package ledger

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// A database determines which commands run, which files are written and which addresses are called. A database that
// somebody else wrote, for example one in a cloned project, could thereby do on this machine whatever the user can.
// So a database acts outside of itself only if this user created it here, or trusts it. Until then its messages are
// sent, delivered into inboxes and read. All other due work waits, as it does for an agent whose transport is
// disabled.
//
// The only check is Config.Untrusted. It is made where an action would start: delivery.claimNext (transports),
// sessions.Sessions.Look (commands that start agents), schedules.Runnable, questions.SignalURL and daemons.Ours
// (addresses to which somebody is directed). Agents that get nothing until then are withheld, see judge. All other
// uses of Config.Untrusted merely avoid needless work or inform somebody.

// NotTrusted describes what Mailroom does not do for a database that is not trusted. NotTrustedHint describes the
// remedy, and UntilTrusted how long the restriction lasts.
const (
	NotTrusted     = "this database is not trusted, so Mailroom does not run its commands and schedules, write files, or call URLs for it"
	NotTrustedHint = "To list what the database would run, write, and call, run `mailroom trust --show`. To allow it, run `mailroom trust`"
	UntilTrusted   = "until you run `mailroom trust` on this machine"
)

// Trust is the record of the databases that a user created or trusts on this machine.
type Trust struct {
	// Folder contains a file per database, and the file of Key. It is created with mode 0700 when the first of these
	// files is written. "" means no folder: nothing can be trusted.
	Folder string
}

// errNoFolder means that nothing can be recorded.
var errNoFolder = errors.New("no folder for the list of trusted databases: neither HOME nor XDG_STATE_HOME is set")

const (
	keyFile   = "daemon.key"
	keyLength = 52 // length of two results of crypto/rand.Text
)

// Key returns the secret by which the processes of this user on this machine recognize each other. If there is none,
// Key creates it if create is true, and otherwise returns fs.ErrNotExist. The file is read on every call, and
// again after creation, because one of two processes that create it at once replaces the other's.
func (t *Trust) Key(create bool) ([]byte, error) {
	if t.Folder == "" {
		return nil, errNoFolder
	}
	path := filepath.Join(t.Folder, keyFile)
	key, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && create {
		if err = os.MkdirAll(t.Folder, 0o700); err == nil {
			err = store.ReplaceFile(path, []byte(rand.Text()+rand.Text()), 0o600)
		}
		if err == nil {
			key, err = os.ReadFile(path)
		}
	}
	if err == nil && len(key) != keyLength {
		err = fmt.Errorf("%s does not contain a valid key: remove the file, and the next daemon creates a new key", path)
	}
	if err != nil {
		return nil, err
	}
	return key, nil
}

// TrustedDatabase is a database that was created or trusted on this machine. It is trusted only with this id and at
// this path.
type TrustedDatabase struct {
	ID    string `json:"id"`
	Path  string `json:"path"`
	Since string `json:"since"`
	Gone  bool   `json:"gone,omitempty"` // there is no file at the path; computed, not stored
}

// file returns the path of the file that records the trust in a database.
func (t *Trust) file(id, path string) string {
	return filepath.Join(t.Folder, fmt.Sprintf("%x.json", sha256.Sum256([]byte(id+"\x00"+path))))
}

// find returns the record of a database, or the zero value if the database is not trusted.
func (t *Trust) find(id, path string) (found TrustedDatabase, err error) {
	if t.Folder == "" || id == "" {
		return found, nil
	}
	found, err = readTrusted(t.file(id, path))
	if errors.Is(err, fs.ErrNotExist) || err == nil && (found.ID != id || found.Path != path) {
		return TrustedDatabase{}, nil
	}
	return found, err
}

// Made reports whether this user created or trusts a database here, so that it may act outside of itself.
func (t *Trust) Made(id, path string) bool { return t.why(id, path) == "" }

func readTrusted(file string) (d TrustedDatabase, err error) {
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	return d, err
}

// Add trusts a database. The record is on disk when Add returns.
func (t *Trust) Add(d TrustedDatabase) error {
	if t.Folder == "" {
		return errNoFolder
	}
	if found, err := t.find(d.ID, d.Path); err == nil && found.ID != "" {
		return nil
	}
	if err := os.MkdirAll(t.Folder, 0o700); err != nil {
		return err
	}
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(t.file(d.ID, d.Path), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(append(text, '\n'), 0)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err // an incomplete file trusts nothing
	}
	return store.SyncFolders(t.Folder)
}

// Remove withdraws the trust in a database.
func (t *Trust) Remove(id, path string) error {
	if t.Folder == "" {
		return nil
	}
	if err := os.Remove(t.file(id, path)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// RemoveAt withdraws the trust in all databases at a path, and returns their number.
func (t *Trust) RemoveAt(path string) (n int, err error) {
	list, err := t.List()
	for _, d := range list {
		if d.Path == path && err == nil {
			err = t.Remove(d.ID, path)
			n++
		}
	}
	return n, err
}

// List returns all trusted databases, sorted by path. It skips files that cannot be read, which trust nothing.
func (t *Trust) List() ([]TrustedDatabase, error) {
	list := []TrustedDatabase{}
	entries, err := os.ReadDir(t.Folder)
	if t.Folder == "" || errors.Is(err, fs.ErrNotExist) {
		return list, nil
	}
	for _, e := range entries {
		if d, err := readTrusted(filepath.Join(t.Folder, e.Name())); err == nil &&
			filepath.Base(t.file(d.ID, d.Path)) == e.Name() {
			list = append(list, d)
		}
	}
	slices.SortFunc(list,
		func(a, b TrustedDatabase) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.ID, b.ID)) })
	return list, err
}

// why returns the reason why a database is not trusted, or "" if it is trusted.
func (t *Trust) why(id, path string) string {
	found, err := t.find(id, path)
	switch {
	case err != nil:
		return "cannot read the list of trusted databases: " + err.Error()
	case found.ID != "":
		return ""
	}
	others, _ := t.List()
	for _, d := range others {
		if d.ID == id {
			return "the database is trusted at " + d.Path +
				", but not at this address: it was copied or moved, or this machine uses another address for the server"
		}
	}
	if t.Folder == "" {
		return "neither HOME nor XDG_STATE_HOME is set, so Mailroom cannot check whether this user created the database on this machine"
	}
	return "there is no record in " + t.Folder + " that this user created the database on this machine"
}

// TrustedPath returns the path under which the database is trusted. Symbolic links in the path do not affect it.
func (l *Ledger) TrustedPath() string {
	if s, ok := l.Store.(store.Central); ok {
		return s.Place()
	}
	if real, err := filepath.EvalSymlinks(l.Path()); err == nil {
		return real
	}
	if folder, err := filepath.EvalSymlinks(filepath.Dir(l.Path())); err == nil {
		return filepath.Join(folder, filepath.Base(l.Path()))
	}
	return l.Path()
}

// judge marks the agents in a configuration that are on other hosts. It determines whether the database is trusted,
// and if not, marks the agents that get nothing until it is.
func judge(l *Ledger, conf *Config) {
	locate(l, conf)
	if l.Trust == nil {
		return
	}
	if conf.Untrusted = l.Trust.why(conf.Stored[store.DatabaseID], l.TrustedPath()); conf.Untrusted == "" {
		return
	}
	for _, a := range conf.Agents {
		a.withheld = l.SetTransport(a) == nil && !a.elsewhere // elsewhere this trust has no effect
	}
}

// WithheldFrom returns those of the named agents whose messages stay in the database until it is trusted.
func (conf *Config) WithheldFrom(names []string) (withheld []string) {
	if conf.Untrusted == "" {
		return nil
	}
	for _, name := range names {
		if a := conf.Agents[name]; a != nil && a.withheld {
			withheld = append(withheld, name)
		}
	}
	return withheld
}

// Untrusted returns the reason why the database does not act outside of itself, or "" if it may. Errors: those of the
// database.
func (l *Ledger) Untrusted(ctx context.Context) (why string, err error) {
	conf, err := l.Configuration(ctx)
	if err != nil {
		return "", err
	}
	return conf.Untrusted, nil
}

// TrustNew trusts a database that this process has created. If the trust cannot be stored, the database works
// nevertheless, but is not trusted.
func (l *Ledger) TrustNew(id string) {
	if l.Trust == nil {
		return
	}
	if err := l.Trust.Add(TrustedDatabase{ID: id, Path: l.TrustedPath(),
		Since: orchestrator.Stamp(l.now())}); err != nil {
		l.Log.Warn("cannot record that this database was created on this machine; Mailroom does not run its commands until you run `mailroom trust`",
			"database", l.Path(), "error", err)
	}
}
