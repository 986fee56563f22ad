//go:build cgo

package main

// All that SQLite allocates comes from one arena of the GNU C library. With an arena for each thread, what one
// connection of a daemon gave back is of no use to the next, which costs 3 MB at 1,000 agents. The library takes the
// number in when the first thread asks, before any Go runs.

/*
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
__attribute__((constructor)) static void one_arena(void) { mallopt(M_ARENA_MAX, 1); }
#endif
*/
import "C"
