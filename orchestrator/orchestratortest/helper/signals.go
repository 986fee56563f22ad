package helper

import (
	"os"
	"os/signal"
	"syscall"
)

// OwnSignals lets SIGHUP and SIGINT end the processes that this process starts, even if this process was started with
// these signals ignored, as by nohup or with & in a script; child processes would inherit that. A Go program does not
// pass its handling of other signals on. Call OwnSignals in TestMain, before any test runs. This process itself still
// ignores the signals.
func OwnSignals() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s) // new processes reset caught signals, not ignored ones
		}
	}
}
