//go:build !linux

package cli

import "io"

// dropTypeahead does nothing here: what was typed before a question answers it.
func dropTypeahead(io.Reader) {}
