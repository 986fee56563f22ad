package cli

import (
	"context"
	"fmt"
	"html"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	urfave "github.com/urfave/cli/v2"

	"mailroom/commands"
	"mailroom/commands/surface/web"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/process"
)

// consoleCommand returns the command that opens the console. It serves the console itself if no daemon does.
func consoleCommand(p *Program) *urfave.Command {
	return &urfave.Command{
		Name: "console", Usage: "Open a web page that shows message traffic and stuck messages",
		Description: "Opens the console at the address of a daemon that you run on this machine with `mailroom serve --listen`. If there is no such\n" +
			"daemon, or the database is not trusted, the command serves the console itself, only for this machine, until you press Ctrl-C.\n" +
			"The exit status is then 130. The command does not deliver messages; only a daemon does. Mailroom chooses the port once, and\n" +
			"stores it in the setting console.port.\n\n" +
			"The address contains a code that works once, within one minute. Whoever opens the address acts as the administrator for 12 hours.\n" +
			"To list these console logins, run `mailroom agent token operator --list`. To end them, use --revoke instead. Without a terminal,\n" +
			"or if no browser can be opened, the command prints the address.\n\nExamples:\n\n    mailroom console\n    mailroom console --print",
		Flags: []urfave.Flag{
			&urfave.BoolFlag{Name: "print", Usage: "print the address and do not open a browser", DisableDefaultText: true},
		},
		Action: func(c *urfave.Context) error { return runConsole(c, p) },
	}
}

func runConsole(c *urfave.Context, p *Program) error {
	if c.NArg() > 0 {
		return orchestrator.Errorf(orchestrator.InvalidParams, "`mailroom console` takes no arguments, but got %q", c.Args().First()).
			WithHint(helpListsFlags)
	}
	env, err := opened(p, c)
	if err != nil {
		return err
	}
	defer env.Engine.Close()
	// Messages that a person sends in the console are not caused by messages of this command.
	ctx := messages.WithCause(c.Context, messages.NewCause(nil))
	conf, err := env.Ledger.Configuration(ctx) // fails if there is no database
	if err != nil {
		return err
	}
	o := opening{p: p, ledger: env.Ledger, print: c.Bool("print")}
	address, err := web.ConsoleOfDaemon(ctx, env.Ledger)
	if err != nil {
		return err
	}
	if address == "" {
		server, err := listenForConsole(ctx, env, conf.Settings.ConsolePort,
			web.Options{RatePerSecond: 200, Version: p.Version, Console: true, Named: named(env, p.Getenv)})
		if err != nil {
			return err
		}
		defer server.Close()
		address, o.serves = server.Address, true
	}
	if err := o.open(ctx, address); err != nil {
		return err
	}
	if o.serves {
		<-ctx.Done()
	}
	if wasInterrupted(ctx) {
		return stoppedOnTerminal(p)
	}
	return nil
}

// listenForConsole serves the console on the loopback address, at the port stored in the database if that port is
// free. A newly chosen port is outside the range that systems use for outgoing connections.
func listenForConsole(ctx context.Context, env commands.Env, port int, options web.Options) (server *web.Server,
	err error) {
	listen := func(port int) (*web.Server, error) {
		options.Address = fmt.Sprintf("127.0.0.1:%d", port)
		return web.Listen(ctx, env, options)
	}
	if port == 0 {
		for range 20 {
			chosen := 20_000 + rand.IntN(10_000)
			if server, err = listen(chosen); err == nil {
				if _, err = env.Ledger.SetSetting(ctx, ledger.ConsolePort, fmt.Sprint(chosen)); err != nil {
					server.Close()
				}
				return server, err
			}
			if orchestrator.CodeOf(err) != orchestrator.Unavailable {
				break
			}
		}
		return nil, err
	}
	if server, err = listen(port); orchestrator.CodeOf(err) != orchestrator.Unavailable {
		return server, err
	}
	env.Log.Warn("the console port is in use, so this run uses another port; the browser cannot see data that it stored under the usual port", "port", port, "setting", ledger.ConsolePort)
	return listen(0)
}

// opening describes how a browser gets to the console.
type opening struct {
	p      *Program
	ledger *ledger.Ledger
	print  bool // only print the address
	serves bool // this process serves the console
}

// open issues a login code and opens, or prints, the address with the code.
func (o *opening) open(ctx context.Context, address string) error {
	code, err := agents.IssueCode(ctx, o.ledger)
	if err != nil {
		return err
	}
	link := address + "/#code=" + code
	if !o.p.text() {
		return notWritten(writeLine(o.p.Out, struct {
			URL string `json:"url"`
		}{link}))
	}
	w := o.p.people(o.p.Out, o.p.OutTerminal)
	if o.print || !o.p.OutTerminal {
		w.Printf("%s\n", link)
		return notWritten(w.Err())
	}
	folder, err := pageTo(o.p.Getenv("HOME"), link)
	defer os.RemoveAll(folder)
	opened := err == nil && browse(o.p.Getenv, filepath.Join(folder, pageFile))
	if opened {
		w.Printf("Opened %s in the browser.\n", address)
	} else {
		w.Printf("Cannot open a browser on this machine. Open this address within one minute. It works once:\n%s\n", link)
	}
	if o.serves {
		w.Printf("Serving the console. Stop with Ctrl-C.\n")
	}
	if err := w.Err(); err != nil || !opened {
		return notWritten(err)
	}
	if o.isUsed(ctx, code, slow) || ctx.Err() != nil {
		return nil
	}
	w.Printf("If the browser does not show the console, open this address. It works once:\n%s\n", link)
	o.isUsed(ctx, code, agents.CodeLife-slow)
	return notWritten(w.Err())
}

const (
	slow   = 10 * time.Second       // time after which the browser may have failed to open the page
	glance = 200 * time.Millisecond // interval at which to check whether the code was used
)

// isUsed waits until a code is exchanged, and reports whether that happened in time.
func (o *opening) isUsed(ctx context.Context, code string, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		if waits, err := agents.CodeWaits(ctx, o.ledger, code); err == nil && !waits {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(glance):
		}
	}
}

const pageFile = "open.html"

// pageTo writes a page that redirects to the address with the code. Only the owner can read the page; the address is
// not passed as a program argument, because other users of the machine can see arguments. pageTo returns the folder
// of the page. The folder is in the home folder and its name does not begin with a dot, because a sandboxed browser
// may be unable to read other folders.
func pageTo(home, link string) (folder string, err error) {
	const name = "mailroom-console-"
	if folder, err = os.MkdirTemp(home, name); err != nil {
		folder, err = os.MkdirTemp("", name)
	}
	if err != nil {
		return "", err
	}
	page := `<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>Mailroom</title>` +
		`<meta http-equiv="refresh" content="0; url=` + html.EscapeString(link) + `"><p><a href="` +
		html.EscapeString(link) + `">Open the console</a></p>`
	return folder, os.WriteFile(filepath.Join(folder, pageFile), []byte(page), 0o600)
}

// browse opens a file in the browser of the logged-in user and reports whether that succeeded.
func browse(getenv func(string) string, file string) bool {
	opener := "xdg-open"
	if runtime.GOOS == "darwin" {
		opener = "open"
	} else if getenv("DISPLAY") == "" && getenv("WAYLAND_DISPLAY") == "" {
		return false
	}
	cmd := exec.Command(opener, file)
	process.SetApart(cmd) // Ctrl-C here does not end the browser
	if cmd.Start() != nil {
		return false
	}
	failed := make(chan bool, 1)
	orchestrator.GoSafe("opening the browser", nil, func() { failed <- cmd.Wait() != nil })
	select {
	case bad := <-failed:
		return !bad
	case <-time.After(2 * time.Second): // the process is the browser itself and still runs
		return true
	}
}
