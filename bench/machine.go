package main

import (
	"cmp"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"
	"golang.org/x/sys/unix"
)

// machine describes the machine of the measurements.
type machine struct {
	Processor        string  `json:"processor"`
	Processors       int     `json:"processors"`
	Memory           string  `json:"memory"`
	System           string  `json:"system"`
	FileSystem       string  `json:"file_system"`
	SyncMicroseconds float64 `json:"sync_us"`      // median of an fdatasync after writing 32 KiB
	Load             float64 `json:"load_average"` // of the last minute before the case began
}

// load returns the load average of the last minute, or 0 without /proc.
func load() (load float64) {
	text, _ := os.ReadFile("/proc/loadavg")
	fmt.Sscan(string(text), &load)
	return load
}

// thisMachine describes the machine and the disk that contains a folder.
func thisMachine(disk string) (machine, error) {
	m := machine{
		Processor: field("/proc/cpuinfo", "model name"), Processors: runtime.NumCPU(),
		Memory: field("/proc/meminfo", "MemTotal"), System: runtime.GOOS + "/" + runtime.GOARCH,
	}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		m.System += " " + unix.ByteSliceToString(name.Release[:])
	}
	m.FileSystem = fileSystem(disk)
	sync, err := syncTime(disk)
	m.SyncMicroseconds = microseconds(sync)
	return m, err
}

// field returns the value of the first line "key : value" of a kernel file, or "unknown" if there is none.
func field(file, key string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// fileSystem returns the type of the file system that contains a folder, according to /proc/mounts.
func fileSystem(folder string) string {
	text, err := os.ReadFile("/proc/mounts")
	if err != nil {
		return "unknown file system"
	}
	best, kind := "", "unknown file system"
	for line := range strings.Lines(string(text)) {
		parts := strings.Fields(line)
		if len(parts) < 3 || len(parts[1]) < len(best) {
			continue
		}
		if rel, err := filepath.Rel(parts[1], folder); err == nil && filepath.IsLocal(rel) {
			best, kind = parts[1], parts[2]
		}
	}
	return kind
}

// syncTime returns the median time of an fdatasync after writing 32 KiB into a file that does not grow.
func syncTime(folder string) (d time.Duration, err error) {
	file, err := os.CreateTemp(folder, "sync")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	block := make([]byte, 32<<10)
	var times []time.Duration
	for i := range 101 {
		if _, err := file.WriteAt(block, 0); err != nil {
			return 0, err
		}
		began := time.Now()
		if err := unix.Fdatasync(int(file.Fd())); err != nil {
			return 0, err
		}
		if i > 0 {
			times = append(times, time.Since(began))
		}
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

// measured lists the modules whose versions are in the report.
var measured = []string{
	"github.com/mattn/go-sqlite3", "github.com/nats-io/nats-server/v2", "github.com/nats-io/nats.go",
	"github.com/riverqueue/river", "github.com/riverqueue/river/riverdriver/riversqlite",
	"github.com/riverqueue/river/riverdriver/riverpgxv5", "github.com/jackc/pgx/v5",
	"github.com/mikestefanello/backlite", "modernc.org/sqlite",
}

// versions returns the versions of the compared programs, and the commit of the measured program. A missing sqlite3
// command is not an error, because only one case needs the command.
func versions(ctx context.Context, mailroom string) (map[string]string, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil, errors.New("this program does not know what it was built from")
	}
	all := map[string]string{"Go": runtime.Version(), "Mailroom": commitOf(mailroom)}
	for _, module := range info.Deps {
		if slices.Contains(measured, module.Path) {
			all[module.Path] = module.Version
		}
	}
	all["SQLite (mailroom, bare loop, plain queue, greedy)"], _, _ = sqlite3.Version()
	if out, err := exec.CommandContext(ctx, "sqlite3", "-version").Output(); err == nil {
		all["sqlite3 command"], _, _ = strings.Cut(string(out), " ")
	}
	return all, nil
}

// commitOf returns the commit from which a program was built.
func commitOf(program string) string {
	settings := map[string]string{}
	if built, err := buildinfo.ReadFile(program); err == nil {
		for _, s := range built.Settings {
			settings[s.Key] = s.Value
		}
	}
	commit := settings["vcs.revision"]
	commit = cmp.Or(commit[:min(12, len(commit))], "unknown commit")
	if settings["vcs.modified"] == "true" {
		commit += ", changed"
	}
	return commit
}
