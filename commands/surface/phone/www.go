package phone

import (
	"embed"
	"io/fs"
)

// The app's sources are in app/ (JavaScript modules) and in www/ (files that need no building). `make phone` builds
// the former into the latter. The built files are committed, so that building the program requires neither npm nor
// esbuild.
//
//go:embed www
var www embed.FS

// Files returns the files of the app, by the names under which they are served: index.html, app.js, age.js, sw.js,
// style.css, manifest.webmanifest and the icons. The file system is read-only and safe for concurrent use.
func Files() fs.FS {
	files, err := fs.Sub(www, "www")
	if err != nil {
		panic(err) // fs.Sub checks only the name, which is valid
	}
	return files
}
