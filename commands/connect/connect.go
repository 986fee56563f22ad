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
	"regexp"
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
	Vocabulary []string `json:"vocabulary,omitempty" desc:"vocabulary of its tools; may be repeated (relay)" check:"max=64"`
	Folder     string   `json:"folder,omitempty" desc:"folder of the project" check:"min=1,max=4096" default:"."`
	User       bool     `json:"user,omitempty" desc:"connect it in all folders of this user, and not in one project"`
	Ask        bool     `json:"ask,omitempty" desc:"let the host ask before its model uses a tool of Mailroom"`
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

// HostResult is how a host stands in a folder.
type HostResult struct {
	Host    string `json:"host"`
	Program string `json:"program,omitempty"` // where it was found; "" is nowhere
	Agent   string `json:"agent,omitempty"`   // as whom it is connected here; "" is not
}

// host is an agent host that can be connected.
type host struct {
	name, program string
	files         func(p *place, c *connection) []file
	shares        bool     // several sessions may run in one process
	next          []string // what the person has to do when it was connected
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
	if p.Host == "" {
		return Result{Hosts: standing(at), Database: env.Ledger.Path()}, nil
	}
	i := slices.IndexFunc(known, func(h *host) bool { return h.name == p.Host })
	if i < 0 {
		return Result{}, orchestrator.InvalidParam("host", "%q is none that can be connected", orchestrator.Clip(p.Host)).WithHint("Known: %s", strings.Join(names(), ", "))
	}
	h := known[i]
	c, err := connectionOf(p)
	if err != nil {
		return Result{}, err
	}
	c.database, c.host = env.Ledger.Path(), whereIs(h)
	if text := c.program + c.database + at.folder + c.host; !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return Result{}, orchestrator.Errorf(orchestrator.InvalidParams, "the path of the program, the database or the folder has characters that do not stand in a configuration: %q", text)
	}
	r := Result{Host: h.name, Database: c.database, removed: p.Remove, printed: p.Print}
	if p.Remove {
		r.Files, err = disconnect(h, at, c, p.Print)
		return r, err
	}
	return wire(ctx, env, h, at, c, r)
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
	for i := range changes {
		if r.Files[i].Change == "none" && !changes[i].moved(at, c.database) {
			continue
		}
		if err := changes[i].put(&files[i], h, at, c); err != nil {
			return r, orchestrator.Errorf(orchestrator.Unavailable, "%s cannot be written: %v", changes[i].path, err).WithHint("Make the file writable, and connect again")
		}
	}
	return r, nil
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

// agentFor returns as whom to connect a host: the caller, or whom the host is connected as, or a free name. A database that is not
// trusted is refused: whoever it is from may have written what a model is to read.
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
	if conf.Untrusted != "" {
		return "", orchestrator.Errorf(orchestrator.PermissionDenied, "%s is not trusted: %s", env.Ledger.Path(), conf.Untrusted).WithHint(ledger.NotTrustedHint)
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
func disconnect(h *host, at *place, c *connection, only bool) (results []FileResult, err error) {
	var changes []change
	for _, f := range h.files(at, c) {
		one, err := f.planRemove(at, c.database)
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
		changes[i].forget(at, c.database)
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

// connectionOf is what can be said before the database is looked at. The program is named by where it lies, since a host may be
// started with another PATH.
func connectionOf(p Params) (*connection, error) {
	program, err := os.Executable()
	if err == nil {
		program, err = filepath.EvalSymlinks(program)
	}
	if err != nil {
		return nil, orchestrator.Errorf(orchestrator.Unavailable, "it cannot be told where this program lies: %v", err)
	}
	if len(p.Vocabulary) == 0 {
		p.Vocabulary = []string{"relay"}
	}
	return &connection{program: program, vocabularies: p.Vocabulary, ask: p.Ask}, nil
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

// connected finds the agent in what connect has written.
var connected = regexp.MustCompile(`"mcp",\s*"--as",\s*"([a-z][a-z0-9_-]*)",\s*"--vocabulary"`)

// agentAt returns as whom a host is connected; "" if it is not.
func agentAt(h *host, at *place) string {
	for _, f := range h.files(at, &connection{}) {
		if text, _, err := read(f.path); err == nil {
			if found := connected.FindSubmatch(text); found != nil {
				return string(found[1])
			}
		}
	}
	return ""
}

// nameFor returns the name under which a host is connected, or a free one: claude, claude-2, and so on.
func nameFor(h *host, at *place, conf *ledger.Config) string {
	if name := agentAt(h, at); name != "" {
		return name
	}
	name := h.name
	for n := 2; conf.Agents[name] != nil || conf.Groups[name] != nil; n++ {
		name = fmt.Sprintf("%s-%d", h.name, n)
	}
	return name
}

// standing lists the hosts.
func standing(at *place) (list []HostResult) {
	for _, h := range known {
		r := HostResult{Host: h.name, Agent: agentAt(h, at)}
		r.Program = whereIs(h)
		list = append(list, r)
	}
	return list
}

// Text says it for people.
func (r Result) Text(w *commands.Text) {
	if r.Host == "" {
		commands.TableOf(w, []string{"HOST", "PROGRAM", "CONNECTED HERE AS"}, r.Hosts, func(h *HostResult) []string {
			return []string{h.Host, h.Program, h.Agent}
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
