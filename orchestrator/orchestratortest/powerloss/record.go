package powerloss

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// traced are the calls that the recorder asks strace for: all that can change a file or a folder, make that durable,
// or say something to others, and those that tell whose descriptors are whose.
const traced = "open,openat,openat2,creat,close,dup,dup2,dup3,mmap,msync," +
	"write,writev,pwrite64,pwritev,pwritev2,sendfile,splice,copy_file_range,io_uring_setup,io_submit," +
	"truncate,ftruncate,fallocate,fsync,fdatasync,sync,syncfs,sync_file_range," +
	"rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,mkdir,mkdirat,rmdir," +
	"clone,clone3,fork,vfork,execve"

// Recording is what a load did to its files, in one order.
type Recording struct {
	Load  Load
	Log   string // path of what strace wrote
	steps []step
}

// Record runs a load under strace and reads the log. driver is a command that reads a Load from its standard input and
// calls Drive.
func Record(ctx context.Context, l Load, log string, driver ...string) (*Recording, error) {
	args := append([]string{"-f", "--seccomp-bpf", "-qq", "-y", "-s", "16777216", "-e", "trace=" + traced, "-e", "signal=none", "-o", log}, driver...)
	cmd := exec.CommandContext(ctx, "strace", args...)
	text, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	cmd.Stdin = bytes.NewReader(text)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("the load: %w\n%s", err, out.String())
	}
	return Read(l, log)
}

// Read reads a log that Record made.
func Read(l Load, log string) (*Recording, error) {
	text, err := os.ReadFile(log)
	if err != nil {
		return nil, err
	}
	moments, err := parseLog(text)
	if err != nil {
		return nil, err
	}
	return &Recording{Load: l, Log: log, steps: stepsOf(moments)}, nil
}
