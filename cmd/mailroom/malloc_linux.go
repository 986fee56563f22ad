//go:build cgo

package main

// The memory settings of SQLite, which are made before any Go code runs.
//
// All allocations come from one arena of the GNU C library. With an arena for each thread, memory that one connection
// of a daemon freed could not be used by the next, which costs 3 MB at 1,000 agents.
//
// SQLite does not track the total of its allocations. That took a lock for each allocation, which is 7 % of the
// instructions of a send, and nothing uses the total. sqlite3_config is declared weak, because only the linked
// program defines it.

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
