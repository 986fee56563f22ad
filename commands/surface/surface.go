// Package surface holds the code that all ways into the program share. Each of them has its own package: cli is the
// command line, mcp serves tools to agents, web is the HTTP API, phone is the app for phones, and daemon runs
// `mailroom serve` with its schedules. All of them are derived from the catalogue; none refers to a command by name.
package surface
