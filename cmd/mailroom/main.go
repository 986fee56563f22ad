// Command mailroom routes messages between agents through one SQL table.
package main

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	ossignal "os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"mailroom/commands"
	"mailroom/commands/admin"
	"mailroom/commands/connect"
	"mailroom/commands/coral"
	"mailroom/commands/mail"
	"mailroom/commands/ralph"
	"mailroom/commands/relay"
	"mailroom/commands/route"
	"mailroom/commands/signal"
	"mailroom/commands/surface/cli"
	"mailroom/commands/team"
	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/router"
	"mailroom/orchestrator/transport"
)

func main() { os.Exit(run(config())) }

// run runs the command on the process's command line and returns its exit status.
func run(c cli.Config) int {
	p := cli.Standard(c)
	p.Begin = begin
	return p.Run(context.Background(), os.Args)
}

// begin prepares the process for a command. The returned context ends when the process receives a stop signal.
func begin(ctx context.Context) (context.Context, context.CancelFunc) {
	if os.Getenv("GOGC") == "" && !slices.Contains(os.Args, "serve") {
		debug.SetGCPercent(400) // a command ends before its memory matters; a daemon keeps Go's default
	}
	ctx, stop := ossignal.NotifyContext(ctx, cli.Stops()...)
	context.AfterFunc(ctx, stop) // a second signal ends the process immediately
	// If the reader of the output has gone, the write must fail without ending the process, because messages that the
	// output marked as read must be unmarked. Notify is used because a child process would inherit an ignored signal.
	ossignal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return ctx, stop
}

// config returns the parts of the program.
func config() cli.Config {
	return cli.Config{
		Catalogue: commands.NewCatalogue(route.Definitions(), relay.Definitions(), team.Definitions(),
			mail.Definitions(), coral.Definitions(), ralph.Definitions(), signal.Definitions(),
			admin.Definitions(connect.Look), connect.Definitions()),
		Open:        open,
		State:       router.State,
		Version:     version(),
		Now:         options.Now,
		CallTime:    func(host string) time.Duration { return connect.CallTime(host, os.Args[1:]) },
		IsConnected: connect.IsConnected,
		Connections: connect.Look,
	}
}

// transports returns the transports for messages, except the one for messages to the user.
func transports() map[string]orchestrator.Transport {
	return map[string]orchestrator.Transport{
		"inbox": transport.Inbox{}, "jsonl": transport.JSONL{}, "dir": transport.Dir{}, "exec": transport.Exec{},
		"webhook": new(transport.Webhook),
		"push":    new(transport.Push),
		"ntfy":    new(transport.Ntfy),
	}
}

// options are used for every database. Tests use them to set the clock of processes.
var options ledger.Options

func open(ctx context.Context, path string, log *slog.Logger) (*delivery.Engine, error) {
	o := options
	o.Path, o.Instance, o.Transports, o.Log = path, os.Getenv("ORCHESTRATOR_INSTANCE_ID"), transports(), log
	o.Host = os.Getenv("MAILROOM_HOST_NAME")
	o.User = signal.NewUser
	o.Trust = &ledger.Trust{}
	if folder := cli.StateFolder(os.Getenv); folder != "" {
		o.Trust.Folder, o.State = filepath.Join(folder, "trusted"), folder
	}
	return router.Open(ctx, o)
}

// commit is the commit that `make build` builds, for builds in which Go does not record it.
var commit string

// version returns the module version from the build information, which includes the commit, or else the commit alone.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return cmp.Or(commit, "unknown")
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return cmp.Or(commit, "unknown")
}
