// Package bundletest builds web apps for tests that compare the served files with the sources.
package bundletest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/evanw/esbuild/pkg/api"
)

// Compare builds the sources in app/ and compares the results with the committed files of the same names in www/,
// byte for byte. With update, it writes the files instead. target is the make target that builds the app. needs lists
// folders that npm creates and that the build requires. If one is missing, the test is skipped, or fails if CI is
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

// unused lists the parts of the age library that no app needs: passphrases, and key types other than X25519. They
// make up two thirds of the library.
var unused = []string{"@noble/post-quantum/hybrid.js", "@noble/curves/nist.js", "@noble/curves/ed25519.js",
	"@noble/hashes/scrypt.js"}

// preact is the framework of the apps. The console's copy is also used by the code that the apps share.
const preact = "../console/app/node_modules/preact"

// Build bundles one source file and its imports for browsers of 2022 and later. o may contain further options.
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
