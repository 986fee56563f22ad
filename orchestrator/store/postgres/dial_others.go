//go:build !linux

package postgres

import "syscall"

// boundSilence does nothing. Only keepalives detect the loss of a host.
func boundSilence(string, string, syscall.RawConn) error { return nil }
