package program

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"mailroom/orchestrator/process"
)

// WithoutName exports withoutName, for systems without in-memory files.
var WithoutName = withoutName

// Reused returns the text of a slot's file after the holders' process IDs were reused, or "" if the system does not
// identify processes.
func Reused(t *testing.T) string {
	if process.Of(os.Getpid()).Born == "" {
		return ""
	}
	ours := process.Of(os.Getpid())
	ours.Born += "0"
	text, err := json.Marshal(holders{Owner: ours, Command: ours})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Ungated starts a command with a slot, like Start, but exits before its process is recorded.
func Ungated(slot *Slot, cmd *exec.Cmd) (string, error) {
	gate, err := slot.hold(cmd)
	if err != nil {
		return "", err
	}
	defer slot.drop()
	read, write, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer read.Close()
	cmd.Stdout = write
	err = cmd.Start()
	write.Close()
	gate.close()
	if err != nil {
		return "", err
	}
	err = cmd.Wait()
	text := make([]byte, 100)
	n, _ := read.Read(text) // 0 at the end
	return string(text[:n]), err
}
