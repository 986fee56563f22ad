package phone

import (
	"embed"
	"io/fs"
)

//go:embed www
var www embed.FS

// Files returns the web app as it is served.
func Files() fs.FS {
	sub, err := fs.Sub(www, "www")
	if err != nil {
		panic(err) // the folder is embedded above
	}
	return sub
}
