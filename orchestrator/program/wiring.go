//go:build unix

package program

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
)

// wiring holds a command's standard input and output.
type wiring struct {
	input, output *os.File // the command's ends; input is nil if there is none
	pipe          *os.File // our end of the output; nil if it goes to a log
	log           string
	tails         Tails
	cut           int64         // bytes cut from the log
	ended         chan struct{} // closed when the command has ended
	read          chan struct{} // closed when pipe is no longer read and the log no longer cut
}

// wire connects the command's standard input and output.
func (r *Running) wire() (w *wiring, err error) {
	w = &wiring{log: r.command.Log, ended: make(chan struct{}), read: make(chan struct{})}
	if r.command.Input != nil {
		if w.input, err = inputFile(r.command.Input); err != nil {
			return nil, fmt.Errorf("cannot prepare the standard input of the command: %w", err)
		}
		r.cmd.Stdin = w.input
	}
	if w.log != "" {
		w.output, err = os.OpenFile(w.log, os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	} else {
		w.pipe, w.output, err = os.Pipe()
	}
	if err != nil {
		w.close()
		return nil, fmt.Errorf("cannot prepare the output of the command: %w", err)
	}
	r.cmd.Stdout, r.cmd.Stderr = w.output, w.output
	return w, nil
}

// inputFile returns an open file that contains text, positioned at its start. With a pipe instead, if our process
// were killed while writing, the command would take a part of the text for the whole.
func inputFile(text []byte) (*os.File, error) {
	file, err := inMemory()
	if err != nil { // unsupported, or forbidden as on some machines
		file, err = withoutName()
	}
	if err != nil {
		return nil, err
	}
	_, err = file.Write(text)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// withoutName returns a temporary file whose name is removed at once.
func withoutName() (*os.File, error) {
	file, err := os.CreateTemp("", "mailroom-input-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// close closes all files of a command that did not start.
func (w *wiring) close() {
	for _, file := range []*os.File{w.input, w.output, w.pipe} {
		if file != nil {
			file.Close()
		}
	}
}

// closeOurs closes the command's ends after the command got them, and starts reading its output.
func (w *wiring) closeOurs() {
	if w.input != nil {
		w.input.Close()
	}
	w.output.Close()
	orchestrator.GoSafe("output of a command", nil, func() {
		defer close(w.read)
		if w.pipe == nil {
			w.cut = boundUntil(w.ended, w.log)
			return
		}
		_, _ = io.Copy(&w.tails, w.pipe) // until all writers have closed it, or collect stops it
	})
}

// collect returns the output of a command that has ended. It does not wait for background processes, which may hold
// the output open forever.
func (w *wiring) collect() string {
	close(w.ended)
	if w.pipe == nil {
		<-w.read
		return w.collectLog()
	}
	_ = w.pipe.SetReadDeadline(time.Unix(1, 0)) // pipes support deadlines
	<-w.read
	_ = w.pipe.SetReadDeadline(time.Time{})
	w.drain()
	w.pipe.Close()
	return w.tails.String()
}

// collectLog returns the kept part of a log and cuts the file to it.
func (w *wiring) collectLog() string {
	text, err := readLog(w.log, w.cut)
	if err != nil {
		return "cannot read the output of the command: " + err.Error()
	}
	if _, err := cutLog(w.log, TailSize+int64(len(logCut))+TailSize, TailSize); err != nil {
		slog.Default().Warn("cannot shorten the log of a command", "log", w.log, "error", err)
	}
	return text
}

// drain reads the bytes that are already in the pipe. At most pipeSize bytes of them are the command's own.
func (w *wiring) drain() {
	raw, err := w.pipe.SyscallConn()
	if err != nil {
		return
	}
	buffer := make([]byte, 32<<10)
	for taken := 0; taken < pipeSize; {
		n := 0
		err := raw.Read(func(fd uintptr) bool {
			n, err = unix.Read(int(fd), buffer)
			for errors.Is(err, unix.EINTR) {
				n, err = unix.Read(int(fd), buffer)
			}
			return true
		})
		if err != nil || n <= 0 {
			return // empty, or closed by all writers
		}
		_, _ = w.tails.Write(buffer[:n]) // never fails
		taken += n
	}
}

// pipeSize is the capacity of a pipe.
const pipeSize = 64 << 10
