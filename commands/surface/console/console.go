// Package console is the console's page: the files of a web app in which a person sees what happens to messages, and
// frees what is stuck. It only hands them out; what the page asks goes to package web, as with every other client.
package console

import (
	"embed"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	"mailroom/commands/surface/listener"
)

// The app's sources are in app/ (JavaScript modules, JSX and style sheets) and in www/ (what needs no building). `make
// console` builds the former into the latter; what it built is committed, so that building the program needs neither
// npm nor esbuild.
//
//go:embed www
var www embed.FS

// Handler returns what serves the page and its files, and hands every other request on to next. Browsers get the page
// at each path that could be one of its views, since a view has an address of its own.
func Handler(next http.Handler) (http.Handler, error) {
	from, err := fs.Sub(www, "www")
	if err != nil {
		return nil, err
	}
	files, err := listener.ReadFiles(from)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		f, isFile := files[name]
		isFile = isFile && name != listener.Index
		if !isFile && isView(r) {
			f, isFile = files[listener.Index], true
			rw.Header().Set("Vary", "Accept")
		}
		if !isFile || r.Method != http.MethodGet && r.Method != http.MethodHead {
			next.ServeHTTP(rw, r)
			return
		}
		listener.Strict(rw.Header(), "trusted-types 'none'")
		f.ServeHTTP(rw, r)
	}), nil
}

// others are the first parts of the paths that are not the page's.
var others = []string{"v1", "mcp", "healthz", "readyz", "metrics"}

// isView reports whether a browser asks for a page, and the path is none of a file or of an endpoint.
func isView(r *http.Request) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	return !strings.Contains(first, ".") && !slices.Contains(others, first) &&
		strings.Contains(r.Header.Get("Accept"), "text/html")
}
