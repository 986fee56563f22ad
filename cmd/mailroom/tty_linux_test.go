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

// tty is a shell in its own terminal, whose programs see a terminal of a given number of columns.
type tty struct {
	t      *testing.T
	master *os.File
	script *os.File // commands for the shell, line by line; nil if the shell reads the terminal
	shell  *exec.Cmd
	chunks chan string
	text   string // output since the last command
}

// openTTY starts bash in a folder. With args, bash gets those arguments; without, it runs the commands written to
// script.
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

// openPTY returns the two ends of a new pseudoterminal.
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

// await reads output until wanted returns true for it. It reports whether that happened within half a minute and
// before the terminal closed.
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

// ended matches the exit status that the shell prints after a command, between two characters that nothing else
// prints.
var ended = regexp.MustCompile("\x01(\\d+)\x02")

// run runs a command in the shell and returns its output and its exit status.
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

// start replaces the shell with a command that runs until it is interrupted.
func (term *tty) start(command string) {
	term.t.Helper()
	if _, err := fmt.Fprintf(term.script, "exec %s\n", command); err != nil {
		term.t.Fatalf("%s: %v", command, err)
	}
}

// interrupt is the character that Ctrl-C types.
const interrupt = "\x03"

// finish types text that ends a started command, waits for the end, and returns the exit status, or -1 if there is
// none.
func (term *tty) finish(typed string) int {
	term.t.Helper()
	if _, err := term.master.WriteString(typed); err != nil {
		term.t.Fatal(err)
	}
	term.await(func(string) bool { return false })
	_ = term.shell.Wait()
	return term.shell.ProcessState.ExitCode()
}

// close ends the shell and the programs that it started, as closing a terminal does.
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
