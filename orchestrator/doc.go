// Package orchestrator is what happens to rows: it opens the database, takes messages, claims and delivers them, retries,
// gives up, cleans up and explains, and writes every step into the trace tables in the transaction of the step itself.
//
// A Router is an open database. Everything it writes goes through one connection per process, whose transactions are
// shared by whoever writes at the same time (writer.go); reading goes through a small pool of others (reader.go).
// ARCHITECTURE.md walks one message through the files.
package orchestrator
