package cli

import (
	"strings"
	"testing"
)

func TestComplete(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"_":                          "try many claude codex gemini opencode kilo pi qwen copilot run invoke tail completion man console serve mcp hook join leave remote whoami version upgrade",
		"t":                          "try tail",
		"many _":                     "lines",
		"try _":                      "red green blue",
		"try g":                      "green",
		"try red _":                  "",
		"try --word _":               "red green blue",
		"try --thread-id _":          "",
		"try --yes _":                "red green blue",
		"try --t":                    "--thread-id --timeout --text",
		"--word red try --b":         "--batch-size",
		"many lines --st":            "--stdin",
		"--output _":                 "json text",
		"--output text try --word r": "red",
		"--log-level w":              "warn",
		"invoke m":                   "many_lines",
		"invoke try _":               "",
		"completion _":               "bash zsh fish",
		"--o":                        "--output",
		"try -- _":                   "red green blue",
	} {
		p := newProgram("")
		words := strings.Fields("__complete " + in)
		words[len(words)-1] = strings.TrimPrefix(words[len(words)-1], "_")
		if status := p.run(words...); status != 0 {
			t.Errorf("%s: exit status %d", in, status)
		}
		var got []string
		for line := range strings.Lines(p.out.String()) {
			word, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			got = append(got, word)
		}
		if joined := strings.Join(got, " "); joined != want && !(want == "" && strings.HasPrefix(joined, "--")) {
			t.Errorf("%s completes to %q; want %q", in, joined, want)
		}
	}
}
