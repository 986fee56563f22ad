//go:build !linux

package cli

import "io"

// dropTypeahead does nothing on this system: input typed before a question answers the question.
func dropTypeahead(io.Reader) {}
