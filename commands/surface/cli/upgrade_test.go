package cli

import (
	"strings"
	"testing"

	"mailroom/orchestrator/orchestratortest/want"
)

func TestInstalled(t *testing.T) {
	t.Parallel()
	for program, row := range map[string]struct{ has, from, run string }{
		"/usr/bin/mailroom": {"/var/lib/dpkg/info/mailroom.list", "a Debian package",
			"sudo apt install ./mailroom_*.deb; systemctl --user try-restart mailroom"},
		"/usr/local/bin/mailroom": {"/var/lib/dpkg/info/mailroom.list", "an archive or a build", "install -D mailroom /usr/local/bin/mailroom"},
		"/home/ann/my code/mailroom/bin/mailroom": {"/home/ann/my code/mailroom/.git /home/ann/my code/mailroom/cmd/mailroom/main.go",
			"a clone of the source", "git -C '/home/ann/my code/mailroom' pull; make -C '/home/ann/my code/mailroom' build"},
		"/home/ann/it's/mailroom":                          {"", "an archive or a build", `install -D mailroom '/home/ann/it'\''s/mailroom'`},
		"/opt/homebrew/Cellar/mailroom/1.2.0/bin/mailroom": {"", "a Homebrew formula", "brew upgrade mailroom"},
		"/usr/lib/node_modules/@scope/mailroom/node_modules/@scope/mailroom-linux-x64/bin/mailroom": {"", "npm packages",
			"npm install --global ./mailroom-npm_VERSION.tgz ./mailroom-npm_VERSION_linux-x64.tgz"},
		"/usr/lib/node_modules/@scope/mailroom-linux-x64/bin/mailroom": {"", "npm packages", "npm install --global ./mailroom-npm_VERSION.tgz ./mailroom-npm_VERSION_linux-x64.tgz"},
	} {
		i := installed(program, func(path string) bool {
			return row.has != "" && strings.Contains(" "+row.has+" ", " "+path+" ")
		})
		want.Equal(t, "from of "+program, i.From, row.from)
		want.Equal(t, "run of "+program, strings.Join(i.Run, "; "), row.run)
	}
}
