//go:build !linux

package check

// lockers is known on Linux only.
func lockers(string) []int { return nil }

// processName is known on Linux only.
func processName(int) string { return "" }
