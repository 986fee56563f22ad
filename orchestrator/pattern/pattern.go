// Package pattern makes regular expressions that are compiled on first use. A program that is started for every
// command would otherwise compile all of them each time.
package pattern

import (
	"regexp"
	"sync"
)

// New returns a function that returns the regular expression. Its first call compiles the expression, and panics if
// the expression is invalid, as regexp.MustCompile does. The function may be called by several goroutines at once.
func New(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
