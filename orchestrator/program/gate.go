package program

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"mailroom/orchestrator/process"
)

// gate makes a command with a slot wait until its process is noted in the slot. If we are killed before, the command ends: so
// none runs that a slot does not tell of.
type gate struct {
	slot         *os.File
	ours, theirs *os.File // of a pipe; the command waits for a line from it
}

// gated is what the shell runs for a command behind a gate.
const gated = `read -r MAILROOM_GO <&4 && exec 4<&- && exec /bin/sh -c "$1"`

// newGate puts a command `sh -c TEXT` behind a gate.
func newGate(slot *os.File, cmd *exec.Cmd) (*gate, error) {
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("preparing the command: %w", err)
	}
	cmd.Args = []string{cmd.Args[0], "-c", gated, "sh", cmd.Args[2]}
	cmd.ExtraFiles = []*os.File{slot, theirs} // 3 and 4
	return &gate{slot: slot, ours: ours, theirs: theirs}, nil
}

// open notes the process of the command and lets it go. After an error, and without this, it ends when the gate is closed.
func (g *gate) open(pid int) error {
	if g == nil {
		return nil
	}
	unlock, err := guard(filepath.Dir(g.slot.Name()))
	if err != nil {
		return err
	}
	h := holders{Owner: process.Of(os.Getpid()), Command: process.Of(pid)}
	err = h.write(g.slot)
	unlock()
	if err == nil {
		_, _ = g.ours.WriteString("\n") // it fails when somebody has ended the command
	}
	return err
}

func (g *gate) close() {
	if g == nil {
		return
	}
	g.ours.Close()
	g.theirs.Close()
}
