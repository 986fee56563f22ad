// Package process tells whether a process that was noted still runs, though the system gives its number to others.
package process

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"sync"
)

// ID says which process is meant by a number, which the system gives to another one in the end.
type ID struct {
	PID   int    `json:"pid"`
	Born  string `json:"born,omitempty"`  // when it began, as the system says it; "" is not known
	Space string `json:"space,omitempty"` // where its number counts; "" is everywhere
}

// Of returns which process has a number now. It must not have ended.
func Of(pid int) ID {
	_, born := look(pid)
	return ID{PID: pid, Born: born, Space: space()}
}

// Self returns this process.
var Self = sync.OnceValue(func() ID { return Of(os.Getpid()) })

// None returns no process, on this machine.
func None() ID { return ID{Space: space()} }

// Host names the machine, and the container on it, in which a process has its number: elsewhere the same number is
// another process. Two machines may have the same hostname, and the numbers of their first containers are the same
// everywhere.
func (p ID) Host() string {
	host, _ := os.Hostname()
	return strings.TrimSpace(host + " " + p.Space + " " + machine())
}

// machine tells machines apart, by a hash of their ids, which are not to be shown. "": this one has none.
var machine = sync.OnceValue(func() string {
	id, err := os.ReadFile("/etc/machine-id")
	if err != nil || len(id) == 0 {
		return ""
	}
	return fmt.Sprintf("%x", sha256.Sum256(append([]byte("mailroom "), id...)))[:12]
})

// Here reports whether it is a process that we can see, and that runs still.
func (p ID) Here() bool {
	if p.PID <= 0 || p.Space != space() || !exists(p.PID) {
		return false
	}
	ended, born := look(p.PID)
	return !ended && (p.Born == "" || born == "" || born == p.Born)
}

// Alive reports whether a process may run still: one in another container cannot be seen from here.
func (p ID) Alive() bool { return p.Here() || p.PID > 0 && p.Space != space() }

// space names the PID namespace that we live in; "" where the system has none.
func space() string {
	name, _ := os.Readlink("/proc/self/ns/pid")
	return name
}
