package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	urfave "github.com/urfave/cli/v2"

	"mailroom/commands"
	"mailroom/commands/surface/remote"
	"mailroom/orchestrator"
)

// remoteCommand returns the command that ssh runs on the machine with the database.
func remoteCommand(p *Program) *urfave.Command {
	return &urfave.Command{
		Name: "remote", Usage: "Run commands for another machine over standard input and output",
		Description: "ssh starts this command on the machine that has the database, for `mailroom --db ssh://HOST/PATH` on another machine. A user who\n" +
			"can log in to this machine with ssh has the same permissions from the other machine as on this machine.\n\nExample:\n\n    mailroom --db ssh://studio/home/me/shop/.mailroom/mailroom.db status",
		Flags: []urfave.Flag{
			&urfave.StringFlag{Name: remote.HoldFlag, Usage: "keep a connection to `PLACE` open for other commands of this user; those commands start this process"},
			&urfave.BoolFlag{Name: remote.HeldFlag, Usage: "with --hold: use the connection that this process inherited", DisableDefaultText: true},
		},
		Action: func(c *urfave.Context) error {
			if c.NArg() > 0 {
				return orchestrator.Errorf(orchestrator.InvalidParams, "`mailroom remote` takes no arguments, but got %q", orchestrator.Clip(c.Args().First()))
			}
			if p.there != nil {
				return orchestrator.Errorf(orchestrator.InvalidParams, "%s", notThere["remote"])
			}
			if place := c.String(remote.HoldFlag); place != "" {
				return p.hold(c.Context, place, c.Bool(remote.HeldFlag))
			}
			conn := remote.NewConn(p.In, p.Out, func() error { return nil })
			return remote.NewServer(p.runFor, p.socketFolder()).Serve(c.Context, conn, p.Version)
		},
	}
}

// hold keeps a connection open for other processes.
func (p *Program) hold(ctx context.Context, place string, held bool) error {
	at, err := remote.Parse(place)
	if err != nil {
		return err
	}
	var has net.Conn
	if held {
		to, from := os.NewFile(3, "to ssh"), os.NewFile(4, "from ssh")
		has = remote.NewConn(from, to, func() error { return errors.Join(to.Close(), from.Close()) })
	}
	return at.Hold(ctx, p.dialing(io.Discard, true), p.Out, has)
}

// runFor runs a command line of another machine and returns its exit status.
func (p *Program) runFor(ctx context.Context, s *remote.Session) int {
	return p.programFor(s).Run(ctx, append([]string{"mailroom"}, s.Args...))
}

// programFor returns a program with the streams and the environment of another machine.
func (p *Program) programFor(s *remote.Session) *Program {
	run := &Program{Config: p.Config, In: s.In, Out: s.Out, Err: s.Err, InTerminal: s.InTerminal, OutTerminal: s.OutTerminal,
		ErrTerminal: s.ErrTerminal, Width: s.Width, there: s}
	run.Getenv = func(name string) string {
		switch {
		case slices.Contains(remote.Variables, name):
			return s.Env[name]
		case name == "MAILROOM_DB" && s.Database != "":
			return run.databaseFor(s.Database)
		}
		return p.Getenv(name)
	}
	return run
}

// databaseFor returns the file on this machine that the path of a place names.
func (p *Program) databaseFor(path string) string {
	if below, home := strings.CutPrefix(path, "~/"); home {
		return filepath.Join(p.Getenv("HOME"), below)
	}
	return path
}

// notThere maps those of the program's own commands that must run where they are typed to the error for a database on
// another machine.
var notThere = map[string]string{
	"console": "this command must run on the machine that has the database", "serve": "the daemon must run on the machine that has the database",
	"remote": "do not run this command yourself: ssh runs it on the machine that has the database",
}

// elsewhere returns the place on another machine that --db, MAILROOM_DB or the project's folder names, or "" for a
// database on this machine. It returns permission_denied if the folder names a place that it has not joined.
func (p *Program) elsewhere(db string) (string, error) {
	at := cmp.Or(db, p.Getenv("MAILROOM_DB"))
	if p.there != nil || at != "" && !remote.IsPlace(at) {
		return "", nil
	}
	if at != "" {
		return at, nil
	}
	project := p.nearest()
	if project.place == "" {
		return "", nil
	}
	joined, err := p.book().Named(project.place)
	return joined.Place, err
}

// nearest returns the project of the current folder, see commands.NearestProject. It caches the result.
func (p *Program) nearest() *nearestProject {
	if p.project == nil {
		p.project = new(nearestProject)
		var here string
		if here, p.project.err = os.Getwd(); p.project.err == nil {
			p.project.database, p.project.place = commands.NearestProject(here)
		}
	}
	return p.project
}

// nearestProject is a project: its database, or the file that names a place. Empty fields mean that there is none.
type nearestProject struct {
	database, place string
	err             error // the current folder no longer exists
}

// book returns the record of the places that this user has joined.
func (p *Program) book() remote.Book {
	if folder := StateFolder(p.Getenv); folder != "" {
		return remote.Book(filepath.Join(folder, "places"))
	}
	return ""
}

// keyOf returns the pin and the token for a place, from the environment or from a join of the place. as is the agent
// that the line names.
func (p *Program) keyOf(at remote.Place, as string) (pin, token string, err error) {
	pin, token = at.Pin, p.Getenv("MAILROOM_TOKEN")
	if at.Scheme == "ssh" {
		return "", "", nil
	}
	if token != "" && (pin != "" || at.Scheme != "https") {
		return pin, token, nil
	}
	all := p.book().Of(at.String())
	if i := slices.IndexFunc(all, func(j remote.Joined) bool { return j.Agent == as }); i >= 0 {
		all = all[i : i+1]
	} else if here, err := os.Getwd(); err == nil {
		i := slices.IndexFunc(all, func(j remote.Joined) bool { return isWithin(j.Folder, here) })
		if i >= 0 {
			all = all[i : i+1]
		}
	}
	if len(all) > 0 {
		return cmp.Or(pin, all[0].Pin), cmp.Or(token, all[0].Token), nil
	}
	if at.Scheme == "unix" {
		return "", "", nil // the kernel identifies the peer
	}
	return "", "", orchestrator.Errorf(orchestrator.Unauthenticated, "you have not joined %s", at).
		WithHint("On the machine with the database, run `mailroom invite NAME`. On this machine, run the command that it prints. If you cannot write files on this machine, set MAILROOM_DB=%s#PIN and MAILROOM_TOKEN instead", at)
}

// place returns the place at which a line is to run, or "" for this machine.
func (p *Program) place(l *line) (string, error) {
	if len(l.path) == 0 || p.looksHere(l) {
		return "", nil
	}
	path, err := p.elsewhere(l.values["db"])
	if path == "" || err != nil {
		return "", err
	}
	if why := notThere[l.path[0]]; why != "" {
		e := orchestrator.Errorf(orchestrator.InvalidParams, "%s: %s", l.name(), why)
		if l.path[0] == "remote" {
			return "", e
		}
		return "", e.WithHint("Log in to the machine that has the database %s, and run the command on that machine", path)
	}
	return path, nil
}

// looksHere reports whether a line runs where it is typed, regardless of the place, or must first examine this
// machine.
func (p *Program) looksHere(l *line) bool {
	d := l.definition
	if l.path[0] == "invoke" && len(l.arguments) > 0 {
		d, _ = p.Catalogue.Lookup(l.arguments[0]) // an unknown command is reported later
	}
	return d != nil && (d.NoDatabase || d.AtPlaces) || slices.Contains([]string{"version", "upgrade", "completion", "man", "hook", "join", "leave"}, l.path[0]) ||
		slices.ContainsFunc(startCommands(), func(c command) bool { return c.name == l.path[0] })
}

// runThere runs a line at a place, until the line has ended there. When ctx ends, it forwards the signal to the line.
func (p *Program) runThere(ctx context.Context, l *line, place string) error {
	at, err := remote.Parse(place)
	if err != nil {
		return err
	}
	signals := make(chan int, 1)
	defer context.AfterFunc(ctx, func() { signals <- int(stoppedBy(ctx)) })()
	streams := remote.Streams{In: p.In, Out: p.Out, Err: p.Err, Signals: signals, Fresh: func() { dropTypeahead(p.In) }}
	words, again := mayRepeat(l)
	streams.Again, streams.Keyed, streams.GoesOn = again, len(words) > len(l.words), l.definition != nil && l.definition.UntilTold
	streams.Whole = again && l.definition != nil && !streams.GoesOn && !slices.Contains(l.named, waitFlag)
	client, err := p.clientOf(ctx, at, p.dialing(p.Err, l.path[0] == "mcp"), l.values["as"])
	if err != nil {
		return err
	}
	defer client.Close()
	run := func(streams remote.Streams) error {
		return p.run(context.WithoutCancel(ctx), client, at, words, streams)
	}
	switch l.path[0] {
	case "mcp":
		streams.Answer = p.ownerAnswers(place)
		return p.bridge(ctx, l, streams, run)
	case "doctor":
		streams.Answer = p.connectionsAnswers(ctx, l, place, at, client)
	}
	return run(streams)
}

// mayRepeat returns the words of a line, and reports whether running the line twice has the same effect as running it
// once. That is the case if the line only reads, if messages that it hands out become unread again unless they were
// delivered, or if it sends with an idempotency key, which mayRepeat adds to the words.
func mayRepeat(l *line) (words []string, may bool) {
	const key = "idempotency-key"
	_, sends := l.own[key]
	switch d := l.definition; {
	case d == nil:
		return l.words, l.path[0] == "tail"
	case d.Card().OnlyReads() || d.Hands() || slices.Contains(l.named, key):
		return l.words, true
	case !sends || slices.Contains(l.named, "stdin"):
		return l.words, false
	}
	return append([]string{"--" + key + "=" + uuid.NewString()}, l.words...), true
}

// dialing returns the settings for ssh connections. batch means that nobody can answer questions of ssh.
func (p *Program) dialing(err io.Writer, batch bool) remote.Dialing {
	return remote.Dialing{Err: err, Batch: batch, Folder: p.socketFolder()}
}

// clientOf returns a client of a place. as is the agent that the line names, or "". The client connects until ctx
// ends.
func (p *Program) clientOf(ctx context.Context, at remote.Place, d remote.Dialing, as string) (*remote.Client, error) {
	pin, token, err := p.keyOf(at, cmp.Or(as, p.Getenv("MAILROOM_AGENT")))
	if err != nil {
		return nil, err
	}
	return clientWith(ctx, at, d, pin, token), nil
}

// clientWith returns a client of a place with a pin and a token. The client connects until ctx ends.
func clientWith(ctx context.Context, at remote.Place, d remote.Dialing, pin, token string) *remote.Client {
	return remote.NewClient(at, pin, token, func(context.Context) (net.Conn, error) { return at.Dial(ctx, d) })
}

// run runs the words of a line at a place, until ctx ends.
func (p *Program) run(ctx context.Context, client *remote.Client, at remote.Place, words []string, streams remote.Streams) error {
	req := &remote.Request{Args: words, Database: at.Path, Env: map[string]string{}, Width: p.Width,
		InTerminal: p.InTerminal, OutTerminal: p.OutTerminal, ErrTerminal: p.ErrTerminal}
	for _, name := range remote.Variables {
		if value := p.Getenv(name); value != "" {
			req.Env[name] = value
		}
	}
	req.Zone, req.Offset = p.zone()
	status, err := client.Run(ctx, req, streams)
	if err != nil {
		return notWritten(err)
	}
	if status != 0 {
		return exit(status & 255)
	}
	return nil
}

// socketFolder returns the user's own folder for sockets. It returns "" if there is none, as on Windows, where ssh
// cannot share connections.
func (p *Program) socketFolder() string {
	if runtime.GOOS == "windows" {
		return ""
	}
	folder := filepath.Join(StateFolder(p.Getenv), "ssh")
	if own := p.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(own) {
		folder = filepath.Join(own, "mailroom")
	}
	if !filepath.IsAbs(folder) || os.MkdirAll(folder, 0o700) != nil {
		return ""
	}
	return folder
}

// zone returns the name of the local time zone, if known, and its current offset in seconds east of UTC.
func (p *Program) zone() (name string, offset int) {
	if name = p.Getenv("TZ"); name == "" {
		link, _ := os.Readlink("/etc/localtime")
		_, name, _ = strings.Cut(link, "zoneinfo/")
	}
	_, offset = time.Now().Zone()
	return name, offset
}
