package powerloss

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// traced lists the calls that strace records: all calls that can change a file or a folder, make a change durable, or
// write output for others, and those that show which processes share descriptors.
const traced = "open,openat,openat2,creat,close,dup,dup2,dup3,mmap,msync," +
	"write,writev,pwrite64,pwritev,pwritev2,sendfile,splice,copy_file_range,io_uring_setup,io_submit," +
	"truncate,ftruncate,fallocate,fsync,fdatasync,sync,syncfs,sync_file_range," +
	"rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,mkdir,mkdirat,rmdir," +
	"clone,clone3,fork,vfork,execve"

// syncDelay is the minimum duration of every sync. It allows other processes to write and answer during a sync on any
// disk.
const syncDelay = "1000us"

// Recording holds the system calls of a load on its files, in one order.
type Recording struct {
	Load  Load
	steps []step
}

// Record runs a load under strace and parses the log. It keeps the log and the load in a folder. driver is a command
// that reads a Load from its standard input and calls Drive.
func Record(ctx context.Context, l Load, folder string, driver ...string) (*Recording, error) {
	if err := os.MkdirAll(l.Root, 0o700); err != nil {
		return nil, err
	}
	args := []string{
		"-f", "--seccomp-bpf", "-qq", "-y", "-s", strconv.Itoa(longest), "-e", "signal=none",
		"-e", "trace=" + traced, "-e", "inject=fsync,fdatasync:delay_enter=" + syncDelay, "-o",
		filepath.Join(folder, logName),
	}
	cmd := exec.CommandContext(ctx, "strace", append(args, driver...)...)
	text, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	cmd.Stdin = bytes.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("the load: %w\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(folder, loadName), text, 0o600); err != nil {
		return nil, err
	}
	return Read(folder)
}

// Names in the folder of a recording, and the largest write in a log.
const (
	logName  = "strace.log"
	loadName = "load.json"
	longest  = 16 << 20
)

// Read reads a recording from a folder in which Record stored it.
func Read(folder string) (*Recording, error) {
	text, err := os.ReadFile(filepath.Join(folder, loadName))
	if err != nil {
		return nil, err
	}
	rec := &Recording{}
	if err := json.Unmarshal(text, &rec.Load); err != nil {
		return nil, err
	}
	if text, err = os.ReadFile(filepath.Join(folder, logName)); err != nil {
		return nil, err
	}
	rec.steps, err = parseLog(text)
	return rec, err
}
