// Package surface is what the ways by which a request comes in have in common. Each way has a package of its own: cli
// is the command line, mcp serves tools to agents, web is the HTTP API, phone the app for phones, and daemon is what
// `mailroom serve` runs, with its schedules. All of it is derived from the catalogue; no surface knows a command by
// name.
package surface
