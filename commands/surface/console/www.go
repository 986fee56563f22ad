package console

import (
	"embed"
	"io/fs"
)

// The page's sources are in app/ (JavaScript modules, JSX and style sheets) and in www/ (what needs no building). `make console` builds the former
// into the latter; what it built is committed, so that building the program needs neither npm nor esbuild.
//
//go:embed www
var www embed.FS

// Files returns what the page's address serves, with the names under which it is served: index.html, app.js, style.css and icon.svg. It
// cannot be written, and is safe to be used concurrently.
func Files() fs.FS {
	files, err := fs.Sub(www, "www")
	if err != nil {
		panic(err) // fs.Sub judges the name only, and this one is valid
	}
	return files
}
