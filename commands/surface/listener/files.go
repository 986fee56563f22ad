package listener

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

// Index is the name of the page of an app.
const Index = "index.html"

// contentTypes maps the file extensions of an app to content types. The system's table is not used, because it
// differs between machines, and with nosniff a browser refuses a script of another type.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".webmanifest": "application/manifest+json", ".png": "image/png", ".svg": "image/svg+xml",
}

// File is one file of an app.
type File struct {
	body        []byte
	contentType string
	tag         string // ETag of the file
}

// ReadFiles reads the files of an app, by name. It returns an error if Index is missing.
func ReadFiles(from fs.FS) (map[string]File, error) {
	files := map[string]File{}
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
			return nil, fmt.Errorf("unknown type of file in the app: %s", name)
		}
		sum := sha256.Sum256(body)
		files[name] = File{body, contentType, `"` + hex.EncodeToString(sum[:16]) + `"`}
	}
	if _, there := files[Index]; !there {
		return nil, fmt.Errorf("the app has no %s among %q", Index, names)
	}
	return files, nil
}

// ServeHTTP implements http.Handler. Browsers revalidate their copy on each request, so that a new version of the
// daemon replaces the app, including its service worker, at the next request.
func (f File) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	h := rw.Header()
	h.Set("Content-Type", f.contentType)
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", f.tag)
	r.Header.Del("Range") // always serve the whole file
	http.ServeContent(rw, r, "", time.Time{}, bytes.NewReader(f.body))
}

// strict is the content security policy that permits only an app's own files, and requests to their origin.
var strict = []string{
	"default-src 'none'", "script-src 'self'", "connect-src 'self'", "img-src 'self'", "manifest-src 'self'",
	"style-src 'self'",
	"frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'",
}

// Strict sets the security headers for an app: no inline content, no content of another origin, no frames. further
// contains additional directives of the content security policy.
func Strict(h http.Header, further ...string) {
	h.Set("Content-Security-Policy", strings.Join(append(strict[:len(strict):len(strict)], further...), "; "))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
}
