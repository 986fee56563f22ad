package cli

import (
	"fmt"
	"io"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"mailroom/commands/parameter"
	"mailroom/orchestrator"
)

// completeWord, as the first word of a command line, prints the candidates for its last word: one a line, with the
// description after a tab. The completion scripts run it, so they never become outdated.
const completeWord = "__complete"

var completionScripts = map[string]string{
	"bash": `# bash completion for mailroom: save it in a file that your shell reads at startup
_mailroom() {
    local cur="${COMP_WORDS[COMP_CWORD]}" line
    COMPREPLY=()
    while IFS= read -r line; do
        line="${line%%$'\t'*}"
        if [[ "$line" == "$cur"* ]]; then COMPREPLY+=("$line"); fi
    done < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o bashdefault -o default -F _mailroom mailroom
`,
	"zsh": `#compdef mailroom
# zsh completion for mailroom: save it as _mailroom in a folder of your fpath, or source it
_mailroom() {
    local -a lines candidates
    lines=("${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    candidates=("${(@)lines%%$'\t'*}")
    lines=("${(@)lines/$'\t'/  -- }")
    if [[ -n "${candidates[1]}" ]]; then compadd -l -d lines -- "${candidates[@]}"; else _files; fi
}
if [[ "${funcstack[1]}" == _mailroom ]]; then _mailroom "$@"; else compdef _mailroom mailroom; fi
`,
	"fish": `# fish completion for mailroom: save it as ~/.config/fish/completions/mailroom.fish
function __mailroom_complete
    set -l words (commandline -opc)
    set -l found ($words[1] __complete $words[2..-1] (commandline -ct) 2>/dev/null)
    if set -q found[1]
        printf '%s\n' $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c mailroom -f -a '(__mailroom_complete)'
`,
}

func completionCommand(p *Program) *urfave.Command {
	return &urfave.Command{
		Name: "completion", Usage: "Print a completion script for bash, zsh, or fish", ArgsUsage: "bash|zsh|fish",
		Description: "Example:\n\n    source <(mailroom completion bash)",
		Action: func(c *urfave.Context) error {
			script, ok := completionScripts[c.Args().First()]
			if c.NArg() == 0 {
				return orchestrator.Errorf(orchestrator.InvalidParams, "`mailroom completion` requires the name of a shell").
					WithHint("Give bash, zsh, or fish, as in `source <(mailroom completion bash)`")
			}
			if !ok || c.NArg() != 1 {
				return orchestrator.Errorf(orchestrator.InvalidParams, "completion: the shell must be bash, zsh, or fish, but is %q",
					c.Args().First()).
					WithHint("To complete words in bash, run `source <(mailroom completion bash)`")
			}
			_, err := io.WriteString(p.Out, script)
			return notWritten(err)
		},
	}
}

// complete prints the candidates for the last of words.
func (p *Program) complete(words []string) {
	if len(words) == 0 {
		return
	}
	last := len(words) - 1
	before, current := p.readArgs(words[:last]), words[last]
	for _, c := range p.candidates(before, current) {
		if strings.HasPrefix(c.word, current) {
			fmt.Fprintln(p.Out, strings.TrimSuffix(c.word+"\t"+c.about, "\t"))
		}
	}
}

type candidate struct{ word, about string }

func (p *Program) candidates(before *line, current string) (list []candidate) {
	if before.waiting != "" {
		return p.flagValues(before)
	}
	if !strings.HasPrefix(current, "-") {
		list = p.arguments(before)
		if len(list) > 0 || before.called == nil {
			return list
		}
	}
	if before.called != nil {
		list = flagCandidates(before.called.Flags)
	}
	return append(list, flagCandidates(globalFlags())...)
}

func flagCandidates(flags []urfave.Flag) (list []candidate) {
	for _, f := range flags {
		about := ""
		if documented, ok := f.(urfave.DocGenerationFlag); ok {
			about = strings.ReplaceAll(documented.GetUsage(), "`", "")
		}
		list = append(list, candidate{"--" + f.Names()[0], about})
	}
	return list
}

// flagValues returns the possible values of the flag whose value is missing.
func (p *Program) flagValues(before *line) (list []candidate) {
	switch before.waiting {
	case "output":
		return []candidate{{word: "json"}, {word: "text"}}
	case "as":
		return known(p, before, &parameter.Param{NameOf: "agent"})
	case "log-level":
		return []candidate{{word: "debug"}, {word: "info"}, {word: "warn"}, {word: "error"}}
	}
	if d := before.definition; d != nil {
		for i := range d.Params() {
			if param := &d.Params()[i]; param.Flag() == before.waiting || param.Also == before.waiting {
				return known(p, before, param)
			}
		}
	}
	return nil
}

// arguments returns the candidates for the next word that are not flags.
func (p *Program) arguments(before *line) (list []candidate) {
	for _, c := range before.next {
		list = append(list, candidate{c.name, p.about(c)})
	}
	if before.called == nil || len(list) > 0 {
		return list
	}
	place := len(before.arguments)
	if d := before.definition; d != nil {
		if params := d.Positional(); place < len(params) {
			return known(p, before, params[place])
		}
		return nil
	}
	switch {
	case place > 0:
	case before.called.Name == "invoke":
		for _, d := range p.Catalogue.All() {
			list = append(list, candidate{d.Name, d.Summary()})
		}
	case before.called.Name == "completion":
		list = []candidate{{word: "bash"}, {word: "zsh"}, {word: "fish"}}
	}
	return list
}
