package main

import (
	"fmt"
	"html"
	"strings"
)

// bar is one contestant in a picture.
type bar struct {
	name string
	summary
}

// barsOf are the contestants that have a measure.
func barsOf(c Case, all results, measure string) (bars []bar) {
	for _, one := range c.Contestants {
		if values := all.column(one.Name, measure); len(values) > 0 {
			bars = append(bars, bar{one.Name, summarize(values)})
		}
	}
	return bars
}

// barChart draws medians as bars, with a line from the least to the most. Its colours suit light and dark pages.
func barChart(measure string, bars []bar) string {
	const (
		width, label, figures = 760, 190, 110
		row, thick, top       = 30, 16, 34
	)
	most := 0.0
	for _, b := range bars {
		most = max(most, b.most)
	}
	at := func(v float64) float64 { return label + v/most*(width-label-figures) }
	var s strings.Builder
	height := top + row*len(bars) + 8
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="%s">`+"\n",
		width, height, width, height, html.EscapeString(measure))
	s.WriteString(`<style>text{font:13px system-ui,sans-serif;fill:#57606a}.own{fill:#1f6feb}.other{fill:#8c959f}.range{stroke:#57606a;stroke-width:1.5}` +
		`@media(prefers-color-scheme:dark){text{fill:#adbac7}.range{stroke:#adbac7}.other{fill:#6e7681}}</style>` + "\n")
	fmt.Fprintf(&s, `<text x="%d" y="20" font-weight="600">%s</text>`+"\n", label, html.EscapeString(strings.ReplaceAll(measure, "_", " ")))
	for i, b := range bars {
		y := top + row*i
		class := "other"
		if strings.HasPrefix(b.name, "mailroom") {
			class = "own"
		}
		middle := float64(y) + thick/2
		fmt.Fprintf(&s, `<text x="%d" y="%d" text-anchor="end">%s</text>`, label-8, y+13, html.EscapeString(b.name))
		fmt.Fprintf(&s, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d" rx="2"/>`, class, label, y, max(1, at(b.median)-label), thick)
		fmt.Fprintf(&s, `<path class="range" d="M%.1f %.1fH%.1fM%.1f %.1fv8M%.1f %.1fv8"/>`,
			at(b.least), middle, at(b.most), at(b.least), middle-4, at(b.most), middle-4)
		fmt.Fprintf(&s, `<text x="%.1f" y="%d">%s</text>`+"\n", at(b.most)+8, y+13, figure(b.median))
	}
	s.WriteString("</svg>\n")
	return s.String()
}
