// Package remote runs command lines of the program on another machine, or behind a socket, and prints their output
// here. A line is parsed, run and rendered where the database is. This side only passes the streams on.
//
// The two sides speak HTTP/2 over any connection: the user's own ssh, a socket, or TLS. Source: design/reach.md.
package remote

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"mailroom/commands/surface/listener"
	"mailroom/orchestrator"
)

// Place is the address of a database, in one of these forms:
//
//	ssh://[USER@]HOST[:PORT][/PATH]  the file with that path, on a machine where the user can log in
//	unix:/PATH.sock                  the database that a daemon serves at a socket
//	https://HOST[:PORT][#PIN]        the database that a daemon serves on another machine
//	http://HOST[:PORT]               the same, on this machine only
type Place struct {
	Scheme           string
	User, Host, Port string
	Pin              string // pin of the key of an https place, after #; "" if the join record has it
	// Path is the path of the socket or of the database file. A file path is absolute or begins with ~/. If it is "",
	// the program there selects the database.
	Path string
}

// schemes lists the prefixes of places.
var schemes = []string{"ssh://", "unix:", "https://", "http://"}

// IsPlace reports whether a text begins like a place. The rest of the text may be invalid.
func IsPlace(text string) bool { return schemeOf(text) != "" }

func schemeOf(text string) string {
	for _, scheme := range schemes {
		if len(text) >= len(scheme) && strings.EqualFold(text[:len(scheme)], scheme) {
			return scheme
		}
	}
	return ""
}

// Parse parses a place. It returns invalid_params for an invalid one, and for a USER or HOST that ssh could treat as
// a flag.
func Parse(text string) (p Place, err error) {
	refused := func(what, hint string) (Place, error) {
		return Place{}, orchestrator.Errorf(orchestrator.InvalidParams, "%s: %s", orchestrator.Clip(text), what).WithHint("%s", hint)
	}
	scheme := schemeOf(text)
	if scheme == "unix:" {
		p = Place{Scheme: "unix", Path: filepath.Clean(strings.TrimPrefix(text[len(scheme):], "//"))}
		if !filepath.IsAbs(p.Path) || strings.ContainsRune(text, 0) {
			return refused("the path of a socket must be absolute", "Write unix:/PATH, such as unix:/srv/shop/.mailroom/mailroom.sock")
		}
		return p, nil
	}
	hint := "Write https://HOST:PORT, as `mailroom invite` prints it"
	if scheme == "ssh://" {
		hint = "Write ssh://[USER@]HOST[:PORT][/PATH], such as ssh://studio/home/me/shop/.mailroom/mailroom.db"
	}
	u, err := url.Parse(text)
	if scheme == "" || err != nil {
		return refused("not a valid address of a database", hint)
	}
	p = Place{Scheme: u.Scheme, User: u.User.Username(), Host: u.Hostname(), Port: u.Port(), Path: strings.TrimSuffix(u.Path, "/")}
	if scheme == "https://" && len(u.Fragment) == pinLength && !strings.ContainsAny(u.Fragment, ".") {
		p.Pin, u.Fragment = u.Fragment, ""
	}
	_, password := u.User.Password()
	port, err := strconv.Atoi(p.Port)
	switch {
	case p.Host == "":
		return refused("the host is missing", hint)
	case strings.HasPrefix(p.Host, "-") || strings.HasPrefix(p.User, "-"):
		return refused("a host or user must not begin with -", hint)
	case strings.ContainsAny(p.User+p.Host, " \t\r\n\x00"):
		return refused("a host or user must not contain a space", hint)
	case password:
		return refused("the address must not contain a password: ssh asks for the password or uses a key", hint)
	case p.Port != "" && (err != nil || port < 1 || port > 65535):
		return refused("the port must be a number from 1 to 65535", hint)
	case u.RawQuery != "" || u.Fragment != "":
		return refused("nothing may follow the path", hint)
	case scheme == "ssh://":
	case p.User != "" || p.Path != "":
		return refused("the address may contain only a host and a port", hint)
	case scheme == "http://" && !listener.IsLoopback(p.Host):
		return refused("http:// works only on this machine, because others could read the messages in transit", hint)
	}
	switch {
	case p.Path == "/~":
		return refused("the path of the file is missing", hint)
	case strings.HasPrefix(p.Path, "/~/"):
		p.Path = p.Path[1:]
	}
	return p, nil
}

// pinLength is the length of the result of certificate.Pin.
const pinLength = 43

// String returns the place in the form that Parse accepts, without the pin.
func (p Place) String() string {
	if p.Scheme == "unix" {
		return "unix:" + p.Path
	}
	u := url.URL{Scheme: p.Scheme, Host: p.Host, Path: p.Path}
	if strings.Contains(p.Host, ":") {
		u.Host = "[" + p.Host + "]"
	}
	if p.Port != "" {
		u.Host += ":" + p.Port
	}
	if p.User != "" {
		u.User = url.User(p.User)
	}
	if strings.HasPrefix(p.Path, "~/") {
		u.Path = "/" + p.Path
	}
	return u.String()
}

// where returns the machine in the form that ssh accepts.
func (p Place) where() string {
	if p.User != "" {
		return p.User + "@" + p.Host
	}
	return p.Host
}

// address returns the address of the listener.
func (p Place) address() string {
	port := map[string]string{"https": "443", "http": "80"}[p.Scheme]
	if p.Port != "" {
		port = p.Port
	}
	return net.JoinHostPort(p.Host, port)
}

// Dial connects to a place. It returns unavailable or conflict on failure.
func (p Place) Dial(ctx context.Context, d Dialing) (conn net.Conn, err error) {
	switch p.Scheme {
	case "ssh":
		return p.overSSH(ctx, d)
	case "unix":
		conn, err = new(net.Dialer).DialContext(ctx, "unix", p.Path)
	default:
		conn, err = new(net.Dialer).DialContext(ctx, "tcp", p.address())
	}
	if err != nil {
		e := &orchestrator.Error{Code: orchestrator.Unavailable, Message: "cannot connect to " + p.String(), Err: err,
			Hint: "Start `mailroom serve` on the machine with the database"}
		switch {
		case errors.Is(err, fs.ErrPermission):
			e.Hint = "Only the user who runs the daemon can open its socket. To let other users open the socket, start `mailroom serve --socket-group GROUP`"
		case p.Scheme == "unix":
			e.Hint = "Start `mailroom serve`. In a container, mount the folder that contains the socket: a socket that is mounted alone stops working when the daemon restarts"
		}
		err = e
	}
	return conn, err
}
