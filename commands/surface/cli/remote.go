package cli

import (
	"cmp"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	urfave "github.com/urfave/cli/v2"

	"mailroom/commands/surface/remote"
	"mailroom/orchestrator"
)

// remoteCommand is what ssh runs on the machine that has the database.
func remoteCommand(p *Program) *urfave.Command {
	return &urfave.Command{
		Name: "remote", Usage: "Run command lines of another machine, on standard input and output",
		Description: "Started by ssh on the machine that has the database, for `mailroom --db ssh://HOST/PATH` on another. Whoever can log in here\n" +
			"by ssh can do there what he can do here.\n\nExample:\n\n    mailroom --db ssh://studio/home/me/shop/.mailroom/mailroom.db status",
		Action: func(c *urfave.Context) error {
			if c.NArg() > 0 {
				return orchestrator.Errorf(orchestrator.InvalidParams, "remote takes no arguments: %q", orchestrator.Clip(c.Args().First()))
			}
			if p.there != nil {
				return orchestrator.Errorf(orchestrator.InvalidParams, "remote is what ssh runs there")
			}
			conn := remote.NewConn(p.In, p.Out, func() error { return nil })
			return remote.Serve(c.Context, conn, p.Version, remote.Handler(p.runFor))
		},
	}
}

// inZone sets the time zone of the process to that of the other side, once: a process serves one.
var inZone sync.Once

// runFor runs a command line of another machine, and returns its exit status.
func (p *Program) runFor(ctx context.Context, s *remote.Session) int {
	inZone.Do(func() {
		zone, err := time.LoadLocation(s.Zone)
		if err != nil || s.Zone == "" {
			zone = time.FixedZone("", s.Offset)
		}
		time.Local = zone
	})
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
	return run.Run(ctx, append([]string{"mailroom"}, s.Args...))
}

// databaseFor is the file that a place names here.
func (p *Program) databaseFor(path string) string {
	if below, home := strings.CutPrefix(path, "~/"); home {
		return filepath.Join(p.Getenv("HOME"), below)
	}
	return path
}

// notThere are the commands of the program's own that run where they are typed, and of what there is to say about them
// with a database on another machine.
var notThere = map[string]string{
	"console": "the console is served where the database is", "serve": "the daemon runs where the database is",
	"remote": "remote is what ssh runs there",
}

// elsewhere returns the place on another machine that --db or MAILROOM_DB names; "" for a database that is here.
func (p *Program) elsewhere(db string) string {
	if at := cmp.Or(db, p.Getenv("MAILROOM_DB")); p.there == nil && remote.IsPlace(at) {
		return at
	}
	return ""
}

// place returns the place that a line is to be run in; "" is here.
func (p *Program) place(l *line) (string, error) {
	path := p.elsewhere(l.values["db"])
	if path == "" || len(l.path) == 0 || p.looksHere(l) {
		return "", nil
	}
	if why := notThere[l.path[0]]; why != "" {
		return "", orchestrator.Errorf(orchestrator.InvalidParams, "%s: %s", l.name(), why).
			WithHint("The database is %s: log in there", path)
	}
	return path, nil
}

// looksHere reports whether a line runs where it is typed, whatever the place, or has to look at this machine first.
func (p *Program) looksHere(l *line) bool {
	d := l.definition
	if l.path[0] == "invoke" && len(l.arguments) > 0 {
		d, _ = p.Catalogue.Lookup(l.arguments[0]) // there is an error for one that is not known
	}
	return d != nil && (d.NoDatabase || d.AtPlaces) || slices.Contains([]string{"version", "completion", "man", "hook"}, l.path[0]) ||
		slices.ContainsFunc(startCommands(), func(c command) bool { return c.name == l.path[0] })
}

// runThere runs a line in a place, until it has ended there: ctx tells it to.
func (p *Program) runThere(ctx context.Context, l *line, place string) error {
	at, err := remote.Parse(place)
	if err != nil {
		return err
	}
	signals := make(chan int, 1)
	defer context.AfterFunc(ctx, func() { signals <- int(stoppedBy(ctx)) })()
	streams := remote.Streams{In: p.In, Out: p.Out, Err: p.Err, Signals: signals, Fresh: func() { dropTypeahead(p.In) }}
	client := clientOf(ctx, at, p.dialing(p.Err, l.path[0] == "mcp"))
	defer client.Close()
	switch l.path[0] {
	case "mcp":
		streams.Answer = p.ownerAnswers(place)
	case "doctor":
		streams.Answer = p.connectionsAnswers(ctx, l, place, at, client)
	}
	return p.run(context.WithoutCancel(ctx), client, at, l.words, streams)
}

// dialing is how this program connects. batch: nobody could answer what ssh asks.
func (p *Program) dialing(err io.Writer, batch bool) remote.Dialing {
	return remote.Dialing{Err: err, Batch: batch, Folder: p.socketFolder()}
}

// clientOf returns a client of a place. It connects until ctx ends.
func clientOf(ctx context.Context, at remote.Place, d remote.Dialing) *remote.Client {
	return remote.NewClient(at, func(context.Context) (net.Conn, error) { return at.Dial(ctx, d) })
}

// run runs the words of a line in a place, until ctx ends.
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
		return exit(status)
	}
	return nil
}

// socketFolder is the user's own folder for sockets; "" where there is none, as on Windows, whose ssh keeps no connection.
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

// zone returns the name of the time zone here, if it can be had, and the seconds that it is east of UTC now.
func (p *Program) zone() (name string, offset int) {
	if name = p.Getenv("TZ"); name == "" {
		link, _ := os.Readlink("/etc/localtime")
		_, name, _ = strings.Cut(link, "zoneinfo/")
	}
	_, offset = time.Now().Zone()
	return name, offset
}
