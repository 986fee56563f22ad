// Package connect is the vocabulary that connects agent hosts, such as Claude Code, to Mailroom: it writes into a host's
// configuration the tools and the hooks by which the model of a session writes and gets messages. Source: hosts.md.
package connect

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/ledger"
)

//go:embed *.md
var cards embed.FS

var vocabulary = &commands.Vocabulary{Name: "connect", Cards: cards, TopLevel: true}

// Definitions lists the commands in the order in which they are shown.
func Definitions() []*commands.Definition {
	return []*commands.Definition{connectCommand.Definition}
}

// Params say which host to connect, and how.
type Params struct {
	Host       string   `json:"host,omitempty" desc:"the host: claude, codex, gemini or opencode; without it the state of each is listed" check:"max=64" arg:"1"`
	Vocabulary []string `json:"vocabulary,omitempty" desc:"vocabulary of its tools; may be repeated (those that it has, or relay)" check:"max=64"`
	Folder     string   `json:"folder,omitempty" desc:"folder of the project" check:"min=1,max=4096" default:"."`
	User       bool     `json:"user,omitempty" desc:"connect it in all folders of this user, and not in one project"`
	Ask        *bool    `json:"ask,omitempty" desc:"let the host ask before its model uses a tool of Mailroom"`
	Print      bool     `json:"print,omitempty" desc:"show what would be written, and change nothing"`
	Remove     bool     `json:"remove,omitempty" desc:"disconnect it"`
}

// Result says what was done, or how things stand.
type Result struct {
	Hosts    []HostResult `json:"hosts,omitempty"` // of a call without a host
	Host     string       `json:"host,omitempty"`
	Agent    string       `json:"agent,omitempty"`
	Added    bool         `json:"agent_added,omitempty"`
	Database string       `json:"database"`
	Files    []FileResult `json:"files,omitempty"`
	Next     []string     `json:"next,omitempty"` // what the person has to do

	removed, printed bool
}

// HostResult is how a host stands in a folder, or else for its user.
type HostResult struct {
	Host    string `json:"host"`
	Program string `json:"program,omitempty"` // where it was found; "" is nowhere
	Agent   string `json:"agent,omitempty"`   // as whom it is connected; "" is not
	User    bool   `json:"user,omitempty"`    // it is connected in all folders of the user
	Level   string `json:"level,omitempty"`   // ok, note or problem, as doctor finds it
	Says    string `json:"says,omitempty"`
}

// host is an agent host that can be connected.
type host struct {
	name, program string
	files         func(p *place, c *connection) []file
	distrusts     func(p *place) string // why it does not run the hooks; "" if it does. nil: nobody but the host knows
	shares        bool                  // several sessions may run in one process
	next          []string              // what the person has to do when it was connected
}

// known are the hosts that can be connected.
var known = []*host{&claude, &codex, &gemini, &opencode}

// place is where a host's configuration lies.
type place struct {
	folder, home string
	user         bool
}

// scope is the folder in which the host is connected; "" is all of the user's.
func (p *place) scope() string {
	if p.user {
		return ""
	}
	return p.folder
}

// connection is what a host's configuration says of Mailroom.
type connection struct {
	program, agent, database string // without a database it is that of the host's folder
	host                     string // where the host's own program lies; "" is not known
	vocabularies             []string
	ask                      bool
	allow                    bool // the user has said that it does not ask
}

// serve are the words after the program's name with which the host starts the tools.
func (c *connection) serve(host string) []string {
	words := []string{"mcp", "--as", c.agent, "--vocabulary", strings.Join(c.vocabularies, ",")}
	if c.database != "" {
		words = append(words, "--db", c.database)
	}
	if c.agent == orchestrator.Auto {
		words = append(words, "--host", host)
	}
	return words
}

// hook is the command line of a hook.
func (c *connection) hook(host, event string) string {
	line := fmt.Sprintf("%s hook %s --host %s --as %s", orchestrator.ShellWord(c.program), event, host, c.agent)
	if c.database != "" {
		line += " --db " + orchestrator.ShellWord(c.database)
	}
	return line
}

var connectCommand = commands.Define(vocabulary, "connect", connect).With(commands.Traits{HereOnly: true})

// connect changes the files of one host, all or none of those that can be read.
func connect(ctx context.Context, env commands.Env, p Params) (Result, error) {
	at, err := placeOf(p)
	if err != nil {
		return Result{}, err
	}
	database := env.Ledger.Path()
	if p.Host == "" {
		return Result{Hosts: standing(ctx, env, at), Database: database}, nil
	}
	i := slices.IndexFunc(known, func(h *host) bool { return h.name == p.Host })
	if i < 0 {
		return Result{}, orchestrator.InvalidParam("host", "%q is none that can be connected", orchestrator.Clip(p.Host)).WithHint("Known: %s", strings.Join(names(), ", "))
	}
	h := known[i]
	why, err := untrusted(ctx, env)
	if err != nil {
		return Result{}, err
	}
	r := Result{Host: h.name, Database: database, removed: p.Remove, printed: p.Print}
	if p.Remove {
		if why != "" {
			database = "" // what lies beside it may be of anybody's making
		}
		r.Files, err = disconnect(h, at, database, p.Print)
		return r, err
	}
	if why != "" {
		return Result{}, orchestrator.Errorf(orchestrator.PermissionDenied, "%s is not trusted: %s", database, why).WithHint(ledger.NotTrustedHint)
	}
	c, err := h.connection(at, database, p)
	if err != nil {
		return Result{}, err
	}
	return wire(ctx, env, h, at, c, r)
}

// untrusted says why a database is not trusted: whoever it is from may have written what a model is to read.
func untrusted(ctx context.Context, env commands.Env) (why string, err error) {
	if env.Ledger.NoneYet() {
		return "", nil
	}
	return env.Ledger.Untrusted(ctx)
}

// wire writes the files of a host, and makes the database and the agent if they are not there.
func wire(ctx context.Context, env commands.Env, h *host, at *place, c *connection, r Result) (_ Result, err error) {
	if c.agent, err = agentFor(ctx, env, h, at); err != nil {
		return r, err
	}
	if err := mayStay(ctx, env, c.agent); err != nil {
		return r, err
	}
	r.Agent, r.Next = c.agent, append(slices.Clone(h.next), "No daemon is needed for messages between connected agents; transports, retries and schedules need one: `mailroom service install`.")
	if c.host == "" {
		r.Next = slices.Insert(r.Next, 0, "Install "+h.program+", which is not in PATH, and connect again.")
	}
	changes, files, err := plan(h, at, c)
	if err != nil {
		return r, err
	}
	for i := range changes {
		r.Files = append(r.Files, changes[i].result())
		if r.printed {
			r.Files[i].Text = string(changes[i].after)
		}
	}
	if r.printed {
		return r, nil
	}
	if _, err := env.Ledger.Create(ctx); err != nil {
		return r, err
	}
	conf, err := env.Ledger.Configuration(ctx)
	if err == nil && conf.Agents[c.agent] == nil && c.agent != orchestrator.Auto {
		_, r.Added, err = agents.Add(ctx, env.Ledger, agents.Update{Name: c.agent})
	}
	if err != nil {
		return r, err
	}
	return r, put(changes, files, h, at, c)
}

// put makes the changes that are any.
func put(changes []change, files []file, h *host, at *place, c *connection) error {
	for i := range changes {
		one := &changes[i]
		if one.result().Change == "none" && !one.stale(at, c) {
			continue
		}
		if err := one.put(&files[i], h, at, c); err != nil {
			return orchestrator.Errorf(orchestrator.Unavailable, "%s cannot be written: %v", one.path, err).WithHint("Make the file writable, and connect again")
		}
	}
	return nil
}

// mayStay refuses an agent that goes with a session.
func mayStay(ctx context.Context, env commands.Env, agent string) error {
	if env.Ledger.NoneYet() {
		return nil
	}
	given, err := hosts.IsGiven(ctx, env.Ledger, agent)
	if err == nil && given {
		return orchestrator.Errorf(orchestrator.Conflict, "%s is the agent of a session that was given it, and goes with that", agent).WithHint("Choose another name")
	}
	return err
}

// agentFor returns as whom to connect a host: the caller, or whom the host is connected as, or a free name.
func agentFor(ctx context.Context, env commands.Env, h *host, at *place) (string, error) {
	conf := &ledger.Config{}
	if !env.Ledger.NoneYet() {
		var err error
		if conf, err = env.Ledger.Configuration(ctx); err != nil {
			return "", err
		}
	}
	if env.Caller.Name == orchestrator.Auto && h.shares {
		return "", orchestrator.Errorf(orchestrator.InvalidParams, "the agent auto: sessions of %s share a process, so they cannot be told apart", h.name).
			WithHint("Name the agent, which its sessions then share")
	}
	return cmp.Or(env.Caller.Name, nameFor(h, at, conf)), nil
}

// plan says what becomes of all files, so that none is changed if one of them cannot be.
func plan(h *host, at *place, c *connection) (changes []change, files []file, err error) {
	files = h.files(at, c)
	for i := range files {
		one, err := files[i].planAdd()
		if err != nil {
			return nil, nil, err
		}
		changes = append(changes, one)
	}
	return changes, files, nil
}

// disconnect takes our entries out of all files of a host.
func disconnect(h *host, at *place, database string, only bool) (results []FileResult, err error) {
	var changes []change
	for _, f := range h.files(at, &connection{}) {
		one, err := f.planRemove(at, database)
		if err != nil {
			return nil, err
		}
		changes = append(changes, one)
		results = append(results, one.result())
	}
	for i := range slices.Backward(changes) { // the first file may have made the folder of the others
		if only {
			results[i].Text = string(changes[i].after)
			continue
		}
		if results[i].Change != "none" {
			if err := changes[i].write(); err != nil {
				return results, orchestrator.Errorf(orchestrator.Unavailable, "%s cannot be written: %v", changes[i].path, err)
			}
		}
		changes[i].forget(at, database)
	}
	return results, nil
}

func names() (list []string) {
	for _, h := range known {
		list = append(list, h.name)
	}
	return list
}

func placeOf(p Params) (*place, error) {
	folder, err := filepath.Abs(p.Folder)
	if err == nil {
		var info os.FileInfo
		if info, err = os.Stat(folder); err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is no folder", folder)
		}
	}
	if err != nil {
		return nil, orchestrator.InvalidParam("folder", "%v", err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, orchestrator.Errorf(orchestrator.Unavailable, "the user's own folder is not known: %v", err)
	}
	return &place{folder, home, p.User}, nil
}

// connection is what a host's configuration is to say. What is not asked for is as it was connected before. Mailroom and the host are
// named by where they lie, since a host may be started with another PATH.
func (h *host) connection(at *place, database string, p Params) (*connection, error) {
	program, err := os.Executable()
	if err == nil {
		program, err = filepath.EvalSymlinks(program)
	}
	if err != nil {
		return nil, orchestrator.Errorf(orchestrator.Unavailable, "it cannot be told where this program lies: %v", err)
	}
	c := &connection{program: program, database: database, host: whereIs(h), vocabularies: p.Vocabulary}
	if len(c.vocabularies) == 0 {
		before, _ := writtenIn(h, at) // what cannot be read is told when it is to be changed
		c.vocabularies = before.vocabularies
	}
	if len(c.vocabularies) == 0 {
		c.vocabularies = []string{"relay"}
	}
	if p.Ask != nil {
		c.ask, c.allow = *p.Ask, !*p.Ask
	} else if before, found := h.recorded(at, database); found {
		c.ask = before.Ask
	}
	if text := c.program + c.database + at.folder + c.host; !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return nil, orchestrator.Errorf(orchestrator.InvalidParams, "the path of the program, the database or the folder has characters that do not stand in a configuration: %q", text)
	}
	return c, nil
}

// recorded returns what was written into the file with its tools.
func (h *host) recorded(at *place, database string) (r record, found bool) {
	text, path, err := read(h.files(at, &connection{})[0].path)
	if err != nil {
		return record{}, false
	}
	return recordIn(database, at.scope(), path, text)
}

// whereIs returns the path of a host's program; "" if it is not found.
func whereIs(h *host) string {
	path, err := exec.LookPath(h.program)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return ""
	}
	return path
}

// nameFor returns the name under which a host is connected, or a free one: claude, claude-2, and so on.
func nameFor(h *host, at *place, conf *ledger.Config) string {
	if w, _ := writtenIn(h, at); w.agent != "" {
		return w.agent
	}
	name := h.name
	for n := 2; conf.Agents[name] != nil || conf.Groups[name] != nil; n++ {
		name = fmt.Sprintf("%s-%d", h.name, n)
	}
	return name
}

// standing lists the hosts, as they stand in a folder or else for its user.
func standing(ctx context.Context, env commands.Env, at *place) (list []HostResult) {
	for _, h := range known {
		r := HostResult{Host: h.name, Program: whereIs(h)}
		for _, at := range []*place{at, {at.folder, at.home, true}} {
			w, err := writtenIn(h, at)
			if r.Agent = w.agent; err != nil {
				r.Level, r.Says = "problem", err.Error()
			}
			if w.agent != "" {
				r.User, r.Level, r.Says = at.user, "note", "connected with another database, "+w.database
				if before, found := h.recorded(at, env.Ledger.Path()); found && !env.Ledger.NoneYet() {
					s := &site{h, at, w.agent, before.Command, env.Ledger.Path(), before.Ask, ""}
					f := s.look(ctx, env, false)
					r.Level, r.Says = f.Level, f.Says
				}
			}
			if r.Level != "" {
				break
			}
		}
		list = append(list, r)
	}
	return list
}

// state says in a few words how a host stands.
func (h *HostResult) state() string {
	switch {
	case h.Program == "" && h.Level == "":
		return "not found in PATH"
	case h.Level == "":
		return "not connected here; " + h.Program
	case h.User:
		return "in all folders: " + h.Says
	}
	return h.Says
}

// Text says it for people.
func (r Result) Text(w *commands.Text) {
	if r.Host == "" {
		commands.TableOf(w, []string{"HOST", "AGENT", "STATE"}, r.Hosts, func(h *HostResult) []string {
			return []string{h.Host, h.Agent, h.state()}
		})
		return
	}
	for i := range r.Files {
		f := &r.Files[i]
		if r.printed {
			w.Printf("%s:\n", f.Path)
			w.Body("", f.Text)
		} else if f.Change != "none" {
			w.Printf("%s: %s\n", f.Path, f.Change)
		}
	}
	switch {
	case r.printed:
	case r.removed:
		w.Printf("%s is not connected any more.\n", r.Host)
	default:
		to := r.Agent
		if to == orchestrator.Auto {
			to = r.Host
			w.Printf("Each terminal with %s is an agent of its own, %[1]s, %[1]s-2 and so on, with the database %s.\n", r.Host, r.Database)
		} else {
			w.Printf("%s is the agent %s, with the database %s.\n", r.Host, r.Agent, r.Database)
		}
		for _, next := range r.Next {
			w.Printf("Next: %s\n", next)
		}
		w.Printf("Test: mailroom send --db %s --recipient %s --message-type note --payload '\"hello\"', then type anything into %[3]s.\n",
			orchestrator.ShellWord(r.Database), to, r.Host)
	}
}
