package watchdog_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// noZombies fails if a child of this process has ended and nobody has waited for it. Other tests may be about to
// wait for theirs.
func noZombies(t *testing.T) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	var zombies []string
	for range 2000 {
		if zombies = children("Z"); len(zombies) == 0 {
			return
		}
		<-tick.C
	}
	t.Errorf("zombies: %q", zombies)
}

// children returns the children of this process in a state.
func children(state string) (found []string) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(text)[strings.LastIndexByte(string(text), ')')+1:])
		if len(fields) > 1 && fields[0] == state && fields[1] == fmt.Sprint(os.Getpid()) {
			found = append(found, string(text))
		}
	}
	return found
}
