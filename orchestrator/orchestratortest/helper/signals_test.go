package helper

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

var endings = []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGTERM}

// TestHelperProcess prints which signal ended a child process.
func TestHelperProcess(*testing.T) {
	Run(map[string]func(string, *bufio.Scanner){"signals": func(string, *bufio.Scanner) {
		OwnSignals()
		for _, s := range endings[:2] {
			_ = syscall.Kill(os.Getpid(), s) // which this process still ignores
		}
		for _, s := range endings {
			err := exec.Command("sh", "-c", fmt.Sprintf("kill -%d $$", s)).Run()
			fmt.Println(unix.SignalName(s), err)
		}
	}})
}

// TestOwnSignals checks that signals that a test program ignores from its start end its child processes, but not the
// program itself.
func TestOwnSignals(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", "-c", `trap '' HUP INT QUIT PIPE TERM; exec "$0" -test.run='^TestHelperProcess$'`,
		os.Args[0])
	cmd.Env = append(os.Environ(), environment+"=signals\n")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		if want := fmt.Sprintf("%s signal: %s", unix.SignalName(endings[i]), endings[i]); !strings.HasPrefix(line,
			want) {
			t.Errorf("a process says %q, want %q", line, want)
		}
	}
}
