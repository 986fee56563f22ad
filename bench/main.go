package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case len(os.Args) > 1 && os.Args[1] == "role":
		err = runRole(ctx, os.Args[2:])
	case len(os.Args) == 5:
		err = try(ctx, os.Args[1], os.Args[2], os.Args[3], os.Args[4])
	default:
		err = errors.New("usage: bench MAILROOM SCALE CASE CONTESTANT")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// try runs one contestant of one case once.
func try(ctx context.Context, mailroom, scale, name, contestant string) error {
	size, err := strconv.ParseFloat(scale, 64)
	if err != nil {
		return err
	}
	base, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(base)
	for _, c := range cases {
		for _, one := range c.Contestants {
			if c.Name != name || one.Name != contestant {
				continue
			}
			dir := filepath.Join(base, "run")
			if err := os.Mkdir(dir, 0o700); err != nil {
				return err
			}
			m, err := one.Run(ctx, Env{Dir: dir, Mailroom: mailroom, Scale: size})
			fmt.Println(name, contestant, m)
			return err
		}
	}
	return fmt.Errorf("there is no contestant %s in %s", contestant, name)
}
