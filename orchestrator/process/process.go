// Package process finds out whether a recorded process still runs, although the system reuses process IDs.
package process

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"sync"
)

// ID identifies a process even after the system has reused its process ID.
type ID struct {
	PID   int    `json:"pid"`
	Born  string `json:"born,omitempty"`  // when it began, in the system's format; "" is unknown
	Space string `json:"space,omitempty"` // PID namespace of PID; "" is everywhere
}

// Of returns the ID of the process that has this process ID now. The process must not have ended.
func Of(pid int) ID {
	_, born := look(pid)
	return ID{PID: pid, Born: born, Space: space()}
}

// Self returns the ID of this process.
var Self = sync.OnceValue(func() ID { return Of(os.Getpid()) })

// None returns the ID of no process, on this machine.
func None() ID { return ID{Space: space()} }

// Host returns a name for the machine, and the container on it, in which p's process ID is valid; elsewhere the
// same process ID belongs to another process. The name includes more than the hostname and the namespace, because
// two machines may have the same hostname, and the namespaces of their first containers have the same numbers
// everywhere.
func (p ID) Host() string {
	host, _ := os.Hostname()
	return strings.TrimSpace(host + " " + p.Space + " " + machine())
}

// machine returns a hash that distinguishes machines, or "" if this one has no machine ID. The ID itself is not to
// be shown.
var machine = sync.OnceValue(func() string {
	id, err := os.ReadFile("/etc/machine-id")
	if err != nil || len(id) == 0 {
		return ""
	}
	return fmt.Sprintf("%x", sha256.Sum256(append([]byte("mailroom "), id...)))[:12]
})

// Here reports whether the process is visible from here and still running.
func (p ID) Here() bool {
	if p.PID <= 0 || p.Space != space() || !exists(p.PID) {
		return false
	}
	ended, born := look(p.PID)
	return !ended && (p.Born == "" || born == "" || born == p.Born)
}

// Alive reports whether the process may still be running. A process in another container is not visible from here
// and counts as alive.
func (p ID) Alive() bool { return p.Here() || p.PID > 0 && p.Space != space() }

// space returns the name of this process's PID namespace, or "" if the system has none.
func space() string {
	name, _ := os.Readlink("/proc/self/ns/pid")
	return name
}
