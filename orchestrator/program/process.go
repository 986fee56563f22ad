package program

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// process says which process is meant by a number, which the system gives to another one in the end.
type process struct {
	PID   int    `json:"pid"`
	Born  string `json:"born,omitempty"`  // when it began, as the system says it; "" is not known
	Space string `json:"space,omitempty"` // where its number counts; "" is everywhere
}

// processOf is for one that has not ended.
func processOf(pid int) process { return process{PID: pid, Born: born(pid), Space: space()} }

// here reports whether it is a process that we can see, and that runs still.
func (p process) here() bool { return p.PID > 0 && p.Space == space() && runs(p.PID, p.Born) }

// alive reports whether a process may run still: one in another container cannot be seen from here.
func (p process) alive() bool { return p.here() || p.PID > 0 && p.Space != space() }

// holders are the processes by which a slot is taken. They stand in its file.
type holders struct {
	Owner   process `json:"owner"`   // that took it
	Command process `json:"command"` // that it started last
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
