// Package bundletest builds web apps for the tests that hold what is served to its sources.
package bundletest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/evanw/esbuild/pkg/api"
)

// Compare compares what is built from the sources in app/ with the files of the same names that are committed in www/,
// byte for byte. With update it writes them instead. target is what builds the app by make, and needs are folders that
// npm makes and without which nothing can be built: where one is missing the test is skipped, but fails where CI is
// set.
func Compare(t *testing.T, update bool, target string, build func() map[string][]byte, needs ...string) {
	t.Helper()
	for _, folder := range needs {
		if _, err := os.Stat(folder); err != nil {
			if update || os.Getenv("CI") != "" {
				t.Fatalf("npm has to install what app/ needs (make clients): %v", err)
			}
			t.Skip("NOT TESTED: npm did not install what app/ needs, so that it cannot be rebuilt (make clients)")
		}
	}
	for name, content := range build() {
		file := filepath.Join("www", name)
		if update {
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
			t.Errorf("%s is not what app/ builds to; run make %s and commit what it writes", file, target)
		}
	}
}

// unused are the parts of the age library that no app needs: keys of other kinds than X25519, and passphrases. They are
// two thirds of it.
var unused = []string{"@noble/post-quantum/hybrid.js", "@noble/curves/nist.js", "@noble/curves/ed25519.js",
	"@noble/hashes/scrypt.js"}

// preact is what the apps are made of: one package, the console's, which what the apps share imports as well.
const preact = "../console/app/node_modules/preact"

// Build bundles one source and what it imports, for browsers of 2022 and later. The options may say more.
func Build(t *testing.T, source string, o api.BuildOptions) []byte {
	t.Helper()
	o.Alias = map[string]string{"preact": preact}
	for _, module := range unused {
		o.Alias[module] = "../phone/app/unused.js"
	}
	o.EntryPoints, o.Bundle, o.Format, o.Target, o.Charset = []string{source}, true, api.FormatIIFE, api.ES2022,
		api.CharsetUTF8
	o.JSX, o.JSXImportSource = api.JSXAutomatic, "preact"
	o.MinifyWhitespace, o.MinifyIdentifiers, o.MinifySyntax = true, true, true
	result := api.Build(o)
	for _, message := range append(result.Errors, result.Warnings...) {
		t.Fatalf("%s: %s", source, message.Text)
	}
	return result.OutputFiles[0].Contents
}
