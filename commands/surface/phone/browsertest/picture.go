package browsertest

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"slices"
)

// Keep writes a PNG picture into a file of the documentation. It first reduces the picture to 256 colors, which is
// enough for a page. It does not write a picture that looks like the existing one.
func Keep(file string, taken []byte) error {
	decoded, err := png.Decode(bytes.NewReader(taken))
	if err != nil {
		return err
	}
	is := reduced(decoded)
	if there, err := os.ReadFile(file); err == nil {
		if was, err := png.Decode(bytes.NewReader(there)); err == nil && alike(was, is) {
			return nil
		}
	}
	var small bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(&small, is); err != nil {
		return err
	}
	return os.WriteFile(file, small.Bytes(), 0o644)
}

// reduced returns a picture with 256 colors. Of colors that hardly differ, it keeps the most frequent.
func reduced(from image.Image) *image.Paletted {
	bounds, count := from.Bounds(), map[color.RGBA]int{}
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(from.At(x, y)).(color.RGBA) }
	for y := range bounds.Dy() {
		for x := range bounds.Dx() {
			count[at(x, y)]++
		}
	}
	oftener := func(a, b color.RGBA) int {
		return cmp.Or(count[b]-count[a], int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B))
	}
	alike := map[color.RGBA]bool{} // by the upper bits of a color
	var first, rest color.Palette
	for _, c := range slices.SortedFunc(maps.Keys(count), oftener) {
		if kind := (color.RGBA{c.R >> 4, c.G >> 4, c.B >> 4, 0}); alike[kind] {
			rest = append(rest, c)
		} else {
			alike[kind] = true
			first = append(first, c)
		}
	}
	palette := append(first, rest...)
	palette = palette[:min(256, len(palette))]
	nearest := map[color.RGBA]uint8{}
	for c := range count {
		nearest[c] = uint8(palette.Index(c))
	}
	to := image.NewPaletted(bounds, palette)
	for y := range bounds.Dy() {
		for x := range bounds.Dx() {
			to.SetColorIndex(x, y, nearest[at(x, y)])
		}
	}
	return to
}

// alike reports whether two pictures differ at most in a few edges, which Chromium smooths differently each time.
func alike(was, is image.Image) bool {
	if was.Bounds() != is.Bounds() {
		return false
	}
	differ := 0
	for y := range is.Bounds().Dy() {
		for x := range is.Bounds().Dx() {
			p, q := color.GrayModel.Convert(was.At(x, y)).(color.Gray).Y, color.GrayModel.Convert(is.At(x, y)).(color.Gray).Y
			differ += int(max(p, q) - min(p, q))
		}
	}
	return differ < 1000 // a changed letter makes a larger difference
}
