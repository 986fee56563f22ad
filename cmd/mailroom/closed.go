package main

// Where standard output is closed, Go's runtime opens /dev/null in its place, as some programs do who want no output. So that the
// two can be told apart, it is looked at before any Go runs.

/*
#include <fcntl.h>
static int closed;
__attribute__((constructor)) static void look(void) { closed = fcntl(1, F_GETFD) == -1; }
static int output_was_closed(void) { return closed; }
*/
import "C"

// outputWasClosed reports whether standard output was closed when the program was started.
func outputWasClosed() bool { return C.output_was_closed() != 0 }
