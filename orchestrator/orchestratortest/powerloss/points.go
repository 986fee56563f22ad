package powerloss

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// trial is one power failure: the number of steps before it, and the seed that decides which unsynced data survives.
type trial struct {
	after int
	seed  uint64
}

// choose chooses n moments for power failures. Each kind of critical moment gets a share: just before and after
// syncs, answers, changes of names and sizes, writes to the database file (a checkpoint), to the header of the WAL (a
// restart) and to jsonl files. The other moments are spread over the whole recording.
func (rec *Recording) choose(r *rand.Rand, n int) []trial {
	var sorts [7][]int
	for i, s := range rec.steps {
		if sort := sortOf(s, rec.Load.Root); sort >= 0 {
			sorts[sort] = append(sorts[sort], i, i+1)
		}
	}
	all := make([]int, len(rec.steps))
	for i := range all {
		all[i] = i + 1
	}
	var trials []trial
	add := func(from []int, n int) {
		for _, i := range r.Perm(len(from))[:min(n, len(from))] {
			trials = append(trials, trial{from[i], r.Uint64()})
		}
	}
	for _, from := range sorts {
		add(from, n/(len(sorts)+1))
	}
	for len(trials) < n && len(all) > 0 {
		add(all, n-len(trials))
	}
	slices.SortFunc(trials, func(a, b trial) int { return a.after - b.after })
	return trials
}

// sortOf returns the kind of critical moment of a step, or -1 if the step is not critical.
func sortOf(s step, root string) int {
	if len(s.args) == 0 {
		return -1
	}
	fd, name, _ := descriptor(s.args[0])
	inside := strings.HasPrefix(name, root) && !fleeting(name)
	switch s.name {
	case "fsync", "fdatasync":
		if inside && strings.HasSuffix(name, "-wal") {
			return 0
		} else if inside {
			return 1
		}
	case "write", "pwrite64":
		switch {
		case !inside && fd == 1:
			return 2
		case !inside:
			return -1
		case strings.HasSuffix(name, ".db"):
			return 3
		case strings.HasSuffix(name, "-wal") && atStart(s):
			return 4
		case strings.HasSuffix(name, ".jsonl"):
			return 5
		}
	case "ftruncate", "unlink", "unlinkat", "rename", "renameat", "renameat2", "mkdirat":
		if strings.Contains(strings.Join(s.args, ","), root) && !strings.Contains(strings.Join(s.args, ","), "-shm") {
			return 6
		}
	}
	return -1
}

func atStart(s step) bool {
	at, err := strconv.Atoi(s.args[len(s.args)-1])
	return s.name == "pwrite64" && err == nil && at == 0
}
