// Package orchestrator defines the basic types of the engine: messages and drafts, names, errors and their codes,
// times and durations, and the Transport interface. The packages below its folder do the work. ARCHITECTURE.md
// shows their layers and follows one message through the files.
package orchestrator
