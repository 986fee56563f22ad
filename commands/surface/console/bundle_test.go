package console_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evanw/esbuild/pkg/api"
)

var update = flag.Bool("update", false, "build app/ into www/")

// budget is what the page's scripts may have, in bytes, without compression.
const budget = 300_000

// TestBundle builds the page from its sources and compares what comes out with what is committed, byte for byte.
func TestBundle(t *testing.T) {
	if _, err := os.Stat(filepath.Join("app", "node_modules", "preact")); err != nil {
		if *update || os.Getenv("CI") != "" {
			t.Fatalf("npm has to install the page's libraries (make clients): %v", err)
		}
		t.Skip("NOT TESTED: npm did not install the page's libraries, so that it cannot be rebuilt (make clients)")
	}
	for name, source := range map[string]string{"app.js": "app/main.jsx", "style.css": "app/style.css"} {
		content, file := built(t, source), filepath.Join("www", name)
		if *update {
			if err := os.WriteFile(file, content, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		committed, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(committed, content) {
			t.Errorf("%s is not what app/ builds to; run make console and commit what it writes", file)
		}
	}
}

// built bundles one source and what it imports.
func built(t *testing.T, source string) []byte {
	t.Helper()
	result := api.Build(api.BuildOptions{
		EntryPoints: []string{source}, Bundle: true, Format: api.FormatIIFE, Target: api.ES2022, Charset: api.CharsetUTF8, JSX: api.JSXAutomatic, JSXImportSource: "preact",
		MinifyWhitespace: true, MinifyIdentifiers: true, MinifySyntax: true, LegalComments: api.LegalCommentsNone, Outdir: "www",
	})
	for _, message := range append(result.Errors, result.Warnings...) {
		t.Fatalf("%s: %s", source, message.Text)
	}
	return result.OutputFiles[0].Contents
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

// TestNothingInline: the policy under which the page is served allows no script or style within it, no markup that is made of text, and
// only the page's own files.
func TestNothingInline(t *testing.T) {
	t.Parallel()
	for name, forbidden := range map[string][]string{
		"index.html": {"<script>", "<style", " style=", " onclick=", "https:"}, "app.js": {"insertAdjacentHTML", "document.write", "eval(", "new Function"},
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
