package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestFloorsAreDrawn compares docs/floors.svg with the picture drawn from the imports. With -update the picture is
// written.
func TestFloorsAreDrawn(t *testing.T) {
	t.Parallel()
	picture := drawFloors(floorsOf(importsOf(t)))
	file := filepath.Join("..", "..", "docs", "floors.svg")
	if *update {
		if err := os.WriteFile(file, []byte(picture), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if there, err := os.ReadFile(file); err != nil || string(there) != picture {
		t.Errorf("%s does not show the imports (%v): go test ./cmd/mailroom -run Floors -update, and read ARCHITECTURE.md again", file, err)
	}
}

// importsOf returns, for each package of the program, our packages that it imports. Packages for tests are omitted:
// those below a folder whose name ends in "test" or "tests", and programs that import one.
func importsOf(t *testing.T) map[string][]string {
	t.Helper()
	imports := map[string][]string{}
	for _, s := range sources(t) {
		if s.test || alone(s.folder) || forTests(s.folder) {
			continue
		}
		imports[s.folder] = append(imports[s.folder], ourImports(s)...)
	}
	for folder, list := range imports {
		if slices.ContainsFunc(list, forTests) {
			delete(imports, folder)
		}
	}
	return imports
}

// ourImports lists the folders of our packages that a file imports.
func ourImports(s source) (list []string) {
	for _, spec := range s.syntax.Imports {
		name, _ := strconv.Unquote(spec.Path.Value)
		if folder, ours := strings.CutPrefix(name+"/", "mailroom/"); ours {
			list = append(list, strings.TrimSuffix(folder, "/"))
		}
	}
	return list
}

func forTests(folder string) bool {
	return slices.ContainsFunc(strings.Split(folder, "/"), func(name string) bool {
		return strings.HasSuffix(name, "test") || strings.HasSuffix(name, "tests")
	})
}

// floorsOf places each package one floor above the highest that it imports, and returns the floors from the ground
// up.
func floorsOf(imports map[string][]string) (floors [][]string) {
	known := map[string]int{}
	var floor func(folder string) int
	floor = func(folder string) int {
		n, done := known[folder]
		if done {
			return n
		}
		for _, below := range imports[folder] {
			n = max(n, floor(below)+1)
		}
		known[folder] = n
		return n
	}
	for folder := range imports {
		n := floor(folder)
		for len(floors) <= n {
			floors = append(floors, nil)
		}
		floors[n] = append(floors[n], folder)
	}
	for _, row := range floors {
		slices.Sort(row)
	}
	return floors
}

// Sizes in the picture, in pixels. Both fonts have a fixed width, so a text's width follows from its length.
const (
	pictureWidth = 920
	rowHeight    = 52
	boxHeight    = 38
	boxGap       = 8
	folderChar   = 5.5 // of 9 pixels
	nameChar     = 7.9 // of 13 pixels
)

const pictureStyle = `<style>
text { font-family: ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; text-anchor: middle; fill: #1f2328 }
.paper { fill: #ffffff } .line { stroke: #d8dee4 } .folder, .floor { font-size: 9px; fill: #59636e } .name { font-size: 13px }
.box { fill: #f6f8fa; stroke: #818b98 } .orchestrator { fill: #ddf4ff; stroke: #0969da } .commands { fill: #dafbe1; stroke: #1a7f37 }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc } .paper { fill: #0d1117 } .line { stroke: #2a313c } .folder, .floor { fill: #9198a1 }
.box { fill: #212830; stroke: #656c76 } .orchestrator { fill: #0c2d4e; stroke: #388bfd } .commands { fill: #12361f; stroke: #2ea043 }
}
</style>
`

// drawFloors draws a row of boxes for each floor, the ground floor at the bottom.
func drawFloors(floors [][]string) string {
	var b strings.Builder
	height := len(floors)*rowHeight + 10
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" role=\"img\">\n",
		pictureWidth, height, pictureWidth)
	b.WriteString("<title>The packages of Mailroom: each imports only packages of lower floors</title>\n" +
		pictureStyle)
	fmt.Fprintf(&b, "<rect class=\"paper\" width=\"%d\" height=\"%d\" rx=\"6\"/>\n", pictureWidth, height)
	for n, row := range floors {
		top := (len(floors)-1-n)*rowHeight + 12
		fmt.Fprintf(&b, "<text class=\"floor\" x=\"18\" y=\"%d\">%d</text>\n", top+boxHeight/2+3, n)
		if n > 0 {
			fmt.Fprintf(&b, "<path class=\"line\" d=\"M8 %dH%d\"/>\n", top+boxHeight+(rowHeight-boxHeight)/2,
				pictureWidth-8)
		}
		width := -boxGap
		for _, folder := range row {
			width += boxWidth(folder) + boxGap
		}
		left := 30 + (pictureWidth-40-width)/2
		for _, folder := range row {
			drawBox(&b, folder, left, top)
			left += boxWidth(folder) + boxGap
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// drawBox draws a package: its parent folder, and below that its name.
func drawBox(b *strings.Builder, folder string, left, top int) {
	above, name := boxTexts(folder)
	class, _, _ := strings.Cut(folder, "/")
	width := boxWidth(folder)
	middle, base := left+width/2, top+boxHeight/2+4
	fmt.Fprintf(b, "<rect class=\"box %s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\"/>", class, left, top,
		width, boxHeight)
	if above != "" {
		fmt.Fprintf(b, "<text class=\"folder\" x=\"%d\" y=\"%d\">%s</text>", middle, top+14, above)
		base = top + 29
	}
	fmt.Fprintf(b, "<text class=\"name\" x=\"%d\" y=\"%d\">%s</text>\n", middle, base, name)
}

// boxTexts returns the texts in a package's box. The package of the top folder has the module's name.
func boxTexts(folder string) (above, name string) {
	if folder == "" {
		return "", "mailroom"
	}
	return path.Split(folder)
}

func boxWidth(folder string) int {
	above, name := boxTexts(folder)
	return int(max(float64(len(above))*folderChar, float64(len(name))*nameChar)) + 16
}
