package helper

import (
	"os"
	"os/signal"
	"syscall"
)

// OwnSignals lets SIGHUP and SIGINT end the processes that this one starts, also where it was itself started with them
// ignored, as by nohup or behind an & of a script: they would inherit that. What other signals do, a Go program passes
// on to none of its processes. Call it in TestMain, before any test runs. This process itself goes on ignoring what it
// was to ignore.
func OwnSignals() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s) // what is caught is at its default in a new process, and what is ignored is not
		}
	}
}
