package remote

import (
	"context"
	"crypto/rand"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"mailroom/orchestrator"
)

// grace is how long a delivery waits for a confirmation after the connection was lost.
const grace = 30 * time.Second

// kept is how long the outcome of a delivery is remembered.
const kept = time.Minute

// deliveries holds the deliveries of a server, by ID. If a process that serves a single connection loses that
// connection, confirmations reach the process at a socket. The ID of each of its deliveries begins with the name of
// the socket.
type deliveries struct {
	grace  time.Duration
	folder string // folder of the sockets; "" if there is none
	name   string

	mu     sync.Mutex
	byID   map[string]*delivery
	socket net.Listener
}

func newDeliveries(folder string) *deliveries {
	return &deliveries{grace: grace, folder: folder, name: rand.Text()[:16], byID: map[string]*delivery{}}
}

// delivery is output that Session.Deliver hands out.
type delivery struct {
	id      string
	ended   chan struct{} // closed when it is known whether the other side has printed the output
	settled chan struct{} // closed when the outcome is recorded

	mu    sync.Mutex
	state outcome
	over  func()
}

type outcome int

const (
	underWay outcome = iota
	printed
	givenUp
)

// add returns a new delivery.
func (o *deliveries) add() *delivery {
	d := &delivery{id: o.name + "-" + rand.Text(), ended: make(chan struct{}), settled: make(chan struct{})}
	d.over = func() {
		time.AfterFunc(kept, func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			delete(o.byID, d.id)
		})
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byID[d.id] = d; o.folder != "" && o.socket == nil {
		o.listen()
	}
	return d
}

// find returns the delivery with an ID, or nil if there is none.
func (o *deliveries) find(id string) *delivery {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.byID[id]
}

// confirm records that the other side has printed the output, and reports whether that is the final outcome. On nil,
// it does nothing.
func (d *delivery) confirm() bool { return d != nil && d.end(printed) }

// giveUp records that the other side has not printed the output, and reports whether that is the final outcome. On
// nil, it does nothing.
func (d *delivery) giveUp() bool { return d != nil && d.end(givenUp) }

func (d *delivery) end(how outcome) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state == underWay {
		d.state = how
		close(d.ended)
	}
	return d.state == how
}

// settle signals to waiting confirmations that the outcome is recorded. On nil, it does nothing.
func (d *delivery) settle() {
	if d == nil {
		return
	}
	select {
	case <-d.settled:
	default:
		close(d.settled)
		d.over()
	}
}

// socketOf returns the socket of the process with a name, or "" if the name is invalid.
func (o *deliveries) socketOf(name string) string {
	if o.folder == "" || len(name) != len(o.name) || strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" {
		return ""
	}
	return filepath.Join(o.folder, name)
}

// listen opens the socket of this process. Without a socket, unconfirmed messages become unread again if the process
// loses its connection.
func (o *deliveries) listen() {
	socket, err := net.Listen("unix", o.socketOf(o.name))
	if err != nil {
		return
	}
	o.socket = socket
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+WrittenPath+"{id}", (&Server{open: o}).ServeWritten)
	orchestrator.GoSafe("confirmations", nil, func() { http.Serve(socket, mux) })
}

// close closes the socket.
func (o *deliveries) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.socket != nil {
		o.socket.Close()
	}
}

// ServeWritten answers a request at WrittenPath, which confirms that the other side has printed a delivery. The
// status is 200 once the confirmation is recorded, 409 if it came too late, and 404 if the delivery is unknown, for
// example because the process has ended.
func (v *Server) ServeWritten(rw http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	d := v.open.find(id)
	if d == nil {
		rw.WriteHeader(v.open.askOther(r.Context(), id))
		return
	}
	counts := d.confirm()
	select {
	case <-d.settled:
	case <-r.Context().Done():
		return
	}
	if !counts {
		rw.WriteHeader(http.StatusConflict)
	}
}

// askOther forwards a confirmation to the process that the delivery belongs to, and returns the status.
func (o *deliveries) askOther(ctx context.Context, id string) int {
	name, _, _ := strings.Cut(id, "-")
	socket := o.socketOf(name)
	if socket == "" || name == o.name {
		return http.StatusNotFound
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}, DisableKeepAlives: true}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+WrittenPath+id, nil)
	if err != nil {
		return http.StatusNotFound
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return http.StatusNotFound
	}
	answer.Body.Close()
	return answer.StatusCode
}
