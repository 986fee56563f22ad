package operations

import (
	"fmt"
	"strings"
)

const describes = "\nDescription=Mailroom, messages between agents, "

const serviceUnit = `# %[1]s. To see its log, run: journalctl --user -u %[2]s
[Unit]` + describes + `%[3]s

[Service]
ExecStart=%[4]s
Restart=on-failure
RestartSec=1
# serve finishes its current deliveries and exits within 10 s.
TimeoutStopSec=15
KillSignal=SIGTERM
# The agent sessions that serve started (agent add --start) keep running when serve stops. The next serve finds them.
KillMode=process
# If a session is killed because the machine runs out of memory, the daemon keeps running.
OOMPolicy=continue
NoNewPrivileges=true
LockPersonality=true
RestrictRealtime=true
RestrictSUIDSGID=true

[Install]
WantedBy=default.target
`

// ServiceUnit returns a systemd unit of the user's own that runs the daemon. Its first line says where it comes from,
// name is that of its file, of ends its description, and words are the daemon's command line, of which none may have a
// line break or a zero byte. The Debian package has one, too.
func ServiceUnit(from, name, of string, words []string) string {
	line := make([]string, len(words))
	for i, word := range words {
		line[i] = unitWord.Replace(word)
		if strings.ContainsAny(word, " \t\"'\\;") {
			line[i] = `"` + line[i] + `"`
		}
	}
	return fmt.Sprintf(serviceUnit, from, name, strings.ReplaceAll(of, "%", "%%"), strings.Join(line, " "))
}

// unitDatabase returns the database whose daemon a unit runs; "" if the unit does not name one.
func unitDatabase(unit string) string {
	_, description, _ := strings.Cut(unit, describes+"for ")
	database, _, _ := strings.Cut(description, "\n")
	return strings.ReplaceAll(database, "%%", "%")
}

// unitWord writes a word so that systemd reads it as it is. Source: systemd.service(5), "Command lines".
var unitWord = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$")
