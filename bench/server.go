package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"mailroom/orchestrator/store/postgres/postgrestest"
)

// pgServer is a PostgreSQL server of one run, with its data in the run's folder. Should the run be killed, it ends by itself within a
// minute, as its folder is removed.
type pgServer struct {
	address string
	stop    func() error
	pid     int // of its first process, which is the parent of the others
}

// startServer starts Debian's server with its own settings, but for the number of connections.
func startServer(ctx context.Context, env Env) (*pgServer, error) {
	if os.Getuid() == 0 { // the server runs as another user, who must come to its data
		for _, folder := range []string{env.Dir, filepath.Dir(env.Dir)} {
			if err := os.Chmod(folder, 0o711); err != nil {
				return nil, err
			}
		}
	}
	if err := os.Setenv("TMPDIR", env.Dir); err != nil {
		return nil, err
	}
	address, stop, err := postgrestest.Run(ctx, 0, "")
	if err != nil {
		return nil, fmt.Errorf("%w\nPostgreSQL's user must be able to enter %s and all above it: -dir names another folder", err, env.Dir)
	}
	s := &pgServer{address: address, stop: stop}
	if s.pid, err = postmaster(address); err != nil {
		return nil, errors.Join(err, stop())
	}
	return s, nil
}

// postmaster is the number of a server's first process.
func postmaster(address string) (int, error) {
	u, err := url.Parse(address)
	if err != nil {
		return 0, err
	}
	text, err := os.ReadFile(filepath.Join(u.Query().Get("host"), "data", "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return strconv.Atoi(first)
}

// onServer runs f with a server that is there for it alone.
func onServer(f func(ctx context.Context, env Env, s *pgServer) (Measures, error)) func(context.Context, Env) (Measures, error) {
	return func(ctx context.Context, env Env) (Measures, error) {
		s, err := startServer(ctx, env)
		if err != nil {
			return nil, err
		}
		m, err := f(ctx, env, s)
		return m, errors.Join(err, s.stop())
	}
}

// pool is n connections that stand already.
func (s *pgServer) pool(ctx context.Context, n int) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(s.address)
	if err != nil {
		return nil, err
	}
	config.MaxConns, config.MinConns = int32(n), int32(n)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	var all []*pgxpool.Conn
	for range n {
		c, err := pool.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	for _, c := range all {
		c.Release()
	}
	return pool, nil
}

// ticks is how many of the units in which /proc counts processor time are a second; Linux has told all programs so for ever.
const ticks = 100

// cpu is what all processes of the server have used of the processors so far, also those that have ended.
func (s *pgServer) cpu() (time.Duration, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(files) == 0 {
		return 0, errors.Join(err, errors.New("without /proc the processor time of a server is not known"))
	}
	var sum int64
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended, and counts with its parent
		}
		// The name of the program stands in brackets, and may hold anything.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) < 15 {
			continue
		}
		number := func(i int) int64 { n, _ := strconv.ParseInt(fields[i], 10, 64); return n }
		switch {
		case filepath.Base(filepath.Dir(file)) == strconv.Itoa(s.pid):
			sum += number(11) + number(12) + number(13) + number(14)
		case number(1) == int64(s.pid):
			sum += number(11) + number(12)
		}
	}
	return time.Duration(sum) * time.Second / ticks, nil
}

// spent adds to the measures what the server spends on each of a number of operations, which f does and counts.
func (s *pgServer) spent(f func() (Measures, int, error)) (Measures, error) {
	before, err := s.cpu()
	if err != nil {
		return nil, err
	}
	m, n, err := f()
	if err != nil {
		return nil, err
	}
	after, err := s.cpu()
	if err != nil || n == 0 {
		return nil, errors.Join(err, expect(nil, n, 1))
	}
	m["server_cpu_us"] = inMicroseconds(after-before) / float64(n)
	return m, nil
}

// sends lets n senders send as measureSends does, after one message of each of them: then everything is open and prepared.
func (s *pgServer) sends(ctx context.Context, env Env, n int, send func(sender int) error) (Measures, error) {
	errs := make([]error, n)
	var first sync.WaitGroup
	for i := range n {
		first.Go(func() { errs[i] = send(i) })
	}
	first.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return s.spent(func() (Measures, int, error) {
		began := time.Now()
		m, err := measureSends(ctx, env, n, send)
		return m, int(m["rate_per_s"] * time.Since(began).Seconds()), err
	})
}
