package web

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"syscall"
	"time"

	"mailroom/commands/surface/listener"
)

type peerKey struct{}

// withPeer stores a connection in the context of its requests, for hungUp. It is a function for
// http.Server.ConnContext.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	return context.WithValue(listener.WithUID(ctx, c), peerKey{}, c)
}

// hungUp reports whether the client has closed the connection of a request. net/http detects that, too, but no longer
// after a client has sent even one byte after its request.
func hungUp(ctx context.Context) (gone bool) {
	c, ok := ctx.Value(peerKey{}).(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	err = raw.Control(func(fd uintptr) { gone = isClosed(fd) })
	return gone || err != nil
}

// Gone returns an error if the client has disconnected or ctx has ended. ctx must be the context of the request, or
// derived from it.
func Gone(ctx context.Context) error {
	if ctx.Err() == nil && hungUp(ctx) {
		return errors.New("the client has disconnected")
	}
	return ctx.Err()
}

// whileThere returns a context that also ends when the client disconnects. It checks the connection at the interval
// every, until stop is called.
func whileThere(parent context.Context, every time.Duration) (ctx context.Context, stop func()) {
	ctx, leave := context.WithCancel(parent)
	var look *time.Timer
	set := make(chan struct{}) // closed after look is assigned
	look = time.AfterFunc(every, func() {
		<-set
		switch {
		case ctx.Err() != nil:
		case hungUp(ctx):
			leave()
		default:
			look.Reset(every)
		}
	})
	close(set)
	return ctx, func() {
		leave()
		look.Stop()
	}
}
