package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"mailroom/commands"
	"mailroom/commands/parameter"
	"mailroom/orchestrator"
)

// command is an entry that a word of the command line can name: a command of the catalogue, one of the program's own
// commands, or a group of commands. Its flags and texts are created on demand (see called): to create them for all
// commands at every start would take a tenth of the time of a send.
type command struct {
	name       string
	definition *commands.Definition           // nil unless the command is in the catalogue
	word       commands.Word                  // the alias with this name; zero for the definition's own name
	own        func(*Program) *urfave.Command // nil unless it is one of the program's own commands
	group      []string                       // names of the commands in a group
}

// below returns the commands and groups that can follow the words of path, in the order of the help.
func (p *Program) below(path []string) []command {
	all := p.Catalogue.All()
	var list []command
	if len(path) == 0 {
		list = make([]command, 0, len(all)) // most commands are not in a group
	}
	for _, d := range all {
		for _, w := range d.Words {
			list = addBelow(list, path, w.Path, command{definition: d, word: w})
		}
		list = addBelow(list, path, d.Path, command{definition: d})
	}
	if len(path) == 0 {
		list = append(list, ownCommands()...)
	}
	return list
}

// addBelow adds to list the entry of a command, whose full path is own, below path: c itself, or the group that
// contains it.
func addBelow(list []command, path, own []string, c command) []command {
	if len(own) <= len(path) || !slices.Equal(own[:len(path)], path) {
		return list
	}
	name, rest := own[len(path)], own[len(path)+1:]
	if len(rest) == 0 {
		c.name = name
		return append(list, c)
	}
	i := 0 // a function of package slices would copy each element
	for i < len(list) && list[i].name != name {
		i++
	}
	if i == len(list) {
		list = append(list, command{name: name})
	}
	if group := &list[i].group; !slices.Contains(*group, rest[0]) {
		*group = append(*group, rest[0])
	}
	return list
}

// names returns the names of commands.
func names(list []command) []string {
	all := make([]string, len(list))
	for i, c := range list {
		all[i] = c.name
	}
	return all
}

// ownCommands returns the commands that are not in the catalogue.
func ownCommands() []command {
	return append(startCommands(), []command{
		{name: "invoke", own: invokeCommand},
		{name: "tail", own: tailCommand},
		{name: "completion", own: completionCommand},
		{name: "man", own: manCommand},
		{name: "console", own: consoleCommand},
		{name: "serve", own: serveCommand},
		{name: "mcp", own: mcpCommand},
		{name: "hook", own: hookCommand},
		{name: "join", own: joinCommand},
		{name: "leave", own: leaveCommand},
		{name: "remote", own: remoteCommand},
		{name: "whoami", own: whoamiCommand},
		{name: "version", own: versionCommand},
		{name: "upgrade", own: upgradeCommand},
	}...)
}

// about returns the one-line description of a command for lists.
func (p *Program) about(c command) string {
	if c.definition != nil {
		return cmp.Or(c.word.Summary, c.definition.Summary())
	}
	return p.called(c).Usage
}

// called returns a command for the flag parser and the help. Usage is empty if the text is on the card of the
// command, which only the help reads.
func (p *Program) called(c command) *urfave.Command {
	switch d := c.definition; {
	case d != nil:
		return &urfave.Command{
			Usage: c.word.Summary, Flags: flagsOf(d), ArgsUsage: argsUsage(d),
			Action: func(ctx *urfave.Context) error { return p.runCommand(ctx, d, c.word.Preset) },
		}
	case c.own != nil:
		return c.own(p)
	}
	return &urfave.Command{Usage: strings.Join(c.group, ", ")}
}

// flagsOf returns the flags of a command of the catalogue. It panics if a flag conflicts with a reserved one.
func flagsOf(d *commands.Definition) (flags []urfave.Flag) {
	global := globalTable()
	for i := range d.Params() {
		flag := d.Params()[i].Flag()
		if _, taken := global[flag]; taken || (d.TakesBatch() && (flag == "stdin" || flag == "atomic")) ||
			(d.Confirm != "" && flag == yesFlag) || (waitsForAnswer(d) && flag == waitFlag) ||
			(textOf(d) != nil && flag == fileFlag) {
			panic(fmt.Sprintf("%s: the flag --%s is already defined", d.Name, flag))
		}
		flags = append(flags, flagOf(&d.Params()[i]))
	}
	if textOf(d) != nil {
		flags = append(flags, &urfave.StringFlag{Name: fileFlag, Usage: "read the text from `FILE`"})
	}
	if waitsForAnswer(d) {
		flags = append(flags, &urfave.StringFlag{Name: waitFlag,
			Usage: "wait up to `DURATION` for the answer (" + waitByDefault + " if you give no duration)"})
	}
	if d.Confirm != "" {
		flags = append(flags,
			&urfave.BoolFlag{Name: yesFlag, Usage: "skip the confirmation prompt, which appears only on a terminal",
				DisableDefaultText: true})
	}
	if d.TakesBatch() {
		flags = append(flags,
			&urfave.BoolFlag{Name: "stdin",
				Usage:              "read JSON objects with parameters from standard input, one per line, and answer each with one line",
				DisableDefaultText: true},
			&urfave.BoolFlag{Name: "atomic", Usage: "with --stdin: run all lines or none", DisableDefaultText: true})
	}
	return flags
}

// The names of the flag and the environment variable that set the name of this machine.
const (
	hostFlag     = "host-name"
	hostVariable = "MAILROOM_HOST_NAME"
)

// The names of the global switches that print the help or the version and exit.
var (
	helpFlags    = []string{"help", "h"}
	versionFlags = []string{"version", "v"}
)

// globalFlags returns the flags that can be anywhere on the command line.
func globalFlags() []urfave.Flag {
	return []urfave.Flag{
		&urfave.StringFlag{Name: "db",
			Usage:       "database `FILE`, or the address of a database: postgres://USER@HOST/DATABASE, or ssh://HOST/PATH on another machine",
			DefaultText: "MAILROOM_DB, the nearest .mailroom/mailroom.db, or the user's own database"},
		&urfave.StringFlag{Name: hostFlag, Usage: "`NAME` of this machine, if several machines use one PostgreSQL database",
			DefaultText: "MAILROOM_HOST_NAME, or the hostname of the machine"},
		&urfave.StringFlag{Name: "as",
			Usage: "`NAME` of the agent that runs the command (default: MAILROOM_AGENT, or the administrator, who sends and reads as operator)"},
		&urfave.StringFlag{Name: "session", Usage: "`NAME` of the session that teams and threads belong to",
			DefaultText: orchestrator.DefaultSession},
		&urfave.StringFlag{Name: "output", Usage: "output format: `json|text`",
			DefaultText: "MAILROOM_OUTPUT, or text; if output is not a terminal, commands for programs, such as send, print json"},
		&urfave.BoolFlag{Name: "json", Usage: "short for --output json", DisableDefaultText: true},
		&urfave.BoolFlag{Name: "text", Usage: "short for --output text", DisableDefaultText: true},
		&urfave.StringFlag{Name: "jq", Usage: "filter the JSON answer with a jq `EXPRESSION`"},
		&urfave.StringFlag{Name: "log-level", Usage: "lowest level of log messages on standard error: `debug|info|warn|error`",
			DefaultText: "warn"},
		&urfave.BoolFlag{Name: helpFlags[0], Aliases: helpFlags[1:], Usage: "show help", DisableDefaultText: true},
		&urfave.BoolFlag{Name: versionFlags[0], Aliases: versionFlags[1:], Usage: "show the version",
			DisableDefaultText: true},
	}
}

// flagOf returns the flag of a parameter. All flags except switches and lists take a text. The caller converts the
// text to JSON, so that the one strict decoder validates it.
func flagOf(param *parameter.Param) urfave.Flag {
	usage := param.Desc
	if bounds := param.Bounds(); bounds != "" {
		usage += " (" + bounds + ")"
	}
	if param.Required && param.With[0] == "" {
		usage += " (required"
		if param.Arg != "" {
			usage += ", as a flag or as an argument"
		}
		usage += ")"
	}
	name := param.Flag()
	var also []string
	if param.Also != "" {
		also = []string{param.Also}
	}
	switch param.Kind {
	case parameter.Boolean:
		return &urfave.BoolFlag{Name: name, Usage: usage, Value: param.Default == "true",
			DisableDefaultText: param.Default != "true"}
	case parameter.List:
		return &urfave.StringSliceFlag{Name: name, Aliases: also, Usage: usage}
	case parameter.JSON:
		if param.TextOrObject {
			return &urfave.StringFlag{Name: name, Usage: usage + "; `TEXT|JSON|@FILE|-`"}
		}
		return &urfave.StringFlag{Name: name, Usage: usage + "; `JSON|@FILE|-`"}
	}
	byDefault := param.Default
	if with := param.With; with[0] != "" {
		byDefault = with[1] + " if " + with[0] + " is given"
	}
	return &urfave.StringFlag{Name: name, Aliases: also, Usage: usage, DefaultText: byDefault}
}
