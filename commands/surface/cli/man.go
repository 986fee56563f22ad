package cli

import (
	"fmt"
	"io"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"mailroom/commands"
	"mailroom/commands/parameter"
)

func manCommand(p *Program) *urfave.Command {
	return &urfave.Command{
		Name: "man", Usage: "Print the man page",
		Description: "Example:\n\n    mailroom man > ~/.local/share/man/man1/mailroom.1",
		Action: func(c *urfave.Context) error {
			return notWritten(writeMan(p.Out, p.Catalogue))
		},
	}
}

// writeMan writes the man page in roff format, from the definitions and their cards.
func writeMan(out io.Writer, catalogue *commands.Catalogue) error {
	var b strings.Builder
	b.WriteString(".TH MAILROOM 1 \"\" \"mailroom\" \"User Commands\"\n.SH NAME\nmailroom \\- messages between agents, stored in one SQL table\n")
	b.WriteString(".SH SYNOPSIS\n.B mailroom\nCOMMAND [\\-\\-flags] [ARGUMENTS]\n.br\n.B mailroom invoke\nNAME [JSON|@FILE|\\-]\n")
	b.WriteString(".SH DATABASE\nMailroom uses the first of these that exists: \\-\\-db, $MAILROOM_DB, the nearest .mailroom/mailroom.db in the current folder or above it, $XDG_STATE_HOME/mailroom/mailroom.db.\n")
	b.WriteString(".SH GLOBAL FLAGS\nGlobal flags can appear anywhere on the command line.\n")
	for _, f := range globalFlags() {
		flag := f.(urfave.DocGenerationFlag)
		fmt.Fprintf(&b, ".TP\n.B \\-\\-%s\n%s\n", roff(f.Names()[0]),
			roff(strings.ReplaceAll(flag.GetUsage(), "`", "")))
	}
	b.WriteString(".SH COMMANDS\n")
	for _, d := range catalogue.All() {
		fmt.Fprintf(&b, ".SS %s %s\n%s\n", roff(strings.Join(d.Path, " ")), roff(argsUsage(d)),
			paragraphs(section(d.Help(), "Purpose")))
		for i := range d.Params() {
			param := &d.Params()[i]
			fmt.Fprintf(&b, ".TP\n.B \\-\\-%s\n%s\n", roff(param.Flag()), roff(manUsage(param)))
		}
	}
	b.WriteString(manEnvironment)
	b.WriteString(".SH EXIT STATUS\n0 success, 1 failed delivery, 64 invalid parameters, 65 conflict or invalid lines, 66 not found, 70 bug, 75 temporary failure, 77 not allowed. Only `mailroom hook wake` uses 2.\n")
	_, err := io.WriteString(out, b.String())
	return err
}

const manEnvironment = `.SH ENVIRONMENT
.TP
.B MAILROOM_DB
database file or address
.TP
.B MAILROOM_AGENT
agent that runs the command, as with \-\-as
.TP
.B ORCHESTRATOR_INSTANCE_ID
name of this process as an owner of leases and in traces; default HOST\-PID
.TP
.B TRACEPARENT
W3C trace context of the caller: the parent of the command's span
.TP
.B NO_COLOR
disable colors
`

// paragraphs converts Markdown prose to roff.
func paragraphs(text string) string {
	var b strings.Builder
	for i, paragraph := range strings.Split(text, "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		b.WriteString(roff(strings.ReplaceAll(paragraph, "`", "")) + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func manUsage(param *parameter.Param) string {
	usage := param.Desc
	if bounds := param.Bounds(); bounds != "" {
		usage += " (" + bounds + ")"
	}
	if param.Default != "" {
		usage += "; default " + param.Default
	}
	return usage
}

// roff escapes text that roff would interpret as a request.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", " ").Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}
