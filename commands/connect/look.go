package connect

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/overview"
)

// written is what a host's configuration says of Mailroom.
type written struct {
	agent, database string // "" is nothing
	vocabularies    []string
}

// connected finds the command line of the tools in what connect has written.
var connected = regexp.MustCompile(`"mcp",\s*"--as",\s*"([a-z][a-z0-9_-]*)",\s*"--vocabulary",\s*"([^"\\]*)"(?:,\s*"--db",\s*("(?:[^"\\]|\\.)*"))?`)

// writtenIn reads it; nothing where the host is not connected. An error is that of a file which cannot be read.
func writtenIn(h *host, at *place) (w written, err error) {
	for _, f := range h.files(at, &connection{}) {
		text, _, err := read(f.path)
		if err != nil {
			return w, fmt.Errorf("%s cannot be read: %w", f.path, err)
		}
		if found := connected.FindSubmatch(text); found != nil {
			w.agent, w.vocabularies = string(found[1]), strings.Split(string(found[2]), ",")
			if len(found[3]) > 0 {
				err = json.Unmarshal(found[3], &w.database)
			}
			return w, err
		}
	}
	return w, nil
}

// site is a host that connect has connected in a place with a database.
type site struct {
	*host
	at                       *place
	agent, program, database string // as it was connected; program is where Mailroom lay then
	ask                      bool
	was                      string // the place's folder, if it has moved from there
}

// sites lists those of a database, by their places. here is a folder in or below which a project may lie that has moved.
func sites(database, here, home string) (list []*site) {
	seen := map[[3]string]bool{}
	for _, r := range records(database) {
		key := [3]string{r.Program, r.Folder, r.Agent}
		i := slices.IndexFunc(known, func(h *host) bool { return h.name == r.Program })
		if seen[key] || i < 0 {
			continue
		}
		seen[key] = true
		s := &site{known[i], &place{r.Folder, home, r.Folder == ""}, r.Agent, r.Command, database, r.Ask, ""}
		if r.moved() {
			s.was, s.at.folder = r.Folder, ""
			s.find(filepath.Dir(database))
			s.find(here)
		}
		list = append(list, s)
	}
	return list
}

// find looks for a project that has moved, in a folder and those above it. It is where the host is connected as the same agent, with this
// database or one that is gone, and where nobody has connected it since.
func (s *site) find(from string) {
	for folder := from; s.at.folder == ""; folder = filepath.Dir(folder) {
		at := &place{folder: folder, home: s.at.home}
		if w, err := writtenIn(s.host, at); err == nil && w.agent == s.agent && (w.database == s.database || !exists(w.database)) &&
			!slices.ContainsFunc(records(s.database), func(r record) bool { return r.Folder == folder && r.Program == s.name }) {
			s.at.folder = folder
		}
		if folder == filepath.Dir(folder) {
			return
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// again is the command that connects it anew.
func (s *site) again() string {
	if s.at.user {
		return "`mailroom connect " + s.name + " --as " + s.agent + " --user`"
	}
	return "`mailroom connect " + s.name + " --as " + s.agent + " --folder " + orchestrator.ShellWord(s.at.folder) + "`"
}

// paths says which path in the configuration has moved; "" is none. An error is what only the user can decide.
func (s *site) paths() (moved string, err error) {
	if s.at.folder == "" && !s.at.user {
		return "", fmt.Errorf("its folder is gone: %s", s.was)
	}
	w, err := writtenIn(s.host, s.at)
	switch {
	case err != nil:
		return "", err
	case w.agent == "":
		return "", fmt.Errorf("its configuration has nothing of Mailroom any more")
	case w.database != s.database && exists(w.database):
		return "", fmt.Errorf("its configuration names another database, %s", w.database)
	case w.database != s.database:
		return "it named a database that is not there: " + w.database, nil
	case !exists(s.program):
		return "it named a program that is not there: " + s.program, nil
	case s.was != "":
		return "its folder was " + s.was, nil
	}
	return "", s.whole()
}

// whole is an error if a file of the host's lacks what is ours in it.
func (s *site) whole() error {
	for _, f := range s.files(s.at, &connection{}) {
		text, _, err := read(f.path)
		rest := text
		if err == nil {
			rest, err = f.remove(text)
		}
		if err != nil {
			return fmt.Errorf("%s cannot be read: %w", f.path, err)
		}
		if bytes.Equal(rest, text) || len(rest) == 0 && string(bytes.TrimSpace(text)) == "{}" {
			return fmt.Errorf("%s has nothing of Mailroom any more", f.path)
		}
	}
	return nil
}

// look says how it stands. With mend it repairs paths.
func (s *site) look(ctx context.Context, env commands.Env, mend bool) overview.Finding {
	f := overview.Finding{Check: s.name + " as " + s.agent, Level: "problem"}
	moved, err := s.paths()
	switch {
	case err != nil:
		f.Says, f.Do = err.Error(), s.again()+" mends it, and with --remove it is forgotten"
		if s.at.folder == "" && !s.at.user {
			f.Do = "If the project was moved, `mailroom doctor` in its new folder mends it"
		}
	case moved != "" && !mend:
		f.Says, f.Do = moved, s.again()+" mends it"
	case moved != "":
		if err := s.mend(ctx, env); err != nil {
			f.Says, f.Do = moved+". It could not be mended: "+err.Error(), s.again()
			break
		}
		f.Level, f.Says, f.Do = "ok", moved+"; mended", strings.Join(s.next, " ")
	default:
		return s.heard(ctx, env, f)
	}
	return f
}

// heard says whether the host runs the hooks.
func (s *site) heard(ctx context.Context, env commands.Env, f overview.Finding) overview.Finding {
	if s.distrusts != nil {
		if why := s.distrusts(s.at); why != "" {
			f.Level, f.Says, f.Do = "problem", why, strings.Join(s.next, " ")
			return f
		}
	}
	f.Level = "note"
	seen, shown, err := hosts.LastHeard(ctx, env.Ledger, s.name, s.agent)
	switch {
	case err != nil:
		f.Says = err.Error()
	case seen == "":
		f.Says, f.Do = "connected; no hook has been called yet", "Start it anew there, and trust what it asks about"
	default:
		f.Level, f.Says = "ok", "its last hook was called at "+seen
		if shown == "" {
			f.Says += "; it has not been shown any message yet"
		} else {
			f.Says += ", the last message was shown to it at " + shown
		}
	}
	return f
}

// mend writes the configuration anew, with the paths of today.
func (s *site) mend(ctx context.Context, env commands.Env) error {
	if why, err := untrusted(ctx, env); err != nil || why != "" {
		return cmp.Or(err, error(orchestrator.Errorf(orchestrator.PermissionDenied, "the database is not trusted")))
	}
	var as Params
	if s.ask {
		as.Ask = &s.ask
	}
	c, err := s.connection(s.at, s.database, as)
	if err != nil {
		return err
	}
	c.agent = s.agent
	changes, files, err := plan(s.host, s.at, c)
	if err != nil {
		return err
	}
	return put(changes, files, s.host, s.at, c)
}

// Look says how the hosts stand that were connected with a database: whether their configuration is as connect left it, whether they
// run its hooks, and when they last did. With mend it repairs the paths of a program, a database or a project that has moved, unless
// the database is not trusted.
func Look(ctx context.Context, env commands.Env, mend bool) (found []overview.Finding) {
	at, err := placeOf(Params{Folder: "."})
	if err != nil || env.Ledger.NoneYet() {
		return nil
	}
	for _, s := range sites(env.Ledger.Path(), at.folder, at.home) {
		found = append(found, s.look(ctx, env, mend))
	}
	return found
}
