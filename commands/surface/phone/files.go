package phone

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"time"
)

// contentTypes are those of the app's files by ending. The system's table is not asked: it says different things on
// different machines, and nosniff has a browser refuse a script of another type.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".webmanifest": "application/manifest+json", ".png": "image/png", ".svg": "image/svg+xml",
}

// file is one file of the app.
type file struct {
	body        []byte
	contentType string
	tag         string // its ETag
}

// readFiles reads the app's files, each under its path. index.html is at / and at /pair, where the link of a pairing leads.
func readFiles(from fs.FS) (map[string]file, error) {
	files := map[string]file{}
	names, err := fs.Glob(from, "*.*")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		body, err := fs.ReadFile(from, name)
		if err != nil {
			return nil, err
		}
		contentType, known := contentTypes[path.Ext(name)]
		if !known {
			return nil, fmt.Errorf("the app has a file of no known type: %s", name)
		}
		sum := sha256.Sum256(body)
		f := file{body, contentType, `"` + hex.EncodeToString(sum[:16]) + `"`}
		if name == "index.html" {
			files["/{$}"], files["/pair"] = f, f
			continue
		}
		files["/"+name] = f
	}
	if _, there := files["/pair"]; !there {
		return nil, fmt.Errorf("the app has no index.html among %q", names)
	}
	return files, nil
}

// ServeHTTP implements http.Handler. A browser asks each time whether its copy is the newest, so that a new version of the
// daemon replaces the app, its service worker included, at the next look.
func (f file) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	h := rw.Header()
	h.Set("Content-Type", f.contentType)
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", f.tag)
	r.Header.Del("Range") // of these files nobody needs a part
	http.ServeContent(rw, r, "", time.Time{}, bytes.NewReader(f.body))
}
