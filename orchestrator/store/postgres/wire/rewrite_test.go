package wire

import (
	"slices"
	"testing"
)

func TestRewrite(t *testing.T) {
	for _, test := range []struct {
		text, want string
		arguments  []int
	}{
		{`SELECT ? WHERE a = ?`, `SELECT $1 WHERE a = $2`, []int{1, 2}},
		{`SELECT ?2 WHERE a = ?1 OR b = ?2`, `SELECT $1 WHERE a = $2 OR b = $1`, []int{2, 1}},
		{`UPDATE m SET a = ?1, b = ?4 WHERE c = ?8`, `UPDATE m SET a = $1, b = $2 WHERE c = $3`, []int{1, 4, 8}},
		{`SELECT ?3, ?`, `SELECT $1, $2`, []int{3, 4}},
		{`SELECT '?', "a?", 'it''s ?' -- ?` + "\n" + `/* ? */`, `SELECT '?', "a?", 'it''s ?' -- ?` + "\n" + `/* ? */`,
			nil},
		{`SELECT a LIMIT +?`, `SELECT a LIMIT $1`, []int{1}},
		{`SELECT a + 1, (+b) + +c, f(a)+1, 2+3 WHERE +d = +?`, `SELECT a + 1, (b) + c, f(a)+1, 2+3 WHERE d = $1`,
			[]int{1}},
		{`SELECT ?+1`, `SELECT $1+1`, []int{1}},
		{`FROM m INDEXED BY i WHERE a`, `FROM m WHERE a`, nil},
		{`FROM m NOT INDEXED WHERE NOT a`, `FROM m WHERE NOT a`, nil},
		{`a CROSS JOIN b ON c`, `a JOIN b ON c`, nil},
		{`a < x'' AND (b >= x'' OR c = x'00')`, `a IS NOT NULL AND (b IS NULL AND false OR c = x'00')`, nil},
		{`a IS DISTINCT FROM ?`, `a IS DISTINCT FROM $1`, []int{1}},
		{`a IS NULL AND b IS NOT NULL AND c IS TRUE`, `a IS NULL AND b IS NOT NULL AND c IS TRUE`, nil},
		{`a IS DISTINCT FROM b OR a IS NOT DISTINCT FROM b`, `a IS DISTINCT FROM b OR a IS NOT DISTINCT FROM b`, nil},
		{`SELECT i.rowid ORDER BY rowid`, `SELECT i.pos ORDER BY pos`, nil},
		{`a = ? AND seq IN (SELECT seq FROM temp.batch) AND b = ?`, `a = $1 AND seq = ANY ($2::bigint[]) AND b = $3`,
			[]int{1, batchArgument, 2}},
		{`seq NOT IN (SELECT seq FROM temp.batch)`, `seq NOT IN (SELECT seq FROM unnest($1::bigint[]) AS batch(seq))`,
			[]int{batchArgument}},
		{`seq IN (SELECT seq FROM temp.batch WHERE seq > 1)`,
			`seq IN (SELECT seq FROM unnest($1::bigint[]) AS batch(seq) WHERE seq > 1)`, []int{batchArgument}},
		{`FROM temp.batch b JOIN m`, `FROM unnest($1::bigint[]) AS b(seq) JOIN m`, []int{batchArgument}},
		{`FROM temp.batch WHERE batch.seq = 1`, `FROM unnest($1::bigint[]) AS batch(seq) WHERE batch.seq = 1`,
			[]int{batchArgument}},
	} {
		got, arguments := rewrite(test.text)
		if got != test.want || !slices.Equal(arguments, test.arguments) {
			t.Errorf("rewrite(%q):\n got %q %v\nwant %q %v", test.text, got, arguments, test.want, test.arguments)
		}
	}
}

// FuzzRewrite looks for texts at which the scanner fails or does not end.
func FuzzRewrite(f *testing.F) {
	for _, seed := range []string{`SELECT 'a`, `x'`, `--`, `/*`, `?99999999999999999999`, "temp.batch", "IS", "\"",
		"é ?"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) { rewrite(text) })
}
