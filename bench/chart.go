package main

import (
	"fmt"
	"html"
	"math"
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

// The measures of a picture, in pixels.
const (
	chartWidth   = 760
	namesWidth   = 190 // contestants stand left of the bars
	figuresWidth = 110 // figures stand right of them
	barRow       = 30
	barThick     = 16
	chartTop     = 34
)

// chartStyle suits light and dark pages.
const chartStyle = `<style>text{font:13px system-ui,sans-serif;fill:#57606a}.own{fill:#1f6feb}.other{fill:#8c959f}` +
	`.lossy{fill:#8c959f;fill-opacity:.2;stroke:#8c959f;stroke-dasharray:3 2}.range{stroke:#24292f;stroke-width:1.5;fill:none}` +
	`@media(prefers-color-scheme:dark){text{fill:#adbac7}.range{stroke:#e6edf3}.own{fill:#4493f8}.other{fill:#6e7681}.lossy{fill:#6e7681;stroke:#8c959f}}</style>`

// barChart draws medians as bars, with a line from the least to the most.
func barChart(measure string, bars []bar) string {
	at, logarithmic := barScale(bars)
	title, lossy := strings.ReplaceAll(measure, "_", " "), false
	if logarithmic {
		title += ", logarithmic scale"
	}
	var s strings.Builder
	for i, b := range bars {
		y := chartTop + barRow*i
		class := "other"
		switch {
		case strings.HasPrefix(b.name, "mailroom"):
			class = "own"
		case promises[b.name].lossy():
			class, lossy = "lossy", true
		}
		middle := float64(y) + barThick/2
		fmt.Fprintf(&s, `<text x="%d" y="%d" text-anchor="end">%s</text>`, namesWidth-8, y+13, html.EscapeString(b.name))
		fmt.Fprintf(&s, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d" rx="2"/>`, class, namesWidth, y, max(1, at(b.median)-namesWidth), barThick)
		fmt.Fprintf(&s, `<path class="range" d="M%.1f %.1fH%.1fM%.1f %.1fv8M%.1f %.1fv8"/>`,
			at(b.least), middle, at(b.most), at(b.least), middle-4, at(b.most), middle-4)
		fmt.Fprintf(&s, `<text x="%.1f" y="%d">%s</text>`+"\n", at(b.most)+8, y+13, figure(b.median))
	}
	height := chartTop + barRow*len(bars) + 8
	if lossy {
		fmt.Fprintf(&s, `<rect class="lossy" x="%d" y="%d" width="24" height="12"/>`, namesWidth, height)
		fmt.Fprintf(&s, `<text x="%d" y="%d">loses acknowledged messages when the power is cut</text>`+"\n", namesWidth+32, height+11)
		height += 24
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img" aria-label="%s">`+
		"\n%s\n"+`<text x="%d" y="20" font-weight="600">%[3]s</text>`+"\n%[6]s</svg>\n",
		chartWidth, height, html.EscapeString(title), chartStyle, namesWidth, s.String())
}

// barScale says where on the page a value is. It is logarithmic when short bars could not be told apart otherwise.
func barScale(bars []bar) (at func(float64) float64, logarithmic bool) {
	const room = chartWidth - namesWidth - figuresWidth
	least, most := math.Inf(1), 0.0
	for _, b := range bars {
		least, most = min(least, b.least), max(most, b.most)
	}
	switch {
	case most <= 0:
		return func(float64) float64 { return namesWidth }, false
	case least > 0 && most/least > 200:
		from := math.Floor(2*math.Log10(least)-0.5) / 2 // half a power of ten or more below, so that every bar is seen
		return func(v float64) float64 { return namesWidth + room*(math.Log10(v)-from)/(math.Log10(most)-from) }, true
	}
	return func(v float64) float64 { return namesWidth + room*v/most }, false
}
