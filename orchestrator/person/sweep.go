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
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/questions"
)

// orphanAfter is how old a file without a question must be before it is removed. Ask writes the file before the
// question.
const orphanAfter = 10 * time.Minute

// sweepAll removes files that are no longer needed: the keys of questions that ended without an answer or were never
// stored; the keys of answers that were read 10 minutes ago and, if a message asked, returned; and the pins of
// revoked devices. It also seals alerts that no device can read for the devices that exist now, because an approval
// may have been interrupted. Daemons call sweepAll; Ask does only the first part.
func sweepAll(ctx context.Context, l *ledger.Ledger) error {
	if Here(ctx, l) != nil {
		return nil // the other host does it
	}
	k, err := openKeys(l, false)
	if err != nil {
		return err
	}
	defer k.close()
	return errors.Join(sweep(ctx, l, k), unpinRevoked(ctx, l, k), resealKept(ctx, l, k))
}

// unpinRevoked removes the pins of devices that were revoked, because the table alone would not keep them out.
func unpinRevoked(ctx context.Context, l *ledger.Ledger, k *keys) error {
	names, err := k.names(devicesFolder)
	if err != nil || len(names) == 0 {
		return err
	}
	devices, err := questions.Devices(ctx, l)
	for i := range devices {
		if devices[i].State == questions.DeviceRevoked && slices.Contains(names, devices[i].ID) {
			err = errors.Join(err, k.remove(devicesFolder, devices[i].ID))
		}
	}
	return err
}

// sweepEvery is how often a daemon sweeps.
const sweepEvery = time.Minute

// Start sweeps in the background until ctx ends or stop is called. stop returns when the sweeping has ended. A
// failure to remove files is logged once, until the error changes.
func Start(ctx context.Context, l *ledger.Ledger, log *slog.Logger) (stop func()) {
	return orchestrator.Background(ctx, "keys", log, func(ctx context.Context) {
		var trouble orchestrator.Trouble
		for {
			if err := sweepAll(ctx, l); ctx.Err() == nil && trouble.Changed(err) && err != nil {
				log.Warn("cannot remove old files from the key folder, or cannot encrypt stored alerts for the devices", "error", err)
			}
			select {
			case <-time.After(sweepEvery):
			case <-ctx.Done():
				return
			}
		}
	})
}

// sweep removes the files of questions that are no longer needed.
func sweep(ctx context.Context, l *ledger.Ledger, k *keys) error {
	names, err := k.names(repliesFolder)
	if err != nil {
		return err
	}
	failures := []error{sweepOld(ctx, l, k, clearFolder), sweepOld(ctx, l, k, vouchedFolder)}
	for _, name := range names {
		done, err := false, error(nil)
		switch {
		case plainID(name):
			done, err = k.done(ctx, l, name)
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

// sweepOld removes from a folder the files of questions whose rows are gone. There may be many files, and rows are
// deleted oldest first, so sweepOld stops at the first question that still exists.
func sweepOld(ctx context.Context, l *ledger.Ledger, k *keys, folder string) error {
	names, err := k.names(folder)
	slices.Sort(names) // IDs sort by time
	for _, name := range names {
		if !plainID(name) {
			continue
		}
		_, err := questions.Get(ctx, l, name)
		if orchestrator.CodeOf(err) != orchestrator.NotFound {
			return err
		}
		if !isOrphan(name, l.Now()) {
			return nil
		}
		if err := k.remove(folder, name); err != nil {
			return err
		}
	}
	return err
}

// done reports whether the key of a question is no longer needed.
func (k *keys) done(ctx context.Context, l *ledger.Ledger, id string) (bool, error) {
	q, err := questions.Get(ctx, l, id)
	if orchestrator.CodeOf(err) == orchestrator.NotFound {
		return isOrphan(id, l.Now()), nil
	}
	return err == nil && over(&q, l.Now()), err
}

// isOrphan reports whether a question that is not in the table is old enough that it will never be added.
func isOrphan(id string, now time.Time) bool {
	made, err := ulid.ParseStrict(id[2:])
	return err != nil || now.Sub(ulid.Time(made.Time())) >= orphanAfter
}

// over reports whether the key of a question is no longer needed.
func over(q *questions.Question, now time.Time) bool {
	if q.Status != questions.Answered {
		return q.Status != questions.Pending
	}
	had := max(q.ReadAt, q.ReturnedAt) // stamps sort by time
	if had == "" || q.MessageID != "" && q.ReturnedAt == "" {
		return false
	}
	return now.Sub(orchestrator.ParseStamp(had)) >= keepAfterReading
}

// tidy removes the key of a question if it is no longer needed. If that fails, the next sweep reports it.
func (k *keys) tidy(l *ledger.Ledger, q *questions.Question) {
	if over(q, l.Now()) {
		_ = k.remove(repliesFolder, q.ID)
	}
}

// abandoned reports whether an unfinished file is so old that its writer must be gone.
func (k *keys) abandoned(name string) (bool, error) {
	info, err := k.root.Lstat(filepath.Join(repliesFolder, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && time.Since(info.ModTime()) >= orphanAfter, err
}
