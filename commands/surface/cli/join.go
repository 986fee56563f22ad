package cli

import (
	"bufio"
	"cmp"
	"context"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"

	"mailroom/commands"
	"mailroom/commands/surface/remote"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
)

// joinCommand returns the command that makes a folder use a database on another machine.
func joinCommand(p *Program) *urfave.Command {
	return &urfave.Command{
		Name: "join", ArgsUsage: "PLACE|-", Usage: "Use the database of another machine in this folder",
		Description: "PLACE is the address that `mailroom invite` prints on the other machine, or ssh://[USER@]HOST[/PATH], or unix:/PATH.sock. All\n" +
			"commands in this folder and its subfolders then use that database, and so do agent hosts that are connected in this folder. The\n" +
			"command writes .mailroom/place, and records the join in your state folder. Without that record, Mailroom refuses to use the file,\n" +
			"for example in a folder that somebody else created.\n\n" +
			"With -, the command reads the address from standard input. The address then does not appear in the shell history, and other users of\n" +
			"the machine cannot see it. With --print, the command writes no files, and prints the variables that a container or a service needs to\n" +
			"reach the database.\n\nExamples:\n\n" +
			"    mailroom join https://studio.local:9464/#alice.CODE.PIN\n    mailroom join ssh://me@studio/~/shop/.mailroom/mailroom.db\n    mailroom join --print - <invitation",
		Flags: []urfave.Flag{
			&urfave.BoolFlag{Name: "print", Usage: "print the variables MAILROOM_DB and MAILROOM_TOKEN, and write no files", DisableDefaultText: true},
		},
		Action: func(c *urfave.Context) error { return join(c, p) },
	}
}

// leaveCommand returns the command that undoes a join.
func leaveCommand(p *Program) *urfave.Command {
	return &urfave.Command{
		Name: "leave", Usage: "Stop using the database of another machine in this folder",
		Description: "Revokes the token from `mailroom join`, and removes the files that it wrote. The messages stay in the database.\n\nExample:\n\n    mailroom leave",
		Action:      func(c *urfave.Context) error { return leave(c, p) },
	}
}

// joinWithin is the timeout for the answer of the other machine.
const joinWithin = 30 * time.Second

// joining is the result of join and leave.
type joining struct {
	Place   string `json:"place"`
	Folder  string `json:"folder,omitempty"`
	Agent   string `json:"agent,omitempty"`
	Project string `json:"project,omitempty"`
	Left    bool   `json:"left,omitempty"`
	Warning string `json:"warning,omitempty"`
}

// Text prints the result for people.
func (j joining) Text(w *terminal.Text) {
	if j.Left {
		w.Printf("Left %s.\n", j.Place)
	} else {
		as := ""
		if j.Agent != "" {
			as = " as " + j.Agent
		}
		w.Printf("Joined %s%s. Commands that you run in %s now use that database.\nNext: `mailroom connect HOST`, or `mailroom inbox`.\n", j.Place, as, j.Folder)
	}
	if j.Warning != "" {
		w.Printf("%s\n", w.Paint(terminal.Yellow, j.Warning))
	}
}

func join(c *urfave.Context, p *Program) error {
	if c.NArg() != 1 {
		return orchestrator.Errorf(orchestrator.InvalidParams, "`mailroom join` takes exactly one address").
			WithHint("Run the command that `mailroom invite NAME` prints on the machine with the database, or `mailroom join ssh://HOST/PATH`")
	}
	link := c.Args().First()
	if link == "-" {
		line, err := bufio.NewReader(io.LimitReader(p.In, 4096)).ReadString('\n')
		if err != nil && line == "" {
			return orchestrator.Errorf(orchestrator.InvalidParams, "cannot read a line from standard input: %v", err)
		}
		link = line
	}
	link = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(link), "mailroom join "))
	link = strings.Trim(link, "'\"")
	here, err := os.Getwd()
	if err != nil {
		return folderGone(err)
	}
	if database, _ := commands.NearestProject(here); filepath.Dir(filepath.Dir(database)) == here && !c.Bool("print") {
		return orchestrator.Errorf(orchestrator.Conflict, "this folder already has its own database, %s", database).
			WithHint("Join in another folder, or move the database to another folder")
	}
	ctx, cancel := context.WithTimeout(c.Context, joinWithin)
	defer cancel()
	invited, err := readInvitation(link)
	if err != nil {
		return err
	}
	if c.Bool("print") {
		j, _, err := p.accept(ctx, invited)
		if err != nil {
			return err
		}
		return p.printKey(j)
	}
	folder := remote.Resolved(here)
	before, _ := p.book().In(folder)
	if before.Token != "" && before.Place == invited.at.String() && before.Agent == invited.agent &&
		p.reaches(ctx, before, io.Discard) == nil { // the command was run twice
		if err := p.book().Keep(before); err != nil {
			return notKept(err)
		}
		return p.show(joining{Place: before.Place, Folder: here, Agent: before.Agent})
	}
	if err := p.book().Check(folder); err != nil {
		return &orchestrator.Error{Code: orchestrator.Unavailable, Message: "nothing was sent: cannot write the files that connect this folder to the database", Err: err,
			Hint: "Run `mailroom join --print` with the same address, and set the variables that it prints"}
	}
	j, project, err := p.accept(ctx, invited)
	if err != nil {
		return err
	}
	j.Folder = folder
	if err := p.book().Keep(j); err != nil {
		return notKept(err)
	}
	joined := joining{Place: j.Place, Folder: here, Agent: j.Agent, Project: project}
	if err := p.giveUp(c.Context, before); err != nil {
		joined.Warning = "Cannot revoke the previous token of this folder for " + before.Place + ": " + err.Error() + "."
	}
	return p.show(joined)
}

// notKept returns the error for a successful join that cannot be recorded.
func notKept(err error) error {
	return &orchestrator.Error{Code: orchestrator.Unavailable, Message: "joined the database, but cannot write the files that connect this folder to the database", Err: err,
		Hint: "Get a new invitation, run `mailroom join --print` with it, and set the variables that it prints"}
}

// invitation is an address printed by `mailroom invite`, or a place that requires no invitation.
type invitation struct {
	at               remote.Place
	agent, code, pin string
}

// readInvitation parses the address given to join.
func readInvitation(link string) (i invitation, err error) {
	u, err := url.Parse(link)
	if err != nil || u.Fragment == "" {
		if i.at, err = remote.Parse(link); err == nil && i.at.Scheme != "ssh" && i.at.Scheme != "unix" {
			err = orchestrator.Errorf(orchestrator.InvalidParams, "joining %s requires an invitation", i.at).
				WithHint("On the machine with the database, run `mailroom invite NAME`. In this folder, run the command that it prints")
		}
		return i, err
	}
	parts := strings.Split(u.Fragment, ".")
	u.Fragment = ""
	i.at, err = remote.Parse(u.String())
	switch {
	case err != nil:
		return i, err
	case i.at.Scheme == "https" && len(parts) != 3 || i.at.Scheme == "http" && len(parts) != 2 || i.at.Scheme == "ssh":
		return i, orchestrator.Errorf(orchestrator.InvalidParams, "invalid invitation: a part is missing").
			WithHint("Copy the whole line that `mailroom invite` printed, and put quotes around it")
	}
	if i.agent, i.code = parts[0], parts[1]; len(parts) == 3 {
		i.pin = parts[2]
	}
	return i, nil
}

// accept joins the place of an invitation.
func (p *Program) accept(ctx context.Context, i invitation) (j remote.Joined, project string, err error) {
	j = remote.Joined{Place: i.at.String(), Agent: i.agent, Pin: i.pin}
	if i.code == "" {
		return j, "", p.reaches(ctx, j, p.Err)
	}
	client := clientWith(ctx, i.at, remote.Dialing{}, j.Pin, "")
	defer client.Close()
	var answer struct{ Agent, Token, Project string }
	if err := client.Post(ctx, "/v1/join", map[string]string{"agent": i.agent, "code": i.code}, &answer); err != nil {
		return j, "", err
	}
	j.Token = answer.Token
	return j, answer.Project, nil
}

// reaches returns an error if a joined place cannot be reached. The error output of the other machine goes to errs.
func (p *Program) reaches(ctx context.Context, j remote.Joined, errs io.Writer) error {
	at, err := remote.Parse(j.Place)
	if err != nil {
		return err
	}
	token := j.Token
	if at.Scheme == "unix" {
		token = cmp.Or(token, p.Getenv("MAILROOM_TOKEN"))
	}
	client := clientWith(ctx, at, p.dialing(errs, false), j.Pin, token)
	defer client.Close()
	return p.run(ctx, client, at, []string{"whoami", "--json"}, remote.Streams{In: strings.NewReader(""), Out: io.Discard, Err: errs})
}

// printKey prints the variables that give access to a joined place.
func (p *Program) printKey(j remote.Joined) error {
	place := j.Place
	if j.Pin != "" {
		place += "#" + j.Pin
	}
	lines := "MAILROOM_DB=" + place + "\n"
	if j.Token != "" {
		lines += "MAILROOM_TOKEN=" + j.Token + "\n"
	}
	_, err := io.WriteString(p.Out, lines)
	return notWritten(err)
}

func leave(c *urfave.Context, p *Program) error {
	if c.NArg() > 0 {
		return orchestrator.Errorf(orchestrator.InvalidParams, "`mailroom leave` takes no arguments, but got %q", orchestrator.Clip(c.Args().First()))
	}
	here, err := os.Getwd()
	if err != nil {
		return folderGone(err)
	}
	_, file := commands.NearestProject(here)
	if file == "" {
		return orchestrator.Errorf(orchestrator.NotFound, "this folder is not joined to a database")
	}
	j, err := p.book().Named(file)
	if err != nil {
		return err
	}
	left := joining{Place: j.Place, Folder: j.Folder, Agent: j.Agent, Left: true}
	if err := p.giveUp(c.Context, j); err != nil {
		left.Warning = "Cannot revoke the token: " + err.Error() + ". On the machine with the database, run `mailroom agent token " + j.Agent + " --revoke`."
	}
	if err := p.book().Forget(j.Folder); err != nil {
		return &orchestrator.Error{Code: orchestrator.Unavailable, Message: "cannot remove the files that `mailroom join` wrote", Err: err}
	}
	return p.show(left)
}

// giveUp makes the other machine revoke the token of a join.
func (p *Program) giveUp(ctx context.Context, j remote.Joined) error {
	if j.Token == "" {
		return nil
	}
	at, err := remote.Parse(j.Place)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, joinWithin)
	defer cancel()
	client := clientWith(ctx, at, remote.Dialing{}, j.Pin, j.Token)
	defer client.Close()
	return client.Post(ctx, "/v1/leave", struct{}{}, new(struct{}))
}
