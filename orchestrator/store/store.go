// Package store is the boundary between the engine and its database.
package store

// Prepared is called with the text of each statement that a connection prepares, by whatever goroutine does; nil is
// nobody. Tests set it, to hold the statements to other databases.
var Prepared func(text string)
