package cli

import "testing"

// BenchmarkCommandLine measures the cost of one command line without its command: building the tree, reading the
// words, parsing.
func BenchmarkCommandLine(b *testing.B) {
	for b.Loop() {
		p := newProgram("")
		if status := p.run("try", "red", "--batch-size", "7"); status != 0 {
			b.Fatal(p.out)
		}
	}
}
