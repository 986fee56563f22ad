package cli

import (
	"os"
	"path/filepath"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"mailroom/commands/terminal"
	"mailroom/orchestrator"
)

// installation describes how this copy of the program was installed.
type installation struct {
	Version string   `json:"version"`
	Program string   `json:"program"`
	From    string   `json:"installed_from"`
	Run     []string `json:"run"`   // shell commands that upgrade it
	Fetch   string   `json:"fetch"` // the file that they need, or ""
}

func upgradeCommand(p *Program) *urfave.Command {
	return &urfave.Command{
		Name: "upgrade", Usage: "Show how this copy was installed, and the commands that upgrade it",
		Description: "The command changes nothing and makes no network connections.\n\nExample:\n\n    mailroom upgrade",
		Action: func(c *urfave.Context) error {
			if c.NArg() > 0 {
				return orchestrator.Errorf(orchestrator.InvalidParams, "`mailroom upgrade` takes no arguments, but got %q", orchestrator.Clip(c.Args().First()))
			}
			program, err := os.Executable()
			if err == nil {
				program, err = filepath.EvalSymlinks(program)
			}
			if err != nil {
				return err
			}
			i := installed(program, func(path string) bool {
				_, err := os.Stat(path)
				return err == nil
			})
			i.Version = p.Version
			return p.show(i)
		},
	}
}

// installed returns how a program was installed, from its path and from the files that has reports to exist.
func installed(program string, has func(path string) bool) installation {
	i := installation{Program: program, Run: []string{}}
	folder := filepath.Dir(program)
	above := filepath.Dir(folder) // a clone of the source, or an npm package
	switch {
	case strings.Contains(filepath.ToSlash(program), "/node_modules/"):
		_, system, _ := strings.Cut(filepath.Base(above), "-") // an npm package for one system: mailroom-linux-x64
		i.From, i.Fetch = "npm packages", "the npm packages of the newer version"
		i.Run = append(i.Run, "npm install --global ./mailroom-npm_VERSION.tgz ./mailroom-npm_VERSION_"+system+".tgz")
	case strings.Contains(program, "/Cellar/mailroom/"):
		i.From, i.Run = "a Homebrew formula", append(i.Run, "brew upgrade mailroom")
	case program == "/usr/bin/mailroom" && has("/var/lib/dpkg/info/mailroom.list"):
		i.From, i.Fetch = "a Debian package", "the .deb of the newer version"
		i.Run = append(i.Run, "sudo apt install ./mailroom_*.deb", "systemctl --user try-restart mailroom")
	case filepath.Base(folder) == "bin" && has(filepath.Join(above, "cmd", "mailroom", "main.go")) && has(filepath.Join(above, ".git")):
		i.From = "a clone of the source"
		i.Run = append(i.Run, "git -C "+orchestrator.ShellWord(above)+" pull", "make -C "+orchestrator.ShellWord(above)+" build")
	default:
		i.From, i.Fetch = "an archive or a build", "and unpack the .tar.gz of the newer version, or build that version (if you used install.sh, run the newer install.sh instead)"
		i.Run = append(i.Run, "install -D mailroom "+orchestrator.ShellWord(program))
	}
	return i
}

// Text prints the installation for people.
func (i installation) Text(w *terminal.Text) {
	w.Fields([2]string{"version", i.Version}, [2]string{"program", i.Program}, [2]string{"installed from", i.From})
	if i.Fetch != "" {
		w.Printf("\nTo upgrade, get %s. Then run:\n", i.Fetch)
	} else {
		w.Printf("\nTo upgrade, run:\n")
	}
	for _, line := range i.Run {
		w.Printf("    %s\n", line)
	}
	w.Printf("\nThen restart running daemons and agent sessions. Until then, they use the old program.\n")
}
