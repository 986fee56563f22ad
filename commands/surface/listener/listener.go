// Package listener implements what the HTTP listeners of a daemon have in common: opening and closing, limits on
// requests and on their duration, and the form of answers. The caller decides what is served, and to whom.
package listener

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"mailroom/orchestrator"
)

// MaxHeader is the maximum size of a request header, in bytes.
const MaxHeader = 16 << 10

// Bounds limits the time that clients may take.
type Bounds struct {
	Header time.Duration // to send the header of a request
	Body   time.Duration // to send its body
	Answer time.Duration // to accept one piece of an answer
}

// Usual contains the bounds of a daemon. Tests use shorter ones.
var Usual = Bounds{Header: 5 * time.Second, Body: 10 * time.Second, Answer: 30 * time.Second}

// hangUpAfter is how long running requests may take to end when the daemon stops. The daemon needs the rest of its
// time for deliveries.
const hangUpAfter = 2 * time.Second

// Options configures a listener.
type Options struct {
	Name        string // for the log
	Address     string // 127.0.0.1:PORT; port 0 picks a free one; "" for none
	AddressFlag string // the flag for Address, for error messages
	Cert, Key   string // PEM files; both or neither
	CertFlag    string
	KeyFlag     string
	// Certificate returns the certificate of a listener that other machines reach, if there are no files; nil: none.
	Certificate func() (tls.Certificate, error)
	Socket      *Socket // an additional socket to serve; nil for none
	Bounds      Bounds
	Connections int64 // maximum number at a time; further ones are closed
	ConnContext func(context.Context, net.Conn) context.Context
	Log         *slog.Logger
}

// Server is an open listener. Its methods are safe for concurrent use.
type Server struct {
	Address   string // "http://127.0.0.1:40123"; "" if there is none
	Socket    string // path of the socket; "" if there is none
	Loopback  bool   // reachable from this machine only
	Encrypted bool   // Address uses TLS
	server    *http.Server
	listeners []net.Listener
	o         Options
}

// Open binds the address. Serve begins to answer. When ctx ends, the running requests end. Open returns
// invalid_params or unavailable on failure.
func Open(ctx context.Context, o Options) (*Server, error) {
	s := &Server{Loopback: true, o: o}
	if o.Address != "" {
		if err := s.listen(); err != nil {
			return nil, err
		}
	}
	if o.Socket != nil {
		socket, err := o.Socket.listen()
		if err != nil {
			s.closeAll()
			return nil, err
		}
		s.listeners, s.Socket = append(s.listeners, socket), o.Socket.Path
	}
	s.server = &http.Server{
		ReadHeaderTimeout: o.Bounds.Header, IdleTimeout: time.Minute, MaxHeaderBytes: MaxHeader,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
		BaseContext:                  func(net.Listener) context.Context { return ctx }, ConnContext: o.ConnContext,
		ConnState: newCrowd(o.Connections).change,
		Protocols: new(http.Protocols),
		HTTP2:     Alive(),
	}
	s.server.Protocols.SetHTTP1(true)
	s.server.Protocols.SetHTTP2(true)
	s.server.Protocols.SetUnencryptedHTTP2(true)
	return s, nil
}

// Alive returns the configuration of HTTP/2 connections that detects an unreachable peer by pings.
func Alive() *http.HTTP2Config {
	return &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 10 * time.Second, MaxConcurrentStreams: 1000}
}

// listen binds the address.
func (s *Server) listen() error {
	o := &s.o
	host, _, err := net.SplitHostPort(o.Address)
	if err != nil {
		return &orchestrator.Error{Code: orchestrator.InvalidParams, Message: o.AddressFlag, Err: err,
			Hint: "Write 127.0.0.1:PORT; port 0 picks a free port"}
	}
	if (o.Cert == "") != (o.Key == "") {
		return orchestrator.Errorf(orchestrator.InvalidParams, "%s and %s must be given together", o.CertFlag, o.KeyFlag)
	}
	listener, err := net.Listen("tcp", o.Address)
	if err != nil {
		return &orchestrator.Error{Code: orchestrator.Unavailable, Message: "cannot listen on " + o.Address, Err: err,
			Hint: "Choose another port; port 0 picks a free port"}
	}
	s.Loopback = IsLoopback(host)
	own := o.Cert == "" && o.Certificate != nil && !s.Loopback
	s.Encrypted = o.Cert != "" || own
	s.Address = "http://" + listener.Addr().String()
	if s.Encrypted {
		var pair tls.Certificate
		secure := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
		if own {
			pair, err = o.Certificate()
			secure.MinVersion = tls.VersionTLS13
		} else {
			pair, err = tls.LoadX509KeyPair(o.Cert, o.Key)
		}
		if err != nil {
			listener.Close()
			return &orchestrator.Error{Code: orchestrator.InvalidParams, Message: o.CertFlag + " and " + o.KeyFlag, Err: err}
		}
		secure.Certificates = []tls.Certificate{pair}
		listener = tls.NewListener(listener, secure)
		s.Address = "https://" + listener.Addr().String()
	}
	s.listeners = append(s.listeners, listener)
	return nil
}

// Serve serves h until Close. It returns at once. It must be called once, unless Close is called first.
func (s *Server) Serve(h http.Handler) {
	s.server.Handler = h
	for _, listener := range s.listeners {
		orchestrator.GoSafe(s.o.Name, s.o.Log, func() {
			if err := s.server.Serve(listener); err != http.ErrServerClosed {
				s.o.Log.Error("a listener stopped", "listener", s.o.Name, "error", err)
			}
		})
	}
}

// Close ends the listener and, within two seconds, the running requests.
func (s *Server) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), hangUpAfter)
	defer cancel()
	if s.server.Shutdown(ctx) != nil {
		s.server.Close()
	}
	s.closeAll()
}

func (s *Server) closeAll() {
	for _, listener := range s.listeners {
		listener.Close()
	}
}

// Patient returns a handler that limits the time for a client to send the body, and to accept each piece of the
// answer.
func Patient(b Bounds, next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		http.NewResponseController(rw).SetReadDeadline(time.Now().Add(b.Body))
		next.ServeHTTP(patientWriter{rw, b.Answer}, r)
	})
}

// patientWriter sets a new deadline for each piece of an answer that it writes.
type patientWriter struct {
	http.ResponseWriter
	within time.Duration
}

// Write implements io.Writer.
func (w patientWriter) Write(p []byte) (int, error) {
	http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.within))
	return w.ResponseWriter.Write(p)
}

// Unwrap returns the underlying writer, for http.ResponseController.
func (w patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// HostOf returns the name or address in a Host header without the port, or "" if the port is not a number.
func HostOf(header string) string {
	host, port, err := net.SplitHostPort(header)
	if err != nil {
		if strings.HasPrefix(header, "[") && strings.HasSuffix(header, "]") {
			return header[1 : len(header)-1]
		}
		return header
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return ""
	}
	return host
}

// IsLoopback reports whether a host is localhost or a loopback address.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || (ip != nil && ip.IsLoopback())
}
