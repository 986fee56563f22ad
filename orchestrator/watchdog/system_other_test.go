//go:build !linux

package watchdog_test

import "testing"

// noZombies does nothing: this system offers no way to check.
func noZombies(*testing.T) {}
