//go:build !linux && !darwin && unix

package process

// lineage tells nothing either.
func lineage(int) (parent int, words []string) { return 0, nil }

// Words tells nothing.
func Words(int) []string { return nil }

// look tells nothing: this system does not say which process has a number.
func look(int) (ended bool, born string) { return false, "" }
