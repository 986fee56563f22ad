package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestFilesThatAreNamedExist finds pages that name files which have moved. A name is a path from the top, or from orchestrator/.
func TestFilesThatAreNamedExist(t *testing.T) {
	t.Parallel()
	top := filepath.Join("..", "..")
	pages, err := filepath.Glob(filepath.Join(top, "docs", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	named := regexp.MustCompile("`((?:[\\w.-]+/)*[a-z0-9_-]+\\.(?:go|sql|js|golden))`")
	for _, page := range append(pages, filepath.Join(top, "ARCHITECTURE.md"), filepath.Join(top, "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range named.FindAllStringSubmatch(string(text), -1) {
			_, err := os.Stat(filepath.Join(top, name[1]))
			if _, below := os.Stat(filepath.Join(top, "orchestrator", name[1])); err != nil && below != nil {
				t.Errorf("%s names %s, which does not exist", page, name[1])
			}
		}
	}
}
