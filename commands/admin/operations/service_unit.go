package operations

import (
	"fmt"
	"strings"
)

const serviceUnit = `# %[1]s. To see its log, run: journalctl --user -u %[2]s
[Unit]
Description=Mailroom, messages between agents, %[3]s
# serve is started again however often it fails, for example while another process has its port.
StartLimitIntervalSec=0

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

// ServiceUnit returns a systemd user unit that runs the daemon. from begins the first line, which names the unit's
// origin. name is the name of the unit's file, and of ends its description. words is the daemon's command line; no
// word may have a line break or a zero byte. The Debian package uses ServiceUnit too.
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

// servedBy returns the flags with which a unit runs `mailroom serve`, or nil if it runs something else.
func servedBy(unit string) map[string]string {
	words := unitWords(unit)
	if len(words) < 2 || words[1] != "serve" {
		return nil
	}
	flags := map[string]string{}
	for i := 2; i+1 < len(words); i += 2 {
		flags[words[i]] = words[i+1]
	}
	return flags
}

// unitWords returns the words of the command line in a unit written by ServiceUnit.
func unitWords(unit string) (words []string) {
	_, line, _ := strings.Cut(unit, "\nExecStart=")
	line, _, _ = strings.Cut(line, "\n")
	var word strings.Builder
	quoted := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '"':
			quoted = !quoted
		case c == ' ' && !quoted:
			words = append(words, word.String())
			word.Reset()
		case strings.IndexByte(`\%$`, c) >= 0 && i+1 < len(line):
			i++ // the next byte is literal
			word.WriteByte(line[i])
		default:
			word.WriteByte(c)
		}
	}
	return append(words, word.String())
}

// unitWord escapes a word so that systemd reads it unchanged. Source: systemd.service(5), "Command lines".
var unitWord = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$")
