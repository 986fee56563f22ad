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

// budget is what the page's scripts may have, in bytes, without compression.
const budget = 300_000

// TestBundle builds the page from its sources and compares what comes out with what is committed, byte for byte.
func TestBundle(t *testing.T) {
	bundletest.Compare(t, *update, "console", func() map[string][]byte {
		o := api.BuildOptions{LegalComments: api.LegalCommentsNone, Outdir: "www"}
		return map[string][]byte{"app.js": bundletest.Build(t, "app/main.jsx", o),
			"style.css": bundletest.Build(t, "app/style.css", o)}
	}, "app/node_modules/preact", "../phone/app/node_modules/age-encryption")
}

// TestSize: the page must stay something that loads at once.
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

// TestNothingInline: the policy under which the page is served allows no script or style within it, no markup that is
// made of text, and only the page's own files.
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
