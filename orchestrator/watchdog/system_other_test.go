//go:build !linux

package watchdog_test

import "testing"

// noZombies cannot tell here.
func noZombies(*testing.T) {}
