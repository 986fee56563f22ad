//go:build cgo

package main

// How SQLite gets its memory, which is set before any Go runs.
//
// All that it allocates comes from one arena of the GNU C library. With an arena for each thread, what one connection of a
// daemon gave back is of no use to the next, which costs 3 MB at 1,000 agents.
//
// It does not add up how much it has allocated. That took a lock for each allocation, 7 % of the instructions of a send, and
// nobody asks for the sum. sqlite3_config is declared weak, since only the link of the whole program has it.

/*
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#define SQLITE_CONFIG_MEMSTATUS 9
__attribute__((weak)) int sqlite3_config(int, ...);

__attribute__((constructor)) static void configure(void) {
#ifdef __GLIBC__
	mallopt(M_ARENA_MAX, 1);
#endif
	if (sqlite3_config) sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}
*/
import "C"
