//go:build !linux && !darwin && unix

package process

// lineage returns nothing on this system.
func lineage(int) (parent int, words []string) { return 0, nil }

// Words returns nothing on this system.
func Words(int) []string { return nil }

// look returns nothing: this system does not identify processes.
func look(int) (ended bool, born string) { return false, "" }
