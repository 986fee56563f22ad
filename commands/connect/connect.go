// Package connect is the vocabulary that connects agent hosts, such as Claude Code, to Mailroom. It writes the tools
// and the hooks through which a session's model sends and receives messages into the host's configuration. Source:
// hosts.md.
package connect

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agenthost"
	"mailroom/orchestrator/ledger"
)

//go:embed *.md
var cards embed.FS

var vocabulary = &commands.Vocabulary{Name: "connect", Cards: cards, TopLevel: true}

// Definitions lists the commands in the order in which they are shown.
func Definitions() []*commands.Definition {
	return []*commands.Definition{connectCommand.Definition, thereCommand.Definition}
}

// Params holds which host to connect, and how.
type Params struct {
	Host       string   `json:"host,omitempty" desc:"agent host: claude, codex, gemini, opencode, kilo, pi, qwen, or copilot; leave it out to list the state of each host" check:"max=64" arg:"1"`
	Vocabulary []string `json:"vocabulary,omitempty" desc:"vocabulary whose tools the host gets; may be repeated; default: those that it has now; relay for a new connection" check:"max=64"`
	Folder     string   `json:"folder,omitempty" desc:"folder of the project" check:"min=1,max=4096" default:"."`
	User       bool     `json:"user,omitempty" desc:"connect the host in all folders of this user instead of one project"`
	Idle       *bool    `json:"idle,omitempty" desc:"wake idle Copilot sessions with an extension, which requires Copilot's experimental features"`
	V2         *bool    `json:"v2,omitempty" desc:"make OpenCode's plugin also support OpenCode 2 (untested)"`
	Ask        *bool    `json:"ask,omitempty" desc:"let the host ask before its model uses a Mailroom tool"`
	Exclude    bool     `json:"exclude,omitempty" desc:"make git ignore the written files in this clone of the repository only (.git/info/exclude)"`
	Print      bool     `json:"print,omitempty" desc:"print the files that would be written, without changing anything"`
	Remove     bool     `json:"remove,omitempty" desc:"disconnect the host"`
}

// Result holds what was changed or, for a call without a host, the state of each host.
type Result struct {
	Hosts    []HostResult `json:"hosts,omitempty"` // for a call without a host
	Host     string       `json:"host,omitempty"`
	Agent    string       `json:"agent,omitempty"`
	Added    bool         `json:"agent_added,omitempty"`
	Database string       `json:"database"`
	None     bool         `json:"no_database,omitempty"` // the database does not exist yet
	Files    []FileResult `json:"files,omitempty"`
	Next     []string     `json:"next,omitempty"`     // what the person has to do
	Exposed  []string     `json:"exposed,omitempty"`  // files with paths of this machine that could be committed
	Excluded []string     `json:"excluded,omitempty"` // files that git now ignores
	Asks     string       `json:"asks,omitempty"`     // what the host asks its user at the next start
	// Arguments are those with which `mailroom HOST` starts the host so that it does not ask before it uses the
	// tools, or so that idle sessions are woken.
	Arguments []string `json:"arguments,omitempty"`

	removed, printed, sleeps bool
}

var connectCommand = commands.Define(vocabulary, "connect", connect).
	With(commands.Traits{HereOnly: true, AtPlaces: true, MakesOne: true})

// connect changes the files of one host. If one file cannot be read or changed, none is written.
func connect(ctx context.Context, env commands.Env, p Params) (Result, error) {
	database := env.Database()
	at, err := placeOf(p)
	if err != nil {
		return Result{}, err
	}
	if asked := env.Caller.Named || p.Remove || p.Print || p.Exclude || p.Ask != nil || p.Idle != nil || p.V2 != nil || len(p.Vocabulary) > 0; p.Host == "" &&
		asked {
		return Result{}, orchestrator.InvalidParam("host", "missing").
			WithHint("Name one of: %s", strings.Join(agenthost.Connectable(), ", "))
	}
	if p.Host == "" {
		f, err := ask(ctx, env, Asked{})
		if err != nil {
			return Result{}, err
		}
		return Result{Hosts: standing(ctx, env, at, &f), Database: database, None: f.None}, nil
	}
	h := agenthost.Find(agenthost.Meant(p.Host))
	if h == nil {
		return Result{}, orchestrator.InvalidParam("host", "unknown host %q", orchestrator.Clip(p.Host)).
			WithHint("Use one of: %s", strings.Join(agenthost.Connectable(), ", "))
	}
	if err := p.suits(ctx, h, at); err != nil {
		return Result{}, err
	}
	r := Result{Host: h.Name, Database: database, removed: p.Remove, printed: p.Print}
	if p.Remove {
		if r.Files, err = disconnect(h, at, bookOf(env), p.Print); err == nil && !p.Print {
			err = r.unguard(ctx, at)
		}
		return r, err
	}
	before, _ := bookOf(env).findTools(h, at)
	f, err := ask(ctx, env, Asked{Host: h.Name, Agent: cmp.Or(env.Caller.Name, before.Agent), Plan: true})
	if err != nil {
		return Result{}, err
	}
	if f.Untrusted != "" {
		return Result{}, orchestrator.Errorf(orchestrator.PermissionDenied, "%s is not trusted: %s", database, f.Untrusted).
			WithHint(ledger.NotTrustedHint)
	}
	for _, name := range p.Vocabulary {
		if known := env.Catalogue.Vocabularies(); !slices.Contains(known, name) {
			return Result{},
				orchestrator.InvalidParam("vocabulary", "unknown vocabulary %q", orchestrator.Clip(name)).
					WithHint("Use one of: %s", strings.Join(known, ", "))
		}
	}
	c, err := connectionOf(env, h, at, p)
	if err != nil {
		return Result{}, err
	}
	if err := f.mayBe(env, h); err != nil {
		return Result{}, err
	}
	c.agent, r.None = f.Agent, f.None
	r, err = wire(ctx, env, h, at, c, r)
	if err == nil && !p.Print {
		err = r.guard(ctx, at, p.Exclude)
	}
	return r, err
}

// suits returns an error if the parameters require something that the host does not support in this place.
func (p *Params) suits(ctx context.Context, h *agenthost.Host, at *agenthost.Place) error {
	if h.OnlyAtTop && !p.User && !p.Remove {
		if top := string(repositoryOf(ctx, at.Folder)); top != "" && resolved(top) != at.Folder {
			return orchestrator.InvalidParam("folder", "%s reads hooks only in the top folder of a git repository", h.Name).
				WithHint("Connect %[1]s in %[2]s and start it in that folder. Or, to connect it in all folders, run `mailroom connect %[1]s --user`", h.Name, top)
		}
	}
	switch {
	case p.Ask != nil && *p.Ask && h.NeverAsks:
		return orchestrator.InvalidParam("ask", "%s never asks before it uses a tool", h.Name).WithHint("Leave out the parameter `ask`")
	case p.Idle != nil && !h.WakesIfAsked():
		return orchestrator.InvalidParam("idle", "only for copilot, not for %s", h.Name).WithHint("Leave out the parameter `idle`")
	case p.V2 != nil && !h.HasNext():
		return orchestrator.InvalidParam("v2", "only for opencode, not for %s", h.Name).WithHint("Leave out the parameter `v2`")
	case h.NotAtHome && !p.User && !p.Remove && at.Folder == resolved(at.Home):
		return orchestrator.InvalidParam("folder", "%s does not read project configuration in your home folder (%s)", h.Name, at.Folder).
			WithHint("To connect it in all folders, run `mailroom connect %s --user`. Or connect it in another folder", h.Name)
	}
	return nil
}

// wire writes the files of a host, and creates the database and the agent if they are missing.
func wire(ctx context.Context, env commands.Env, h *agenthost.Host, at *agenthost.Place, c *connection, r Result) (_ Result, err error) {
	r.Agent, r.Next, r.Asks = c.agent, toDo(h, at, c), h.Asks
	if !c.Ask {
		r.Arguments = h.Allows
	}
	if c.Idle {
		r.Arguments = slices.Concat(r.Arguments, h.Wakes)
	}
	r.sleeps = h.Sleeps() && !c.Idle
	changes, files, err := plan(h, at, c)
	if err != nil {
		return r, err
	}
	for i := range changes {
		r.Files = append(r.Files, changes[i].result())
		r.Files[i].Others = files[i].others(changes[i].after)
		if r.printed {
			r.Files[i].Text = string(changes[i].after)
		}
	}
	if r.printed {
		return r, nil
	}
	f, err := ask(ctx, env, Asked{Host: h.Name, Agent: c.agent, Add: true})
	if err != nil {
		return r, err
	}
	c.id, r.Added, r.None = f.ID, f.Added, false
	return r, put(changes, files, h, at, c)
}

// toDo lists what the person still has to do after a host was connected in a place.
func toDo(h *agenthost.Host, at *agenthost.Place, c *connection) (list []string) {
	if c.host == "" {
		list = append(list, "Install "+h.Name+", which is not in PATH, and run this command again.")
	}
	list = append(list, starts(h, at))
	if h.Allows != nil && !c.Ask {
		list = append(list, fmt.Sprintf("%s asks before it uses a tool. To start it without questions about Mailroom's tools, run `mailroom %[1]s`.", h.Name))
	}
	if c.Idle {
		list = append(list, fmt.Sprintf("Idle sessions are woken only if you start %s with %s, which turns on all its experimental features. To start it that way, run `mailroom %[1]s`.",
			h.Name, strings.Join(h.Wakes, " ")))
	}
	if c.V2 {
		list = append(list, "The plugin also supports OpenCode 2, but was not tested with that version. To remove this support, run `mailroom connect opencode --v2=false`.")
	}
	if at.User {
		list = append(list, h.Name+" now uses the database "+c.database+" in all folders.")
	}
	for _, r := range c.book.all() {
		if r.Database == c.database && r.Agent == c.agent && c.agent != orchestrator.Auto &&
			(r.Program != h.Name || r.Folder != at.Scope()) {
			list = append(list,
				fmt.Sprintf("The agent %s is also used by %s in %s, so each message reaches only one of the two connections. Use a different agent for each connection, or run `mailroom init` to give this project its own database.",
					c.agent, r.Program, cmp.Or(r.Folder, "all folders")))
			break
		}
	}
	for _, other := range agenthost.Hosts {
		if w, _ := writtenIn(other, at); w.agent != "" && w.database != c.database {
			list = append(list,
				fmt.Sprintf("%s is connected to another database: %s. Agents in different databases cannot write to each other.", other.Name, w.where()))
		}
	}
	return append(list,
		"Messages between connected agents do not need a daemon, but transports, retries, and schedules do. To install a daemon, run `mailroom service install`.")
}

// starts describes how to start the host in a place so that it reads its configuration.
func starts(h *agenthost.Host, at *agenthost.Place) string {
	where := "any folder"
	if !at.User {
		where = at.Folder
	}
	return "Restart " + h.Name + " in " + where + ". " + h.Asks
}

// put writes the changed files, and the records that are out of date.
func put(changes []change, files []file, h *agenthost.Host, at *agenthost.Place, c *connection) error {
	for i := range changes {
		one := &changes[i]
		if one.result().Change == "none" && !one.stale(h, at, c) {
			continue
		}
		if err := one.put(&files[i], h, at, c); err != nil {
			return unwritable(one.path, err)
		}
		if one.after == nil {
			one.forget(h, at, c.book)
		}
	}
	return nil
}

// mayBe returns an error if the agent cannot be used to connect a host, or is removed with its session.
func (f *Facts) mayBe(env commands.Env, h *agenthost.Host) error {
	switch name := f.Agent; {
	case name == orchestrator.Auto && h.Shares():
		return orchestrator.Errorf(orchestrator.InvalidParams,
			"the agent `auto` does not work with %s, because all sessions of %[1]s share a process", h.Name).
			WithHint("Give the name of one agent. All sessions then share that agent")
	case name == orchestrator.Auto && env.Distant != nil:
		return orchestrator.Errorf(orchestrator.InvalidParams, agenthost.AutoElsewhere).
			WithHint("Name the agent: run `mailroom connect %s` with `--as NAME`", h.Name)
	case name == orchestrator.User || name == orchestrator.Operator:
		return orchestrator.Errorf(orchestrator.InvalidParams, "the name %s is reserved for %s and cannot be an agent in a host", name,
			orchestrator.BuiltIns[name]).WithHint("Choose another name")
	case f.Given:
		return orchestrator.Errorf(orchestrator.Conflict,
			"the agent %s belongs to one session and is gone when that session ends", name).WithHint("Choose another name")
	}
	return nil
}

// plan returns the changes to all files. It changes nothing, so that no file is written if one of them cannot be.
func plan(h *agenthost.Host, at *agenthost.Place, c *connection) (changes []change, files []file, err error) {
	files = filesOf(h, at, c)
	for i := range files {
		one, err := files[i].planAdd(func(path string, text []byte) bool {
			_, found := c.book.find(h.Name, at.Scope(), path, text)
			return found
		})
		if err != nil {
			return nil, nil, err
		}
		if err := one.may(); err != nil {
			return nil, nil, err
		}
		changes = append(changes, one)
	}
	return changes, files, nil
}

// disconnect removes our entries from all files of a host. With only, it returns the changes without writing them.
func disconnect(h *agenthost.Host, at *agenthost.Place, b book, only bool) (results []FileResult, err error) {
	var changes []change
	for _, f := range filesOf(h, at, &connection{}) {
		one, err := f.planRemove(at, b)
		if err != nil {
			return nil, err
		}
		if err := one.may(); err != nil && !only {
			return nil, err
		}
		changes = append(changes, one)
		results = append(results, one.result())
		results[len(results)-1].Others = f.others(one.after)
	}
	for i := range slices.Backward(changes) { // the first file may have created the folder of the others
		if only {
			results[i].Text = string(changes[i].after)
			continue
		}
		if results[i].Change != "none" {
			if err := changes[i].write(); err != nil {
				return results, unwritable(changes[i].path, err)
			}
		}
		changes[i].forget(h, at, b)
	}
	if info, err := os.Stat(at.Folder); !only && !at.User && (err != nil || !info.IsDir()) {
		b.dropAll(h.Name, at.Folder)
	}
	return results, nil
}

// placeOf returns where a host is to be connected. With p.Remove, the folder need not exist any more.
func placeOf(p Params) (*agenthost.Place, error) {
	folder, err := filepath.Abs(p.Folder)
	if err == nil {
		var info os.FileInfo
		switch info, err = os.Stat(folder); {
		case p.Remove && (isGone(err) || err == nil && !info.IsDir()):
			err = nil
		case err == nil && !info.IsDir():
			err = fmt.Errorf("%s is not a folder", folder)
		}
	}
	if err != nil {
		return nil, orchestrator.InvalidParam("folder", "%v", err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, orchestrator.Errorf(orchestrator.Unavailable, "cannot find your home folder: %v", err)
	}
	return &agenthost.Place{Folder: resolved(folder), Home: home, User: p.User}, nil
}

// Text writes the result for people.
func (r Result) Text(w *terminal.Text) {
	if r.Host == "" {
		terminal.TableOf(w, []string{"HOST", "AGENT", "STATE"}, r.Hosts, func(h *HostResult) []string {
			return []string{h.Host, h.Agent, h.state()}
		})
		return
	}
	for i := range r.Files {
		f := &r.Files[i]
		if r.printed && f.Change == "removed" {
			w.Printf("%s: would be removed\n", f.Path)
		} else if r.printed {
			w.Printf("%s:\n", f.Path)
			w.File(f.Text)
		} else if f.Change != "none" {
			w.Printf("%s: %s\n", f.Path, f.Change)
		}
	}
	for i := range r.Files {
		for _, line := range r.Files[i].Others {
			w.Printf("%s still has a command line that runs Mailroom. `mailroom connect` did not write that line, or somebody changed it later. If you do not want the line, remove it manually: %s\n",
				r.Files[i].Path, orchestrator.Clip(line))
		}
	}
	switch {
	case r.printed:
	case r.removed && !r.changes():
		w.Printf("%s was not connected.\n", r.Host)
	case r.removed:
		w.Printf("Disconnected %s.\n", r.Host)
	default:
		r.connectedText(w)
	}
}

// changes reports whether any file was changed.
func (r *Result) changes() bool {
	return slices.ContainsFunc(r.Files, func(f FileResult) bool { return f.Change != "none" })
}

// connectedText writes the agent as which the host is connected, and what is left to do.
func (r *Result) connectedText(w *terminal.Text) {
	to := r.Agent
	if to == orchestrator.Auto {
		to = r.Host
		w.Printf("Each terminal that runs %s is a separate agent (%[1]s, %[1]s-2, and so on) in the database %s.\n",
			r.Host, r.Database)
	} else {
		w.Printf("Connected %s as the agent %s in the database %s.\n", r.Host, r.Agent, r.Database)
	}
	if r.Added {
		w.Printf("Added the agent %s.\n", r.Agent)
	}
	if r.Excluded != nil {
		w.Printf("In this clone of the repository, git now ignores these files: %s\n", strings.Join(r.Excluded, ", "))
	}
	if r.Exposed != nil {
		w.Printf("These files contain paths that are specific to this machine, so do not commit them: %s. To make git ignore those that are not yet tracked, run `mailroom connect %s --exclude`.\n",
			strings.Join(r.Exposed, ", "), r.Host)
	}
	if !r.changes() {
		w.Printf("No changes were needed. To see the state of each host, run `mailroom connect`.\n")
		return
	}
	for _, next := range r.Next {
		w.Printf("Next: %s\n", next)
	}
	w.Printf("To test the connection while %s is running:\n", r.Host)
	w.Whole(terminal.Painted("  " + terminal.Inline("mailroom send --db "+orchestrator.ShellWord(r.Database)+" "+to+
		" hello") + "\n"))
	if r.sleeps {
		w.Printf("Then type anything into %s, because messages do not wake it.\n", r.Host)
	}
}
