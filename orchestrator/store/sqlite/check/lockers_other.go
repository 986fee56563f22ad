//go:build !linux

package check

// lockers returns nil. Only Linux provides the processes.
func lockers(string) []int { return nil }

// processName returns "". Only Linux provides the name.
func processName(int) string { return "" }
