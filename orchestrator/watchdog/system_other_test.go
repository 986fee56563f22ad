//go:build !linux

package watchdog_test

import "testing"

// noZombies checks nothing on this system.
func noZombies(*testing.T) {}
