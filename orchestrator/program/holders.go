package program

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"mailroom/orchestrator/process"
)

// holders are the processes that have taken a slot, as its file names them.
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

// holdersIn returns what stands in the file of a slot; nil when that says of nobody that he holds it.
func holdersIn(file *os.File) (h *holders) {
	text, err := io.ReadAll(io.NewSectionReader(file, 0, holdersSize))
	if err != nil || json.Unmarshal(text, &h) != nil {
		return nil
	}
	return h
}
