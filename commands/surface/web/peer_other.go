//go:build !linux && unix

package web

// peerClosed: elsewhere only a connection that is down in both directions is known to be closed.
const peerClosed = 0
