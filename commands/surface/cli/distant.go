package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"mailroom/commands"
	"mailroom/commands/surface/remote"
	"mailroom/orchestrator"
)

// distant returns the database in a place, for a command that runs here.
func (p *Program) distant(c *urfave.Context, place string) (*commands.Distant, error) {
	at, err := remote.Parse(place)
	if err != nil {
		return nil, err
	}
	client := clientOf(c.Context, at, p.dialing(p.Err, false))
	run := func(ctx context.Context, command string, params, result any) error {
		text, err := orchestrator.JSON(params)
		if err != nil {
			return err
		}
		words := []string{"invoke", command, string(text), "--output", "json"}
		if c.IsSet("as") {
			words = append(words, "--as", c.String("as"))
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
	}}, nil
}

// failureOf is the error of which the answer of a command tells, see commands.Failure.
func failureOf(answer []byte) error {
	var said struct {
		Error         orchestrator.Code
		Message, Hint string
	}
	if err := json.Unmarshal(answer, &said); err != nil || said.Error == "" {
		return orchestrator.Errorf(orchestrator.Unavailable, "the program on the other machine gave no answer")
	}
	return orchestrator.Errorf(said.Error, "%s", said.Message).WithHint("%s", said.Hint)
}
