// Package remote runs command lines of the program on another machine, and shows here what they print there. A line is
// parsed, run and rendered where the database is: this side passes streams on, and knows no command.
//
// The two sides speak HTTP/2 over any connection; so far that is the user's own ssh. Source: design/reach.md.
package remote

import (
	"net/url"
	"strconv"
	"strings"

	"mailroom/orchestrator"
)

// Place is a database on another machine, as ssh://[USER@]HOST[:PORT][/PATH] names it.
type Place struct {
	User, Host, Port string
	Path             string // of the file, absolute or behind ~/; "" is what the program takes there by itself
}

// scheme begins the text of a Place.
const scheme = "ssh://"

// IsPlace reports whether a text names a place on another machine, be it a wrong one.
func IsPlace(text string) bool {
	return len(text) >= len(scheme) && strings.EqualFold(text[:len(scheme)], scheme)
}

// Parse reads a place. USER and HOST that ssh could take for a flag are refused. Error: invalid_params.
func Parse(text string) (Place, error) {
	refused := func(what string) (Place, error) {
		return Place{}, orchestrator.Errorf(orchestrator.InvalidParams, "%s: %s", orchestrator.Clip(text), what).
			WithHint("Write ssh://[USER@]HOST[:PORT][/PATH], such as ssh://studio/home/me/shop/.mailroom/mailroom.db")
	}
	if !IsPlace(text) {
		return refused("this is no place on another machine")
	}
	u, err := url.Parse(text)
	if err != nil {
		return refused("it cannot be read")
	}
	p := Place{User: u.User.Username(), Host: u.Hostname(), Port: u.Port(), Path: u.Path}
	_, password := u.User.Password()
	port, err := strconv.Atoi(p.Port)
	switch {
	case p.Host == "":
		return refused("the host is missing")
	case strings.HasPrefix(p.Host, "-") || strings.HasPrefix(p.User, "-"):
		return refused("no host and no user begins with -")
	case strings.ContainsAny(p.User+p.Host, " \t\r\n\x00"):
		return refused("no host and no user holds a space")
	case password:
		return refused("a password does not belong into a place: ssh asks for it, or uses a key")
	case p.Port != "" && (err != nil || port < 1 || port > 65535):
		return refused("the port is none")
	case u.RawQuery != "" || u.Fragment != "":
		return refused("nothing may stand behind the path")
	}
	switch p.Path = strings.TrimSuffix(p.Path, "/"); {
	case p.Path == "/~":
		return refused("the file is missing")
	case strings.HasPrefix(p.Path, "/~/"):
		p.Path = p.Path[1:]
	}
	return p, nil
}

// String returns the place as Parse reads it.
func (p Place) String() string {
	u := url.URL{Scheme: "ssh", Host: p.Host, Path: p.Path}
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

// where names the machine, as ssh takes it.
func (p Place) where() string {
	if p.User != "" {
		return p.User + "@" + p.Host
	}
	return p.Host
}
