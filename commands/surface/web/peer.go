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

// withPeer puts a connection into the context of the requests that come over it, for hungUp. It is a function for
// http.Server.ConnContext.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	return context.WithValue(listener.WithUID(ctx, c), peerKey{}, c)
}

// hungUp reports whether whoever sent a request has closed the connection. net/http notices that by itself, but not any
// more once a client has sent as much as a byte behind its request.
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

// Gone returns an error if whoever sent the request is not there any more: ctx, which is the request's or derived from
// it, has ended, or the connection is closed.
func Gone(ctx context.Context) error {
	if ctx.Err() == nil && hungUp(ctx) {
		return errors.New("the client has disconnected")
	}
	return ctx.Err()
}

// whileThere returns a context that also ends when whoever sent the request hangs up. It looks whether they did every
// so often, until stop is called.
func whileThere(parent context.Context, every time.Duration) (ctx context.Context, stop func()) {
	ctx, leave := context.WithCancel(parent)
	var look *time.Timer
	set := make(chan struct{}) // closed once look is set
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
