package letter

import (
	"io/fs"
	"slices"
	"testing"
)

func TestEveryTypeHasASchema(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(schemaFiles, "schemas/*.json")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, kind := range slices.Sorted(slices.Values(types)) {
		want = append(want, "schemas/"+kind+".json")
	}
	if !slices.Equal(files, want) {
		t.Errorf("the schemas are %q; the types want %q", files, want)
	}
}
