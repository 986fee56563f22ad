package phone_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/evanw/esbuild/pkg/api"

	"mailroom/commands/surface/bundletest"
	"mailroom/commands/surface/phone"
)

var update = flag.Bool("update", false, "build app/ into www/, and draw the icons")

// budget is the maximum number of uncompressed bytes that a phone loads to start the app.
const budget = 120_000

// TestBundle builds the app from its sources and compares the result with the committed files, byte for byte.
func TestBundle(t *testing.T) {
	bundletest.Compare(t, *update, "phone", func() map[string][]byte { return build(t) },
		"app/node_modules/age-encryption", "../console/app/node_modules/preact")
}

// build returns the scripts by the names under which they are served.
func build(t *testing.T) map[string][]byte {
	t.Helper()
	built := map[string][]byte{
		"age.js":    bundletest.Build(t, "app/age.js", api.BuildOptions{GlobalName: "age"}),
		"app.js":    bundletest.Build(t, "app/app.jsx", api.BuildOptions{}),
		"style.css": bundletest.Build(t, "app/style.css", api.BuildOptions{}),
	}
	// The service worker contains a digest of everything that it caches, so that any change reinstalls it.
	digest := sha256.New()
	files := served(t)
	maps.Copy(files, built)
	delete(files, "sw.js")
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content := files[name]
		digest.Write([]byte(name + "\n" + strconv.Itoa(len(content)) + "\n"))
		digest.Write(content)
	}
	version := strconv.Quote(hex.EncodeToString(digest.Sum(nil)[:8]))
	built["sw.js"] = bundletest.Build(t, "app/sw.js", api.BuildOptions{Define: map[string]string{"VERSION": version}})
	return built
}

// served returns all served files.
func served(t *testing.T) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	from := phone.Files()
	if *update {
		from = os.DirFS("www") // the embedded files are those before the update
	}
	err := fs.WalkDir(from, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files[name], err = fs.ReadFile(from, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestSize checks that the app stays small enough to load in a moment on a phone.
func TestSize(t *testing.T) {
	t.Parallel()
	total := 0
	for name, content := range served(t) {
		if !strings.HasSuffix(name, ".png") {
			total += len(content)
		}
		t.Logf("%7d %s", len(content), name)
	}
	if total >= budget {
		t.Errorf("the app has %d bytes, and may have less than %d", total, budget)
	}
}

// TestNothingInline checks that the page has no inline scripts or styles, which its policy forbids, and uses only the
// app's own files.
func TestNothingInline(t *testing.T) {
	t.Parallel()
	page := served(t)["index.html"]
	for _, forbidden := range []string{"<script>", "<style", " style=", " onclick=", "http:", "https:"} {
		if bytes.Contains(page, []byte(forbidden)) {
			t.Errorf("index.html contains %s", forbidden)
		}
	}
	for _, forbidden := range []string{"insertAdjacentHTML", "document.write", "eval("} {
		if bytes.Contains(served(t)["app.js"], []byte(forbidden)) {
			t.Errorf("app.js contains %s", forbidden)
		}
	}
	for name, source := range sources(t) {
		if bytes.Contains(bytes.ToLower(source), []byte("innerhtml")) { // Preact offers it on request
			t.Errorf("%s contains innerHTML", name)
		}
	}
}

// sources returns the app's own sources and those that it shares with the console.
func sources(t *testing.T) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, pattern := range []string{"app/*.js", "app/*.jsx", "../look/*.js", "../look/*.jsx"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("no sources in %s: %v", pattern, err)
		}
		for _, name := range found {
			if files[name], err = os.ReadFile(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	return files
}
