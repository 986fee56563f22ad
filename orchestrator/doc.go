// Package orchestrator holds the words of the engine: messages and drafts, names, errors and their codes, times and
// durations, and what a transport is. The packages below its folder do the work; ARCHITECTURE.md shows their floors,
// and walks one message through the files.
package orchestrator
