//go:build !linux

package postgres

import "syscall"

// boundSilence does nothing: only keepalives notice that a host has vanished.
func boundSilence(string, string, syscall.RawConn) error { return nil }
