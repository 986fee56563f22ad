// Package console serves the console's page: the files of a web app in which a person sees the message traffic and
// frees stuck messages. It serves only files. Package web handles the requests of the page like those of any other
// client.
package console

import (
	"embed"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	"mailroom/commands/surface/listener"
)

// The app's sources are in app/ (JavaScript modules, JSX and style sheets) and in www/ (files that need no building).
// `make console` builds the former into the latter. The built files are committed, so that building the program
// requires neither npm nor esbuild.
//
//go:embed www
var www embed.FS

// Handler returns a handler that serves the page and its files, and passes every other request to next. Browsers get
// the page at each path that could be one of its views, since each view has its own path.
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

// others lists the first segments of paths that do not belong to the page.
var others = []string{"v1", "mcp", "healthz", "readyz", "metrics"}

// isView reports whether a browser requests a page whose path is neither a file nor an endpoint.
func isView(r *http.Request) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	return !strings.Contains(first, ".") && !slices.Contains(others, first) &&
		strings.Contains(r.Header.Get("Accept"), "text/html")
}
