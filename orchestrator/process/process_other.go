//go:build !linux && !darwin && unix

package process

// lineage returns nothing: this system does not report the parent of a process.
func lineage(int) (parent int, words []string) { return 0, nil }

// Words returns nil: this system does not report command lines.
func Words(int) []string { return nil }

// look returns nothing: this system does not report when a process began.
func look(int) (ended bool, born string) { return false, "" }
