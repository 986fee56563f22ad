package surface

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"mailroom/commands"
	"mailroom/orchestrator"
)

// completionScripts ask the program itself what can follow, so that they never go stale.
var completionScripts = map[string]string{
	"bash": `# bash completion for mailroom: put it into a file that your shell reads at its start
_mailroom() {
    local cur="${COMP_WORDS[COMP_CWORD]}"
    local words=("${COMP_WORDS[@]:0:COMP_CWORD}")
    case "$cur" in -*) words+=("$cur") ;; esac
    COMPREPLY=($(compgen -W "$("${words[@]}" --generate-bash-completion 2>/dev/null)" -- "$cur"))
}
complete -o bashdefault -o default -F _mailroom mailroom
`,
	"zsh": `#compdef mailroom
# zsh completion for mailroom: name it _mailroom in a folder of your fpath, or source it
_mailroom() {
    local cur="${words[CURRENT]}"
    local -a before candidates
    before=("${(@)words[1,CURRENT-1]}")
    case "$cur" in -*) before+=("$cur") ;; esac
    candidates=("${(@f)$("${before[@]}" --generate-bash-completion 2>/dev/null)}")
    compadd -- "${candidates[@]}"
}
compdef _mailroom mailroom
`,
	"fish": `# fish completion for mailroom: put it into ~/.config/fish/completions/mailroom.fish
function __mailroom_complete
    set -l before (commandline -opc)
    set -l cur (commandline -ct)
    if string match -q -- '-*' $cur
        set -a before $cur
    end
    $before --generate-bash-completion 2>/dev/null
end
complete -c mailroom -f -a '(__mailroom_complete)'
`,
}

func (p *Program) completionCommand() *cli.Command {
	return &cli.Command{
		Name: "completion", Usage: "Print a completion script for bash, zsh or fish", ArgsUsage: "bash|zsh|fish",
		Description:     "Example:\n\n    source <(mailroom completion bash)",
		HideHelpCommand: true, OnUsageError: usageError,
		BashComplete: func(*cli.Context) { fmt.Fprintln(p.Out, "bash\nzsh\nfish") },
		Action: func(c *cli.Context) error {
			script, ok := completionScripts[c.Args().First()]
			if !ok {
				return p.failWith(c, orchestrator.Errorf(orchestrator.InvalidParams, "completion: %q is none of bash, zsh, fish", c.Args().First()))
			}
			_, err := fmt.Fprint(p.Out, script)
			return err
		},
	}
}

// complete lists what can follow on the command line of a command: its flags, or the values of the flag before.
func (p *Program) complete(d *commands.Definition) cli.BashCompleteFunc {
	return func(c *cli.Context) {
		for i := range d.Params {
			param := &d.Params[i]
			fmt.Fprintln(p.Out, "--"+param.Flag())
			if param.Arg != "" {
				for _, v := range param.OneOf {
					fmt.Fprintln(p.Out, v)
				}
			}
		}
		if d.TakesBatch() {
			fmt.Fprintln(p.Out, "--stdin\n--atomic")
		}
		for _, f := range globalFlags() {
			fmt.Fprintln(p.Out, "--"+f.Names()[0])
		}
	}
}

func (p *Program) completeNames(*cli.Context) {
	for _, d := range p.Catalogue.All() {
		fmt.Fprintln(p.Out, strings.ToLower(d.Name))
	}
}
