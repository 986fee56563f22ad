package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agenthost"
	"mailroom/orchestrator/hosts"
)

// hostArguments is the part for the arguments of the host, in the usage of the commands that start one.
const hostArguments = "[-- ARG ...]"

// startCommands returns `mailroom HOST` for each host that can be connected, and their long form, `mailroom run`.
func startCommands() (list []command) {
	for _, host := range agenthost.Connectable() {
		list = append(list, command{name: host, own: func(p *Program) *urfave.Command {
			return startCommand("Start "+host+" in this folder, connected as an agent", hostArguments,
				func(c *urfave.Context) error { return p.startHost(c, host, c.Args().Slice()) })
		}})
	}
	return append(list, command{name: "run", own: func(p *Program) *urfave.Command {
		return startCommand("Start an agent host in this folder, connected as an agent", "HOST "+hostArguments,
			func(c *urfave.Context) error {
				return p.startHost(c, agenthost.Meant(c.Args().First()), c.Args().Tail())
			})
	}})
}

func startCommand(usage, args string, action urfave.ActionFunc) *urfave.Command {
	return &urfave.Command{
		Usage: usage, ArgsUsage: args, Action: action,
		Description: "Creates the database of the project if it does not exist, connects the host if the connection is missing or out of date, and then runs\n" +
			"the host in place of this command, with the same terminal and exit status. The host acts as the agent in --as. Without --as, the host\n" +
			"acts as the agent that it is connected as, or as a new agent with an unused name. The host gets the arguments after --.\n\n" +
			"The command uses the nearest database in this folder or in a folder above it. If no such database exists, the command creates one in\n" +
			"the folder of the git repository, or in this folder if there is no repository. Each worktree has its own database. The command does\n" +
			"not create a database in your home folder. To create one there, run `mailroom init`.\n\n" +
			"Without a terminal, the command changes nothing and lists the files that it would write, unless you give --yes.\n\n" +
			"Examples:\n\n    mailroom claude --as alice\n    mailroom codex --as bob -- --model MODEL\n    mailroom run gemini",
		Flags: []urfave.Flag{&urfave.BoolFlag{Name: yesFlag, Usage: "write the needed files even without a terminal",
			DisableDefaultText: true}},
	}
}

// startHost connects a host if necessary, and replaces this process by the host.
func (p *Program) startHost(c *urfave.Context, host string, args []string) error {
	connectable := agenthost.Connectable()
	if !slices.Contains(connectable, host) {
		e := orchestrator.InvalidParam("host", "%q is not a supported host", orchestrator.Clip(host))
		if host == "" {
			e = orchestrator.InvalidParam("host", "a value is required")
		}
		return e.WithHint("Run `mailroom run %s`", strings.Join(connectable, "|"))
	}
	if len(args) > p.asTyped {
		word := orchestrator.Clip(args[0])
		return orchestrator.Errorf(orchestrator.InvalidParams, "unexpected %q", word).
			WithHint("To start %s as an agent, run `mailroom run %[1]s --as NAME`. To pass arguments to %[1]s, run `mailroom run %[1]s -- %[2]s`",
				host, orchestrator.ShellWord(word))
	}
	program, err := exec.LookPath(host)
	if err == nil {
		program, err = filepath.Abs(program)
	}
	if err != nil {
		return orchestrator.Errorf(orchestrator.Unavailable, "%s is not in PATH", host).
			WithHint("Install it, and run this command again")
	}
	project, err := p.projectOf(c)
	if err != nil {
		return err
	}
	env, err := p.env(c)
	if err != nil {
		return err
	}
	s := &starter{p: p, env: env, host: host, project: project, yes: c.Bool(yesFlag)}
	if err := s.open(c); err != nil {
		return err
	}
	err = s.connect(c.Context)
	if err = errors.Join(err, s.env.Close()); err != nil {
		return err
	}
	return become(program, slices.Concat([]string{host}, s.arguments, args))
}

// project is the place in which a host works.
type project struct {
	folder   string // where the host works and is connected
	database string // "" if the command line and the environment select it
	root     string // root folder of a project without a database; otherwise ""
}

// projectOf returns the project in which to start a host. It returns an error if there is no project, because the
// folder is the user's home folder or the root folder.
func (p *Program) projectOf(c *urfave.Context) (project, error) {
	here, err := os.Getwd()
	if err != nil {
		return project{}, folderGone(err)
	}
	if c.String("db") != "" || p.Getenv("MAILROOM_DB") != "" {
		return project{folder: here}, nil
	}
	repository, worktree := commands.NearestRepository(here)
	if place, err := p.elsewhere(""); place != "" || err != nil {
		return project{folder: here}, err
	}
	database := p.nearest().database
	if database != "" && (!worktree || isWithin(repository, database)) {
		return project{folder: here, database: database}, nil
	}
	folder := cmp.Or(repository, here)
	if folder == filepath.Clean(p.Getenv("HOME")) || folder == filepath.Dir(folder) {
		return project{}, orchestrator.Errorf(orchestrator.InvalidParams, "cannot use %s as a project, because it is your home folder or the root folder", folder).
			WithHint("Change to the folder of your project. To make this folder a project, run `mailroom init`, and then run this command again")
	}
	return project{folder: here, database: commands.ProjectDatabase(folder), root: folder}, nil
}

// isWithin reports whether a path is below a folder.
func isWithin(folder, path string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}

// starter prepares the start of a host.
type starter struct {
	p       *Program
	env     commands.Env
	host    string
	project project
	yes     bool

	standing  []standing // of all hosts
	arguments []string   // first arguments of the host
}

// connected is the result of the command connect, for one host or, in Hosts, for all hosts.
type connected struct {
	Agent, Asks string
	Arguments   []string
	Exposed     []string
	Excluded    []string
	Files       []struct{ Path, Change string }
	Hosts       []standing
	None        bool `json:"no_database"`
}

// standing is the state of a host's connection in the project.
type standing struct {
	Host, Agent, Database, Level string
	User                         bool
}

// open opens the database of the project and reads the state of all hosts. If the project has no database but another
// host is connected in its folder, open uses the database of that host.
func (s *starter) open(c *urfave.Context) error {
	if err := s.p.open(c, s.project.database, &s.env); err != nil {
		return err
	}
	env := s.env
	env.Caller.Name, env.Caller.Named = "", false
	var all connected
	if err := s.p.runNamed(c.Context, env, "connect", map[string]any{"folder": s.project.folder}, &all); err != nil {
		return errors.Join(err, s.env.Close())
	}
	s.standing = all.Hosts
	i := slices.IndexFunc(all.Hosts, func(h standing) bool { return h.Database != "" && h.Level != "problem" })
	if s.project.root == "" || i < 0 {
		return nil
	}
	s.project.database, s.project.root = all.Hosts[i].Database, ""
	if err := s.env.Close(); err != nil {
		return err
	}
	return s.open(c)
}

// connect creates the database and the connection if they are missing, and prints what it has created.
func (s *starter) connect(ctx context.Context) error {
	params := map[string]any{"folder": s.project.folder, "host": s.host, "print": true}
	for _, h := range s.standing {
		if h.Host != s.host || h.Agent == "" || h.Database != s.env.Database() {
			continue
		}
		if as := s.env.Caller.Name; as != "" && as != h.Agent {
			hint := fmt.Sprintf("To change the agent, even for running sessions, run `mailroom connect %s --as %s`", s.host, as)
			if of := agenthost.Find(s.host); as != "auto" && of != nil && !of.Shares() {
				hint += fmt.Sprintf(". To give each terminal its own agent, run `mailroom connect %s --as auto`", s.host)
			}
			return orchestrator.Errorf(orchestrator.Conflict, "%s is already connected as the agent %s in this folder", s.host, h.Agent).
				WithHint("%s", hint)
		}
		params["user"] = h.User
	}
	var planned connected
	if err := s.p.runNamed(ctx, s.env, "connect", params, &planned); err != nil {
		return err
	}
	s.arguments = planned.Arguments
	fresh := planned.None
	var written []string
	for _, f := range planned.Files {
		if f.Change != "none" {
			written = append(written, f.Path)
		}
	}
	if params["user"] != true {
		if err := s.staysInside(written); err != nil {
			return err
		}
	}
	switch {
	case !fresh && written == nil:
		s.tellOther(ctx, planned.Agent)
		return nil
	case !s.yes && !(s.p.InTerminal && s.p.ErrTerminal):
		if fresh {
			written = append(written, s.env.Database())
		}
		return orchestrator.Errorf(orchestrator.InvalidParams,
			"nothing was done: starting %s as %s requires writing %s, but there is no terminal to show the changes on", s.host,
			planned.Agent, strings.Join(written, ", ")).
			WithHint("To write the files and start the host, run `mailroom run %s --as %s --yes`", s.host,
				planned.Agent)
	}
	if root := s.project.root; root != "" {
		if err := s.p.runNamed(ctx, s.env, "init", map[string]any{"folder": root, "nested": true}, nil); err != nil {
			return err
		}
	}
	delete(params, "print")
	var done connected
	if err := s.p.runNamed(ctx, s.env, "connect", params, &done); err != nil {
		return err
	}
	w := s.p.people(s.p.Err, s.p.ErrTerminal)
	if fresh {
		w.Printf("Created %s.\n", s.env.Database())
	}
	for i, path := range written {
		if isWithin(s.project.folder, path) {
			written[i], _ = filepath.Rel(s.project.folder, path)
		}
	}
	w.Printf("Connected %s as %s: wrote %s.\n%s\n", s.host, planned.Agent, strings.Join(written, ", "), planned.Asks)
	s.tellOther(ctx, planned.Agent)
	if done.Exposed == nil {
		return nil
	}
	w.Printf("A commit might include these files, which contain paths on this machine. To make git ignore them, run `mailroom connect %s --exclude`.\n",
		s.host)
	if s.yes || !s.p.InTerminal || !s.p.ErrTerminal {
		return nil
	}
	return s.p.offerExclude(ctx, s.env, params)
}

// tellOther prints a notice if another session of the agent is running, since the sessions share an inbox. It finds
// no sessions in a database on another machine.
func (s *starter) tellOther(ctx context.Context, agent string) {
	if s.env.Engine == nil {
		return
	}
	known, err := hosts.Presence(ctx, s.env.Ledger, nil, agent)
	if is := known[agent]; err != nil || is != hosts.IsWorking && is != hosts.IsIdle {
		return
	}
	w := s.p.people(s.p.Err, s.p.ErrTerminal)
	w.Printf("Another session of %s is running. Each message goes to the session that checks first.\n", agent)
	if h := agenthost.Find(s.host); h != nil && !h.Shares() {
		w.Printf("To give each terminal its own agent, run `mailroom connect %s --as auto`.\n", s.host)
	}
}

// connectAndAsk connects a host, and asks whether git should ignore the new files that a commit could include.
func (p *Program) connectAndAsk(ctx context.Context, env commands.Env, d *commands.Definition, raw json.RawMessage) error {
	result, err := p.answered(ctx, env, d, raw)
	var done connected
	params := map[string]any{}
	if err == nil {
		err = errors.Join(decode(result, &done), json.Unmarshal(raw, &params))
	}
	if err != nil || done.Exposed == nil || params["exclude"] == true {
		return err
	}
	return p.offerExclude(ctx, env, params)
}

// offerExclude asks whether git should ignore, in this copy of the repository, the files that connect wrote with
// these parameters. If so, it configures git and prints the ignored files.
func (p *Program) offerExclude(ctx context.Context, env commands.Env, params map[string]any) error {
	w := p.people(p.Err, p.ErrTerminal)
	agreed, err := agrees(ctx, p, w, "Make git ignore these files in this copy of the repository?")
	if err != nil || !agreed {
		return err
	}
	params["exclude"] = true
	var done connected
	if err := p.runNamed(ctx, env, "connect", params, &done); err != nil {
		return err
	}
	if done.Excluded == nil {
		w.Printf("Git ignores none of the files, because it already tracks all of them.\n")
		return nil
	}
	w.Printf("In this copy of the repository, git now ignores: %s\n", strings.Join(done.Excluded, ", "))
	return nil
}

// staysInside refuses to write through symbolic links that lead out of the project, which a repository may contain.
// The user has not asked for such a write. The command connect, which names the host, does follow these links.
func (s *starter) staysInside(paths []string) error {
	folder, err := filepath.EvalSymlinks(s.project.folder)
	for _, path := range paths {
		if isWithin(s.project.folder, path) || err == nil && isWithin(folder, path) {
			continue
		}
		return orchestrator.Errorf(orchestrator.PermissionDenied, "nothing was done: a symbolic link in %s points outside that folder, to %s", s.project.folder, path).
			WithHint("To write to that file, run `mailroom connect %s`, and then run this command again", s.host)
	}
	return nil
}
