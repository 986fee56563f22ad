//go:build !linux && unix

package web

// peerClosed is 0: on these systems, only a connection that is closed in both directions is detected.
const peerClosed = 0
