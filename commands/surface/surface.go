// Package surface holds the code that all ways into the program share. Each of them has its own package: cli is the
// command line, mcp serves tools to agents, web is the HTTP API, phone is the app for phones, and daemon runs
// `mailroom serve` with its schedules. The commands that they offer come from the catalogue.
package surface
