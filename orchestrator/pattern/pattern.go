// Package pattern makes regular expressions that cost nothing until they are used: a program that is started for every
// command would otherwise compile all of them each time.
package pattern

import (
	"regexp"
	"sync"
)

// New returns a function that returns the regular expression, which its first call compiles. It may be called by
// several goroutines at once, and panics if the expression is none, as regexp.MustCompile does.
func New(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
