package phone_test

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// TestIcons draws the icons and compares them with the committed ones, pixel by pixel, since the compression of
// pictures may change with Go.
func TestIcons(t *testing.T) {
	for name, drawn := range map[string]image.Image{
		"icon-192.png": draw(192, false),
		"icon-512.png": draw(512, false),
		"badge-96.png": draw(96, true),
	} {
		file := filepath.Join("www", name)
		if *update {
			var out bytes.Buffer
			if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, drawn); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		committed, err := png.Decode(bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		if committed.Bounds() != drawn.Bounds() {
			t.Fatalf("%s is %v, drawn is %v", file, committed.Bounds(), drawn.Bounds())
		}
		for y := range drawn.Bounds().Dy() {
			for x := range drawn.Bounds().Dx() {
				if color.NRGBAModel.Convert(committed.At(x, y)) != drawn.At(x, y) {
					t.Fatalf("%s differs from what is drawn at %d,%d; run make phone", file, x, y)
				}
			}
		}
	}
}

// draw draws an envelope on a square that fills the picture, since platforms cut their own shape out of the square.
// The important part is within the middle 80 %. A badge is only the white shape of the envelope, which Android colors
// itself.
func draw(size int, badge bool) *image.NRGBA {
	picture := image.NewNRGBA(image.Rect(0, 0, size, size))
	ground, paper := color.NRGBA{0x17, 0x59, 0x4f, 0xff}, color.NRGBA{0xf4, 0xf3, 0xef, 0xff}
	scale := 1.0
	if badge {
		ground, paper = color.NRGBA{0xff, 0xff, 0xff, 0}, color.NRGBA{0xff, 0xff, 0xff, 0xff}
		scale = 0.62 // without a background, it may be larger
	}
	const fine = 8 // samples per pixel in each direction
	for y := range size {
		for x := range size {
			inside := 0
			for n := range fine * fine {
				u := (float64(x) + (float64(n%fine)+0.5)/fine) / float64(size)
				v := (float64(y) + (float64(n/fine)+0.5)/fine) / float64(size)
				if envelope((u-0.5)*scale, (v-0.5)*scale) {
					inside++
				}
			}
			picture.SetNRGBA(x, y, blend(ground, paper, inside, fine*fine))
		}
	}
	return picture
}

// envelope reports whether a point belongs to the envelope: a rounded rectangle without the line of its flap.
// Coordinates range from -0.5 to 0.5.
func envelope(u, v float64) bool {
	const halfWidth, halfHeight, round = 0.29, 0.2, 0.035
	beyondX := max(math.Abs(u)-(halfWidth-round), 0)
	beyondY := max(math.Abs(v)-(halfHeight-round), 0)
	if math.Hypot(beyondX, beyondY) > round {
		return false
	}
	// The flap runs from the upper corners to a point slightly below the middle. Its line has a constant width.
	const top, tip, line = -0.165, 0.045, 0.034
	slope := (tip - top) / halfWidth
	distance := math.Abs(v-(tip-slope*math.Abs(u))) / math.Hypot(1, slope)
	return distance > line/2
}

// blend mixes two colors, with part/all of the second.
func blend(a, b color.NRGBA, part, all int) color.NRGBA {
	mix := func(from, to uint8) uint8 { return uint8((int(from)*(all-part) + int(to)*part + all/2) / all) }
	return color.NRGBA{mix(a.R, b.R), mix(a.G, b.G), mix(a.B, b.B), mix(a.A, b.A)}
}
