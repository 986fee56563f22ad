package listener

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// crowd limits the connections of a listener, since each takes an open file, and deliveries need files, too. If there
// are too many, it closes the connection that has been idle, or has not sent anything yet, for the longest time. If
// all are busy, it closes the new one. Its method change is for http.Server.ConnState.
type crowd struct {
	most int

	mu    sync.Mutex
	there map[net.Conn]*list.Element // the element of each in quiet; nil while busy
	quiet list.List                  // idle connections as net.Conn, longest idle first
}

func newCrowd(most int64) *crowd { return &crowd{most: int(most), there: map[net.Conn]*list.Element{}} }

func (w *crowd) change(c net.Conn, state http.ConnState) {
	if leaving := w.place(c, state); leaving != nil {
		leaving.Close()
	}
}

// place records the state of a connection and returns a connection that must be closed, or nil.
func (w *crowd) place(c net.Conn, state http.ConnState) (leaving net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if place := w.there[c]; place != nil {
		w.quiet.Remove(place)
	}
	switch state {
	case http.StateClosed, http.StateHijacked:
		delete(w.there, c)
		return nil
	case http.StateActive:
		w.there[c] = nil
		return nil
	}
	if state == http.StateNew && len(w.there) >= w.most {
		if leaving = c; w.quiet.Len() > 0 {
			leaving = w.quiet.Remove(w.quiet.Front()).(net.Conn)
			delete(w.there, leaving)
		}
	}
	if leaving != c {
		w.there[c] = w.quiet.PushBack(c)
	}
	return leaving
}

// Share returns the maximum number of connections of a listener: the number of files that the process may have open,
// at most 16384, divided by parts, but at least 8.
func Share(parts uint64) int64 {
	const enough = 1 << 14
	return max(8, int64(min(maxFiles(), enough)/parts))
}
