package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// tty is a shell in a terminal of its own: programs in it see a terminal of so many columns, as a person's would be.
type tty struct {
	t      *testing.T
	master *os.File
	script *os.File // what the shell runs, line by line; nil for one that reads what is typed
	shell  *exec.Cmd
	chunks chan string
	text   string // what came since the last command
}

// openTTY starts bash in a folder. With arguments it gets those; without, it runs what is given to run.
func openTTY(t *testing.T, folder string, env []string, columns int, args ...string) *tty {
	t.Helper()
	master, slave, err := openPTY(columns)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	term := &tty{t: t, master: master, chunks: make(chan string, 64)}
	if len(args) == 0 {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer read.Close()
		term.script, args = write, []string{"/dev/fd/3"}
		term.shell = exec.Command("bash", args...)
		term.shell.ExtraFiles = []*os.File{read}
	} else {
		term.shell = exec.Command("bash", args...)
	}
	term.shell.Dir, term.shell.Env = folder, append(slices.Clip(env), "MAILROOM_OUTPUT=")
	term.shell.Stdin, term.shell.Stdout, term.shell.Stderr = slave, slave, slave
	term.shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := term.shell.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(term.chunks)
		buffer := make([]byte, 4096)
		for {
			n, err := master.Read(buffer)
			if n > 0 {
				term.chunks <- string(buffer[:n])
			}
			if err != nil {
				return // the last program has closed its end
			}
		}
	}()
	t.Cleanup(term.close)
	return term
}

// openPTY returns the two ends of a new terminal.
func openPTY(columns int) (master, slave *os.File, err error) {
	if master, err = os.OpenFile("/dev/ptmx", os.O_RDWR, 0); err != nil {
		return nil, nil, err
	}
	fd := int(master.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	size := &unix.Winsize{Row: 50, Col: uint16(columns)}
	err = errors.Join(err, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0),
		unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, size))
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		master.Close()
	}
	return master, slave, err
}

// await waits until what came is as wanted. It reports whether that happened before the terminal's end, or within half
// a minute.
func (term *tty) await(wanted func(text string) bool) bool {
	limit := time.NewTimer(30 * time.Second)
	defer limit.Stop()
	for !wanted(term.text) {
		select {
		case chunk, open := <-term.chunks:
			if !open {
				return false
			}
			term.text += chunk
		case <-limit.C:
			return false
		}
	}
	return true
}

// ended is what the shell prints after a command: its exit status between two characters that nothing else prints.
var ended = regexp.MustCompile("\x01(\\d+)\x02")

// run runs a command in the shell, and returns what it printed and its exit status.
func (term *tty) run(command string) (printed, status string) {
	term.t.Helper()
	if _, err := fmt.Fprintf(term.script, "%s\n__=$?; printf '\\001%%d\\002' $__; (exit $__)\n", command); err != nil {
		term.t.Fatalf("%s: %v", command, err)
	}
	if !term.await(ended.MatchString) {
		term.t.Fatalf("%s does not end; it has printed\n%s", command, term.text)
	}
	at := ended.FindStringSubmatchIndex(term.text)
	printed, status = term.text[:at[0]], term.text[at[2]:at[3]]
	term.text = term.text[at[1]:]
	return printed, status
}

// start runs a command that goes on until it is interrupted, in place of the shell.
func (term *tty) start(command string) {
	term.t.Helper()
	if _, err := fmt.Fprintf(term.script, "exec %s\n", command); err != nil {
		term.t.Fatalf("%s: %v", command, err)
	}
}

// interrupt is what Ctrl-C types.
const interrupt = "\x03"

// finish types what ends a command that was started, waits for that, and returns the exit status, -1 for none.
func (term *tty) finish(typed string) int {
	term.t.Helper()
	if _, err := term.master.WriteString(typed); err != nil {
		term.t.Fatal(err)
	}
	term.await(func(string) bool { return false })
	_ = term.shell.Wait()
	return term.shell.ProcessState.ExitCode()
}

// close ends the shell and what it started, as a terminal does that is closed.
func (term *tty) close() {
	if term.script != nil {
		term.script.Close()
	}
	_ = syscall.Kill(-term.shell.Process.Pid, syscall.SIGHUP)
	term.await(func(string) bool { return false })
	_ = syscall.Kill(-term.shell.Process.Pid, syscall.SIGKILL)
	_ = term.shell.Wait()
	term.master.Close()
}
