//go:build !linux && !darwin

package process

// look tells nothing: this system does not say which process has a number.
func look(int) (ended bool, born string) { return false, "" }
