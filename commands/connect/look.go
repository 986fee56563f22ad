package connect

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agenthost"
	"mailroom/orchestrator/overview"
)

// written holds what a host's configuration contains about Mailroom.
type written struct{ agent, database, host string } // "" if missing

// where returns the name of the database, for people.
func (w *written) where() string { return cmp.Or(w.database, "the database of its folder") }

// writtenIn reads a host's configuration. It returns the zero value if the host is not connected, and an error if a
// file cannot be read.
func writtenIn(h *agenthost.Host, at *agenthost.Place) (w written, err error) {
	for _, f := range filesOf(h, at, &connection{}) {
		text, _, err := read(f.path)
		if err != nil {
			return w, fmt.Errorf("cannot read %s: %w", f.path, err)
		}
		if words := f.tools(text); words != nil {
			w.agent = words[3]
			if i := slices.Index(words, "--db"); i >= 0 && i+1 < len(words) {
				w.database = words[i+1]
			}
			if i := slices.Index(words, "--host"); i >= 0 && i+1 < len(words) {
				w.host = words[i+1]
			}
			return w, nil
		}
	}
	return w, nil
}

// site is a host that connect connected with a database in a place, as recorded at that time.
type site struct {
	*agenthost.Host
	record   record
	at       *agenthost.Place
	database string
	book     book
	was      string // the folder of the place, if the project has moved from there
}

// sites returns the sites of a database, sorted by place, including those connected before the database was moved.
// here is a folder in or above which a moved project may be.
func sites(env commands.Env, id string, here *agenthost.Place) (list []*site) {
	b, path, seen := bookOf(env), env.Database(), map[[3]string]bool{}
	for _, r := range b.all() {
		key := [3]string{r.Program, r.Folder, r.Agent}
		h := agenthost.Find(r.Program)
		if own := r.Database == path || r.ID == id && !isThere(r.Database); !own || seen[key] || h == nil {
			continue
		}
		seen[key] = true
		s := &site{Host: h, record: r, at: &agenthost.Place{Folder: r.Folder, Home: here.Home, User: r.Folder == ""},
			database: path, book: b}
		if r.moved() {
			s.was, s.at.Folder = r.Folder, ""
			if filepath.IsAbs(path) {
				s.find(filepath.Dir(path))
			}
			s.find(here.Folder)
		}
		list = append(list, s)
	}
	return list
}

// find looks for a moved project in a folder and in the folders above it. The project is in a folder where the
// recorded file has the text that connect wrote, unless somebody has connected the host there since.
func (s *site) find(from string) {
	for folder := from; s.at.Folder == ""; folder = filepath.Dir(folder) {
		is := func(f file) bool {
			text, path, err := read(f.path)
			return err == nil && s.record.cameTo(folder, path, text)
		}
		since := func(r record) bool { return r.Folder == folder && r.Program == s.Name }
		if slices.ContainsFunc(filesOf(s.Host, &agenthost.Place{Folder: folder, Home: s.at.Home}, &connection{}), is) &&
			!slices.ContainsFunc(s.book.all(), since) {
			s.at.Folder = folder
		}
		if folder == filepath.Dir(folder) {
			return
		}
	}
}

// gone reports whether the folder of the site does not exist and was not found elsewhere.
func (s *site) gone() bool { return s.at.Folder == "" && !s.at.User }

func exists(path string) bool {
	_, err := os.Stat(path)
	return path != "" && err == nil
}

// isThere reports whether a database exists. It assumes that a database that is not a local file exists.
func isThere(database string) bool { return !filepath.IsAbs(database) || exists(database) }

// command returns a command line that connects the site again. more adds words that change what the command does.
func (s *site) command(more string) string {
	folder := cmp.Or(s.at.Folder, s.was)
	words := "`mailroom connect " + s.Name + " --as " + s.record.Agent
	if s.at.User {
		words += " --user"
	} else {
		words += " --folder " + orchestrator.ShellWord(folder)
	}
	return words + " --db " + orchestrator.ShellWord(s.database) + more + "`"
}

// paths returns which path in the configuration is out of date, or "" if none is. It returns an error for a problem
// that only the user can decide.
func (s *site) paths() (moved string, err error) {
	if s.gone() {
		return "", errors.New("its folder no longer exists")
	}
	w, err := writtenIn(s.Host, s.at)
	switch {
	case err != nil:
		return "", err
	case w.agent == "":
		return "", errors.New("its configuration no longer contains Mailroom")
	case w.database != s.database && (w.database == "" || isThere(w.database)):
		return "", fmt.Errorf("its configuration uses another database: %s", w.where())
	case w.database != s.database:
		return noDatabase + w.database, nil
	case !exists(s.record.Command):
		return "its configuration refers to a program that does not exist: " + s.record.Command, nil
	case s.was != "":
		return "its folder was moved from " + s.was, nil
	case w.host == "":
		return "its configuration starts the tools without --host", nil
	}
	return "", s.whole()
}

// whole returns an error if connecting the host again with the same options would change anything. Whether the host
// asks before it uses a tool is not compared, because the user may have changed that.
func (s *site) whole() error {
	c := connection{
		program: s.record.Command, host: cmp.Or(s.record.Host, commands.PathOf(s.Name)), agent: s.record.Agent,
		database: s.database, vocabularies: s.record.Vocabularies, choices: s.record.choices, user: s.at.User, spare: true,
	}
	asks := c
	c.Ask, asks.Ask = false, true
	written := func(string, []byte) bool { return true }
	allowed, asking := filesOf(s.Host, s.at, &c), filesOf(s.Host, s.at, &asks)
	for i := range allowed {
		one, err := allowed[i].planAdd(written)
		if err != nil {
			return err
		}
		if one.result().Change == "none" {
			continue
		}
		if one, err = asking[i].planAdd(written); err != nil {
			return err
		}
		if one.result().Change != "none" {
			return fmt.Errorf("%s lacks something that Mailroom needs, or differs from what `mailroom connect` writes", one.path)
		}
	}
	return nil
}

// facts queries the database about the site. It returns an error if the agent does not exist, because the agent was
// removed or the database was created again.
func (s *site) facts(ctx context.Context, env commands.Env) (f Facts, err error) {
	f, err = ask(ctx, env, Asked{Host: s.Name, Agent: s.record.Agent})
	if err == nil && s.record.Agent != orchestrator.Auto && !f.Known {
		err = fmt.Errorf("the database has no agent %s", s.record.Agent)
	}
	return f, err
}

// Words used in findings.
const (
	hostCode   = "connected host"
	allFolders = "all folders"
)

// look returns the state of the site. With mend, it repairs paths.
func (s *site) look(ctx context.Context, env commands.Env, mend bool) overview.Finding {
	where := cmp.Or(s.at.Folder, s.was)
	if s.at.User {
		where = allFolders
	}
	f := overview.Finding{Code: hostCode, About: s.Name + " as " + s.record.Agent + " in " + where,
		Level: overview.Problem}
	moved, err := s.paths()
	var known Facts
	if err == nil && moved == "" {
		known, err = s.facts(ctx, env)
	}
	switch {
	case s.gone():
		f.Says, f.Do = err.Error(),
			"If the project was moved, run `mailroom doctor --try` in its new folder. Otherwise, to remove the connection, run "+
				s.command(" --remove")
	case err != nil:
		f.Says, f.Do = err.Error(), "To fix this, run "+s.command("")+". To disconnect the host, run "+s.command(" --remove")
	case moved != "" && !mend:
		f.Says, f.Do = moved, "To fix this, run "+s.command("")
	case moved != "":
		changed, err := s.mend(ctx, env)
		if err != nil {
			f.Says, f.Do = moved+". The repair failed: "+err.Error(), "To fix this, run "+s.command("")
			if orchestrator.CodeOf(err) == orchestrator.PermissionDenied {
				f.Do = "Run `mailroom trust`, and then `mailroom doctor`"
			}
			break
		}
		f.Level, f.Says, f.Do = overview.Fine, moved+"; repaired. The host now uses the database "+s.database,
			starts(s.Host, s.at)
		if len(changed) > 0 {
			f.Says = moved + "; repaired in " + strings.Join(changed, " and ") + ". The host now uses the database " + s.database
		}
	default:
		return s.heard(&known, f)
	}
	return f
}

// heard completes the finding with whether the host runs the hooks.
func (s *site) heard(known *Facts, f overview.Finding) overview.Finding {
	if why := refuses(s.Host, s.at); why != "" {
		f.Says, f.Do = why, starts(s.Host, s.at)
		return f
	}
	f.Level = overview.Note
	who := s.record.Agent
	if who == orchestrator.Auto {
		who = "one of its agents"
	}
	switch {
	case known.Seen == "":
		f.Says, f.Do = "connected; no hook has been called yet", "Restart the host in the connected folder. If the host asks whether you trust the folder or the hooks, answer yes"
	case known.Shown == "":
		f.Level, f.Says = overview.Fine, "a hook was last called for "+who+" at "+known.Seen+
			"; no message has been shown yet"
	default:
		f.Level, f.Says = overview.Fine, "a hook was last called for "+who+" at "+known.Seen+
			", and a message was last shown at "+known.Shown
	}
	return f
}

// mend writes the configuration again, with the current paths, and returns the files that changed.
func (s *site) mend(ctx context.Context, env commands.Env) (changed []string, err error) {
	f, err := ask(ctx, env, Asked{})
	if err != nil {
		return nil, err
	}
	if f.Untrusted != "" {
		return nil, orchestrator.Errorf(orchestrator.PermissionDenied, "the database is not trusted: %s", f.Untrusted)
	}
	c, err := connectionOf(env, s.Host, s.at, Params{Vocabulary: s.record.Vocabularies})
	if err != nil {
		return nil, err
	}
	c.id, c.agent, c.choices = f.ID, s.record.Agent, s.record.choices
	if c.host == "" {
		c.host = s.record.Host
	}
	changes, files, err := plan(s.Host, s.at, c)
	if err != nil {
		return nil, err
	}
	if err := put(changes, files, s.Host, s.at, c); err != nil {
		return nil, err
	}
	for i := range changes {
		if changes[i].result().Change != "none" {
			changed = append(changed, changes[i].path)
		}
	}
	if s.was != "" {
		s.book.dropAll(s.Name, s.was)
	}
	return changed, nil
}

// Look returns the state of the hosts that were connected with a database: whether their configuration is as connect
// left it, whether they run its hooks, and when they last did. With mend, it repairs the paths of a moved program,
// database or project, unless the database is not trusted.
//
// The hosts are those of the machine on which the command line was typed.
func Look(ctx context.Context, env commands.Env, mend bool) (found overview.Findings) {
	if env.Call.Ask != nil {
		return lookThere(env, mend)
	}
	at, err := placeOf(Params{Folder: "."})
	var f Facts
	if err == nil {
		f, err = ask(ctx, env, Asked{})
	}
	if err != nil {
		return overview.Findings{{Code: hostCode, Level: overview.Problem, Says: err.Error()}}
	}
	var list []*site
	if !f.None {
		list = sites(env, f.ID, at)
	}
	for _, s := range list {
		found = append(found, s.look(ctx, env, mend))
	}
	found = append(found, elsewhere(env, list)...)
	for _, at := range []*agenthost.Place{at, {Folder: at.Folder, Home: at.Home, User: true}} {
		found = append(found, lost(bookOf(env), at, list, env.Database())...)
		found = append(found, leftOver(bookOf(env), at)...)
	}
	return found
}

// lookThere runs Look on the machine on which the command line was typed.
func lookThere(env commands.Env, mend bool) (found overview.Findings) {
	question := commands.Connections
	if mend {
		question = commands.MendConnections
	}
	text, err := env.Call.Ask(question)
	if err == nil {
		err = json.Unmarshal(text, &found)
	}
	if err != nil {
		return overview.Findings{{Code: hostCode, Level: overview.Note, Says: "cannot check the agent hosts in the current folder: " + err.Error()}}
	}
	return found
}

// leftOver lists what runs Mailroom in the configurations of a place although connect has no record of it: entries of
// an unrecorded connection, and command lines that somebody else wrote.
func leftOver(b book, at *agenthost.Place) (found overview.Findings) {
	seen := map[string]bool{} // hosts may share files
	for _, h := range agenthost.Hosts {
		_, connected := b.findTools(h, at)
		for _, f := range filesOf(h, at, &connection{}) {
			text, path, err := read(f.path)
			if err != nil || !carried().Match(text) {
				continue
			}
			about := h.Name + " in " + cmp.Or(at.Scope(), allFolders)
			var lines []string
			if !seen[path] {
				seen[path], lines = true, f.others(text)
			}
			for _, line := range lines {
				found = append(found, overview.Finding{
					Code: hostCode, About: about, Level: overview.Note,
					Says: path + " has a command line that runs Mailroom. `mailroom connect` did not write that line, or somebody changed it later: " + orchestrator.Clip(line),
					Do:   "If you do not want the line, remove it manually",
				})
			}
			if _, kept := b.find(h.Name, at.Scope(), path, text); kept || connected {
				continue
			}
			if after, err := f.without(text, &record{}); err != nil || !bytes.Equal(after, text) {
				found = append(found, overview.Finding{
					Code: hostCode, About: about, Level: overview.Note,
					Says: path + " has an entry that runs Mailroom, but no connection is recorded. The entry is left over, or was created on another machine or by somebody else",
					Do:   "To connect the host here, run " + connects(h, at) + ". To remove the entry, add --remove to that command",
				})
			}
		}
	}
	return found
}

// elsewhere lists the hosts that recently ran what is connected for another host, and the host in which this program
// runs if that host is not connected.
func elsewhere(env commands.Env, list []*site) (found overview.Findings) {
	database := env.Database()
	if here := agenthost.Around(); len(list) > 0 && here.Host != "" &&
		!slices.ContainsFunc(list, func(s *site) bool { return s.Name == here.Host }) {
		found = append(found, overview.Finding{
			Code: hostCode, About: here.Host, Level: overview.Note, Says: "`mailroom doctor` is running in this host (" + here.By +
				"), but the host is not connected. Hooks and tools that are configured for other hosts do nothing in this host",
			Do: here.Own(database),
		})
	}
	for _, r := range agenthost.Refusals(stateOf(env), database, time.Now()) {
		if slices.ContainsFunc(list, func(s *site) bool { return s.Name == r.Seen.Host && (s.at.User || s.at.Folder == r.Folder) }) {
			continue // a connected host does not need what it runs for another host
		}
		found = append(found, overview.Finding{
			Code: hostCode, About: r.Seen.Host + " in " + r.Folder, Level: overview.Note,
			Says: fmt.Sprintf("this host ran the %s of %s at %s (%s), but they did nothing. Messages to %s are waiting for %s", r.What, r.Host,
				r.At.UTC().Format(time.RFC3339), r.Seen.By, r.Agent, r.Host),
			Do: r.Seen.Own(database),
		})
	}
	return found
}

// lost lists the hosts in a place that were connected with a database that no longer exists, except those in list,
// which are examined already.
func lost(b book, at *agenthost.Place, list []*site, database string) (found overview.Findings) {
	for _, h := range agenthost.Hosts {
		r, connected := b.findTools(h, at)
		listed := slices.ContainsFunc(list, func(s *site) bool { return s.Host == h && s.at.Scope() == at.Scope() })
		if !connected || listed || isThere(r.Database) {
			continue
		}
		found = append(found, overview.Finding{
			Code: hostCode, About: h.Name + " as " + r.Agent + " in " + cmp.Or(at.Scope(), allFolders),
			Level: overview.Problem, Says: noDatabase + r.Database,
			Do: "To connect the host to the database " + database + ", run " + connects(h, at),
		})
	}
	return found
}

// connects returns a command line that connects a host in a place.
func connects(h *agenthost.Host, at *agenthost.Place) string {
	if at.User {
		return "`mailroom connect " + h.Name + " --user`"
	}
	return "`mailroom connect " + h.Name + "`"
}

// noDatabase begins the text for a configuration that names a database that does not exist.
const noDatabase = "its configuration refers to a database that does not exist: "
