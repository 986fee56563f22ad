package operations

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unicode"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// ServiceInstallParams holds how to run the daemon.
type ServiceInstallParams struct {
	Listen string `json:"listen,omitempty" desc:"address for tools and commands over HTTP, such as 127.0.0.1:9464; default: none" check:"max=256"`
	Phone  string `json:"phone,omitempty" desc:"address for the phone app, such as 127.0.0.1:8420; default: none" check:"max=256"`
	Name   string `json:"name,omitempty" desc:"name of the unit; each database needs its own unit" check:"agent" default:"mailroom"`
	Print  bool   `json:"print,omitempty" desc:"show the unit without changing anything"`
	Remove bool   `json:"remove,omitempty" desc:"stop the daemon and remove the unit"`
}

// ServiceInstallResult describes what was written, and what is left to do.
type ServiceInstallResult struct {
	Unit     string   `json:"unit"` // path of the unit file
	Database string   `json:"database"`
	Changed  bool     `json:"changed"`
	Content  string   `json:"content,omitempty"` // text of the unit, with the parameter print
	Next     []string `json:"next,omitempty"`    // commands that could not be run here, and why

	removed bool
}

var serviceInstallCommand = commands.Define(vocabulary, "service install", serviceInstall).
	With(commands.Traits{HereOnly: true, MakesOne: true})

// serviceInstall makes the user's systemd run the daemon of this database, now and after each start of the machine.
func serviceInstall(ctx context.Context, env commands.Env, p ServiceInstallParams) (ServiceInstallResult, error) {
	folder, err := os.UserConfigDir()
	if err != nil {
		return ServiceInstallResult{},
			orchestrator.Errorf(orchestrator.Unavailable, "cannot find the user's configuration folder: %v", err)
	}
	name := p.Name + ".service"
	r := ServiceInstallResult{Unit: filepath.Join(folder, "systemd", "user", name), Database: env.Ledger.Path(),
		removed: p.Remove}
	before, err := os.ReadFile(r.Unit)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r, unitError(err)
	}
	flags := servedBy(string(before))
	if err := r.mayChange(before, flags["--db"]); err != nil {
		if !p.Print {
			return r, err
		}
		flags = nil // the flags belong to another database
	}
	p.Listen, p.Phone = cmp.Or(p.Listen, flags["--listen"]), cmp.Or(p.Phone, flags["--phone"])
	if p.Remove {
		r.Next = systemctl(ctx, "disable", "--now", name)
		err := os.Remove(r.Unit)
		if r.Changed = err == nil; errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return r, unitError(err)
	}
	text, err := unitText(name, env.Ledger, p, flags["--host-name"])
	if err != nil {
		return r, err
	}
	if p.Print {
		r.Content = text
		return r, nil
	}
	if err := env.Ledger.Create(ctx); err != nil {
		return r, err
	}
	if r.Changed = string(before) != text; r.Changed {
		if err := store.ReplaceFile(r.Unit, []byte(text), 0o644); err != nil {
			return r, unitError(err)
		}
	}
	if r.Next = systemctl(ctx, "daemon-reload"); len(r.Next) == 0 && r.Changed && before != nil {
		r.Next = systemctl(ctx, "restart", name)
	}
	r.Next = append(r.Next, systemctl(ctx, "enable", "--now", name)...)
	return r, nil
}

// mayChange returns an error if systemd runs something else under the name of the unit: a unit that somebody else
// wrote, or the daemon of another database, unless the file of that database no longer exists.
func (r *ServiceInstallResult) mayChange(before []byte, other string) error {
	const hint = "To install a unit for this database, give the unit another name, as in `mailroom service install --name shop`"
	name := filepath.Base(r.Unit)
	if before == nil {
		for _, folder := range []string{"/etc/systemd/user", "/usr/local/lib/systemd/user", "/usr/lib/systemd/user"} {
			if _, err := os.Stat(filepath.Join(folder, name)); err == nil && !r.removed {
				return orchestrator.Errorf(orchestrator.Conflict, "there is already a unit %s in %s, which does not run the daemon for this database",
					name, folder).WithHint(hint)
			}
		}
		return nil
	}
	if other == "" {
		return orchestrator.Errorf(orchestrator.Conflict, "the unit %s was not written by `mailroom service install`", r.Unit).WithHint(hint)
	}
	_, err := os.Stat(other)
	if other == r.Database || filepath.IsAbs(other) && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return orchestrator.Errorf(orchestrator.Conflict, "the unit %s runs the daemon for another database, %s", name, other).
		WithHint(hint + ". To change or remove the other unit, run the command in the project of its database")
}

func unitError(err error) error {
	if err == nil {
		return nil
	}
	return orchestrator.Errorf(orchestrator.Unavailable, "cannot change the unit: %v", err)
}

// unitText returns the unit of a daemon. The unit runs this program at its present path, under the host name that
// this program has or, if that is the machine's own, the host name in the previous unit.
func unitText(name string, l *ledger.Ledger, p ServiceInstallParams, hostBefore string) (string, error) {
	program, err := commands.OwnPath()
	if err != nil {
		return "", orchestrator.Errorf(orchestrator.Unavailable, "cannot find the path of this program: %v", err)
	}
	words := []string{program, "serve", "--db", l.Path(), "--log-level", "info"}
	host := l.Host()
	if hostname, _ := os.Hostname(); host == hostname {
		host = hostBefore
	}
	if host != "" {
		words = append(words, "--host-name", host)
	}
	if p.Listen != "" {
		words = append(words, "--listen", p.Listen)
	}
	if p.Phone != "" {
		words = append(words, "--phone", p.Phone)
	}
	for _, word := range words {
		if strings.ContainsFunc(word, unicode.IsControl) {
			return "", orchestrator.Errorf(orchestrator.InvalidParams, "a systemd unit cannot contain %q", word)
		}
	}
	return ServiceUnit("Written by `mailroom service install`", name, "for "+l.Path(), words), nil
}

// systemctl calls the user's systemd. If the call fails, it returns the command for the user to run.
func systemctl(ctx context.Context, words ...string) (left []string) {
	words = append([]string{"--user"}, words...)
	said, err := exec.CommandContext(ctx, "systemctl", words...).CombinedOutput()
	if err == nil {
		return nil
	}
	why := orchestrator.LastLines(string(said))
	if why == "" {
		why = err.Error()
	}
	return []string{"systemctl " + strings.Join(words, " ") + " (" + strings.ReplaceAll(why, "\n", "; ") + ")"}
}

// ExitStatus returns 1 if a call of systemctl failed, otherwise 0.
func (r ServiceInstallResult) ExitStatus() int { return min(len(r.Next), 1) }

// Text writes the result for people.
func (r ServiceInstallResult) Text(w *terminal.Text) {
	switch {
	case r.Content != "":
		w.File(r.Content)
		return
	case r.removed:
		w.Printf("Removed %s.\n", r.Unit)
	case len(r.Next) > 0:
		w.Printf("systemd did not start or restart the unit %s. To run the daemon without systemd, use `mailroom serve`.\n", r.Unit)
	default:
		w.Printf("The unit %s runs the daemon for %s.\n", r.Unit, r.Database)
	}
	for _, next := range r.Next {
		w.Printf("This command failed. Run it yourself: %s\n", next)
	}
}
