package program

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"mailroom/orchestrator/process"
)

// holders are the processes by which a slot is taken. They stand in its file.
type holders struct {
	Owner   process.ID `json:"owner"`   // that took it
	Command process.ID `json:"command"` // that it started last
}

// holdersSize is the size of a slot's file. It is written in one piece and in place, so that nobody sees a part of it.
const holdersSize = 512

func (h *holders) write(file *os.File) error {
	text, err := json.Marshal(h)
	if err == nil {
		_, err = file.WriteAt(fmt.Appendf(nil, "%-*s\n", holdersSize-1, text), 0)
	}
	if err != nil {
		return fmt.Errorf("noting who has the lock of a running command: %w", err)
	}
	return nil
}

// holdersIn returns nil when nobody has noted who holds the slot.
func holdersIn(file *os.File) (*holders, error) {
	text, err := io.ReadAll(io.NewSectionReader(file, 0, holdersSize))
	if err != nil {
		return nil, err
	}
	var h *holders
	if err := json.Unmarshal(text, &h); err != nil {
		var notJSON *json.SyntaxError
		if errors.As(err, &notJSON) {
			return nil, nil
		}
		return nil, err
	}
	return h, nil
}
