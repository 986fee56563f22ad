package console_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evanw/esbuild/pkg/api"

	"mailroom/commands/surface/bundletest"
)

var update = flag.Bool("update", false, "build app/ into www/")

// budget is the maximum size of the page's scripts, in uncompressed bytes.
const budget = 300_000

// TestBundle builds the page from its sources and compares the result with the committed files, byte for byte.
func TestBundle(t *testing.T) {
	bundletest.Compare(t, *update, "console", func() map[string][]byte {
		o := api.BuildOptions{LegalComments: api.LegalCommentsNone, Outdir: "www"}
		return map[string][]byte{"app.js": bundletest.Build(t, "app/main.jsx", o),
			"style.css": bundletest.Build(t, "app/style.css", o)}
	}, "app/node_modules/preact", "../phone/app/node_modules/age-encryption")
}

// TestSize checks that the page stays small enough to load at once.
func TestSize(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("www/app.js")
	if err != nil {
		t.Fatal(err)
	}
	if len(script) > budget {
		t.Errorf("the scripts have %d bytes, and may have %d", len(script), budget)
	}
}

// TestNothingInline checks that the page has no inline scripts or styles and makes no markup of texts, which its
// policy forbids, and uses only its own files.
func TestNothingInline(t *testing.T) {
	t.Parallel()
	for name, forbidden := range map[string][]string{
		"index.html": {"<script>", "<style", " style=", " onclick=", "https:"},
		"app.js":     {"insertAdjacentHTML", "document.write", "eval(", "new Function"},
	} {
		content, err := os.ReadFile(filepath.Join("www", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range forbidden {
			if strings.Contains(string(content), text) {
				t.Errorf("%s contains %s", name, text)
			}
		}
	}
}
