// Package pattern defines regular expressions that are compiled on first use. Otherwise a program that is started
// for every command would compile all of them each time.
package pattern

import (
	"regexp"
	"sync"
)

// New returns a function that returns the regular expression and compiles it on the first call. The function may be
// called concurrently. It panics if the expression is invalid, like regexp.MustCompile.
func New(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
