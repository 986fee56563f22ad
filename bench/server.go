package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"mailroom/orchestrator/store/postgres/postgrestest"
)

// pgServer is the PostgreSQL server of one run, with its data in the run's folder. If the run is killed, the server
// ends within a minute, because its folder is removed.
type pgServer struct {
	address string
	pid     string // of its first process, the parent of the others
}

// startServer starts Debian's server with its default settings, except for the number of connections.
func (r *Run) startServer() {
	if os.Getuid() == 0 { // the server runs as another user, who needs access to its data
		check(os.Chmod(r.Dir, 0o711))
		check(os.Chmod(filepath.Dir(r.Dir), 0o711))
	}
	check(os.Setenv("TMPDIR", r.Dir))
	address, stop, err := postgrestest.Run(r.ctx, 0, "")
	if err != nil {
		check(fmt.Errorf("%w\nPostgreSQL's user must be able to enter %s and all above it: -dir names another folder",
			err, r.Dir))
	}
	r.after(stop)
	folder := must(url.Parse(address)).Query().Get("host")
	pid, _, _ := strings.Cut(string(must(os.ReadFile(filepath.Join(folder, "data", "postmaster.pid")))), "\n")
	r.server = &pgServer{address: address, pid: pid}
}

// onServer returns a contestant that has a server of its own.
func onServer(run func(*Run) Measures) func(*Run) Measures {
	return func(r *Run) Measures {
		r.startServer()
		return run(r)
	}
}

// pool returns a pool of n connections that are already open.
func (r *Run) pool(n int) *pgxpool.Pool {
	config := must(pgxpool.ParseConfig(r.server.address))
	config.MaxConns, config.MinConns = int32(n), int32(n)
	pool := must(pgxpool.NewWithConfig(r.ctx, config))
	r.after(func() error { pool.Close(); return nil })
	for range n {
		defer must(pool.Acquire(r.ctx)).Release()
	}
	return pool
}

// ticks is the number of units of processor time in /proc per second. It is 100 for programs on every Linux.
const ticks = 100

// cpu returns the processor time that all processes of the server have used so far, including ended processes.
func (s *pgServer) cpu() time.Duration {
	files := must(filepath.Glob("/proc/[0-9]*/stat"))
	if len(files) == 0 {
		check(errors.New("without /proc the processor time of a server is not known"))
	}
	var sum int64
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended, and its parent's times include its time
		}
		// The name of the program is in parentheses, and may contain any character.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) < 15 {
			continue
		}
		number := func(i int) int64 { n, _ := strconv.ParseInt(fields[i], 10, 64); return n }
		switch {
		case filepath.Base(filepath.Dir(file)) == s.pid:
			sum += number(11) + number(12) + number(13) + number(14)
		case fields[1] == s.pid:
			sum += number(11) + number(12)
		}
	}
	return time.Duration(sum) * time.Second / ticks
}
