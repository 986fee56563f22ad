package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"

	"mailroom/commands"
	"mailroom/commands/surface/remote"
	"mailroom/orchestrator"
)

// distant returns the database at a place on another machine, for a command that runs here with env.
func (p *Program) distant(place string, at remote.Place, client *remote.Client, env commands.Env) *commands.Distant {
	run := func(ctx context.Context, command string, params, result any) error {
		text, err := orchestrator.JSON(params)
		if err != nil {
			return err
		}
		words := []string{"invoke", command, string(text), "--output", "json"}
		if env.Caller.Named {
			words = append(words, "--as", env.Caller.Name)
		}
		var said bytes.Buffer
		err = p.run(ctx, client, at, words, remote.Streams{In: strings.NewReader(""), Out: &said, Err: io.Discard})
		if errors.As(err, new(exit)) {
			return failureOf(said.Bytes())
		}
		if err == nil && result != nil {
			err = json.Unmarshal(said.Bytes(), result)
		}
		return err
	}
	return &commands.Distant{Name: place, State: StateFolder(p.Getenv), Run: run, Close: func() error {
		client.Close()
		return nil
	}}
}

// connectionsAnswers returns the function that answers the questions of connect.Look for a line that runs at another
// place. It repairs files only if the line has the flag --try.
func (p *Program) connectionsAnswers(ctx context.Context, l *line, place string, at remote.Place, client *remote.Client) func(string) ([]byte, error) {
	return func(question string) ([]byte, error) {
		mend := question == commands.MendConnections
		if p.Connections == nil || question != commands.Connections && !(mend && slices.Contains(l.named, "try")) {
			return nil, errUnknown
		}
		env := commands.Env{Catalogue: p.Catalogue, Log: slog.New(slog.DiscardHandler)}
		env.Distant = p.distant(place, at, client, env)
		return orchestrator.JSON(p.Connections(ctx, env, mend))
	}
}

// failureOf returns the error that the failed answer of a command describes, see commands.Failure.
func failureOf(answer []byte) error {
	var said struct {
		Error         orchestrator.Code
		Message, Hint string
	}
	if err := json.Unmarshal(answer, &said); err != nil || said.Error == "" {
		return orchestrator.Errorf(orchestrator.Unavailable, "no valid answer from Mailroom on the other machine")
	}
	return orchestrator.Errorf(said.Error, "%s", said.Message).WithHint("%s", said.Hint)
}
