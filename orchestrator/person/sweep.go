package person

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"mailroom/orchestrator"
	"mailroom/tracing"
)

// orphanAfter is how old a file must be that belongs to no question: Ask writes it before the question.
const orphanAfter = 10 * time.Minute

// Sweep removes what is not needed any more: the keys of answers that were read 10 minutes ago, of questions that ended
// without one, and of questions that were never stored; and the pins of devices that are revoked. Ask and Read do the first,
// too.
func Sweep(ctx context.Context, r *orchestrator.Router) error {
	k, err := openKeys(r, false)
	if err != nil {
		return err
	}
	defer k.close()
	return errors.Join(sweep(ctx, r, k), unpinRevoked(ctx, r, k))
}

// unpinRevoked forgets devices that have left by themselves: the table alone would not keep them out.
func unpinRevoked(ctx context.Context, r *orchestrator.Router, k *keys) error {
	names, err := k.names(devicesFolder)
	if err != nil || len(names) == 0 {
		return err
	}
	devices, err := r.Devices(ctx)
	for i := range devices {
		if devices[i].State == orchestrator.DeviceRevoked && slices.Contains(names, devices[i].ID) {
			err = errors.Join(err, k.remove(devicesFolder, devices[i].ID))
		}
	}
	return err
}

// sweepEvery is how often a daemon sweeps.
const sweepEvery = time.Minute

// Start sweeps in the background, until ctx ends or stop is called, which returns when it has ended. What it cannot remove is
// logged once, until that changes.
func Start(ctx context.Context, r *orchestrator.Router, log *slog.Logger) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	orchestrator.GoSafe("keys", log, func() {
		defer close(done)
		ticker := time.NewTicker(sweepEvery)
		defer ticker.Stop()
		for said := ""; ; {
			said = sweepAndSay(ctx, r, log, said)
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		<-done
	}
}

// sweepAndSay returns what it could not do, which it logs when it was not that before.
func sweepAndSay(ctx context.Context, r *orchestrator.Router, log *slog.Logger, said string) string {
	err := Sweep(ctx, r)
	if err == nil || ctx.Err() != nil {
		return ""
	}
	if err.Error() != said {
		log.Warn("keys of questions that have ended could not be removed", "error", err)
	}
	return err.Error()
}

func sweep(ctx context.Context, r *orchestrator.Router, k *keys) error {
	names, err := k.names(repliesFolder)
	if err != nil {
		return err
	}
	var failures []error
	for _, name := range names {
		done, err := false, error(nil)
		switch {
		case plainID.MatchString(name):
			done, err = k.over(ctx, r, name)
		case strings.HasPrefix(name, draftPrefix):
			done, err = k.abandoned(name)
		}
		if err == nil && done {
			err = k.removeFile(filepath.Join(repliesFolder, name))
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// over reports whether the key of a question is not needed any more. One that was not encrypted has no key, and what is
// kept of it goes with its row.
func (k *keys) over(ctx context.Context, r *orchestrator.Router, id string) (bool, error) {
	q, err := r.Question(ctx, id)
	if orchestrator.CodeOf(err) == orchestrator.NotFound {
		made, perr := ulid.ParseStrict(id[2:])
		return perr != nil || r.Now().Sub(ulid.Time(made.Time())) >= orphanAfter, nil
	}
	if err != nil || q.Status == orchestrator.QuestionPending {
		return false, err
	}
	if q.Status != orchestrator.QuestionAnswered {
		return true, nil
	}
	if at, err := time.Parse(tracing.Layout, q.ReadAt); q.ReadAt == "" || err == nil && r.Now().Sub(at) < keepAfterReading {
		return false, nil
	}
	var secret reply
	err = k.read(repliesFolder, id, &secret)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // somebody else was faster
	}
	return secret.Identity != "", err
}

// abandoned reports whether a file that was being written is so old that its writer must be gone.
func (k *keys) abandoned(name string) (bool, error) {
	info, err := k.root.Lstat(filepath.Join(repliesFolder, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && time.Since(info.ModTime()) >= orphanAfter, err
}
