// Package process checks whether a recorded process is still running, although the system may have given its number
// to another process.
package process

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"sync"
)

// ID identifies a process. The number alone is not enough, because the system reuses numbers.
type ID struct {
	PID   int    `json:"pid"`
	Born  string `json:"born,omitempty"`  // when the process began, in the system's form; "" if unknown
	Space string `json:"space,omitempty"` // the PID namespace of the number; "" where there are none
}

// Of returns the ID of the process that currently has a number. The process must not have ended.
func Of(pid int) ID {
	_, born := look(pid)
	return ID{PID: pid, Born: born, Space: space()}
}

// Self returns the ID of this process.
var Self = sync.OnceValue(func() ID { return Of(os.Getpid()) })

// None returns an ID of no process, on this machine.
func None() ID { return ID{Space: space()} }

// Host returns the name of the machine, and of the container on it, in which the process number is valid. Elsewhere
// the same number belongs to another process. The name includes more than the hostname and the namespace, because two
// machines may have the same hostname, and the first containers of all machines have the same namespace numbers.
func (p ID) Host() string {
	host, _ := os.Hostname()
	return strings.TrimSpace(host + " " + p.Space + " " + machine())
}

// machine returns a hash of this machine's id, which must not be shown itself. It returns "" if the machine has no
// id.
var machine = sync.OnceValue(func() string {
	id, err := os.ReadFile("/etc/machine-id")
	if err != nil || len(id) == 0 {
		return ""
	}
	return fmt.Sprintf("%x", sha256.Sum256(append([]byte("mailroom "), id...)))[:12]
})

// Here reports whether the process is visible from this one and still running.
func (p ID) Here() bool {
	if p.PID <= 0 || p.Space != space() || !exists(p.PID) {
		return false
	}
	ended, born := look(p.PID)
	return !ended && (p.Born == "" || born == "" || born == p.Born)
}

// Alive reports whether the process may still be running. A process in another container is not visible from here, so
// it may.
func (p ID) Alive() bool { return p.Here() || p.PID > 0 && p.Space != space() }

// space returns the PID namespace of this process, or "" if the system has none.
func space() string {
	name, _ := os.Readlink("/proc/self/ns/pid")
	return name
}
