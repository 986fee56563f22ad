package main

import (
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// modules is a QR code: whether each of its squares is dark, by row and column.
type modules [][]bool

// layouts describes the QR codes of each version with error correction M: the number of blocks, and the bytes of data
// in each. Source: ISO/IEC 18004, table 9.
var layouts = []struct{ blocks, data int }{1: {1, 16}, 2: {1, 28}, 3: {1, 44}, 4: {2, 32}, 5: {2, 43}, 6: {4, 27}}

// masks determine which squares are inverted. Source: ISO/IEC 18004, table 10.
var masks = []func(y, x int) bool{
	func(y, x int) bool { return (y+x)%2 == 0 },
	func(y, _ int) bool { return y%2 == 0 },
	func(_, x int) bool { return x%3 == 0 },
	func(y, x int) bool { return (y+x)%3 == 0 },
	func(y, x int) bool { return (y/2+x/3)%2 == 0 },
	func(y, x int) bool { return y*x%2+y*x%3 == 0 },
	func(y, x int) bool { return (y*x%2+y*x%3)%2 == 0 },
	func(y, x int) bool { return ((y+x)%2+y*x%3)%2 == 0 },
}

// text decodes a QR code of versions 1 to 6 according to the standard. It corrects no errors, because there are none.
func (m modules) text() (string, error) {
	version, format := (len(m)-17)/4, 0
	if version < 1 || version >= len(layouts) || len(m) != 17+4*version {
		return "", fmt.Errorf("it has %d rows", len(m))
	}
	for _, at := range [][2]int{{8, 0}, {8, 1}, {8, 2}, {8, 3}, {8, 4}, {8, 5}, {8, 7}, {8, 8}, {7, 8}, {5, 8}, {4, 8},
		{3, 8}, {2, 8}, {1, 8}, {0, 8}} {
		format = format<<1 | bit(m[at[0]][at[1]])
	}
	format ^= 0x5412
	if format>>13 != 0 {
		return "", fmt.Errorf("its error correction is not M: %b", format)
	}
	var words []byte
	bits, word := 0, 0
	m.walk(version, func(y, x int) {
		word = word<<1 | bit(m[y][x] != masks[format>>10&7](y, x))
		if bits++; bits%8 == 0 {
			words, word = append(words, byte(word)), 0
		}
	})
	blocks, size := layouts[version].blocks, layouts[version].data
	var data []byte
	for block := range blocks {
		for at := range size {
			data = append(data, words[at*blocks+block])
		}
	}
	if data[0]>>4 != 4 {
		return "", fmt.Errorf("its text is not one of bytes: %x", data[0])
	}
	n := int(data[0]&15)<<4 | int(data[1]>>4)
	text := make([]byte, n)
	for i := range text {
		text[i] = data[1+i]<<4 | data[2+i]>>4
	}
	return string(text), nil
}

// walk visits the squares that hold data: two columns at a time from the right, up and down in turn.
func (m modules) walk(version int, visit func(y, x int)) {
	size, align := len(m), 10+4*version
	up := true
	for right := size - 1; right > 0; right -= 2 {
		if right == 6 {
			right-- // the timing column
		}
		for i := range size {
			y := i
			if up {
				y = size - 1 - i
			}
			for _, x := range []int{right, right - 1} {
				finder := y < 9 && (x < 9 || x >= size-8) || y >= size-8 && x < 9
				aligned := version > 1 && max(y-align, align-y) <= 2 && max(x-align, align-x) <= 2
				if !finder && !aligned && y != 6 {
					visit(y, x)
				}
			}
		}
		up = !up
	}
}

func bit(dark bool) int {
	if dark {
		return 1
	}
	return 0
}

// cropped returns a QR code without the quiet zone around it, which cameras require, or nil if there is none.
func (m modules) cropped() (code modules) {
	const quiet = 4
	for y := quiet; y < len(m)-quiet; y++ {
		if slices.Contains(slices.Concat(m[y][:quiet], m[y][len(m[y])-quiet:], m[0], m[1]), true) {
			return nil
		}
		code = append(code, m[y][quiet:len(m[y])-quiet])
	}
	return code
}

// TestQRCode checks that the picture and the terminal show QR codes of the address.
func TestQRCode(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.run("setting", "set", "signal.url", "https://phone.example.com")
	path := filepath.Join(t.TempDir(), "pair.png")
	url, _ := o.run("signal", "pair", "--png", path)["url"].(string)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	picture, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	const scale = 8 // pixels to a square
	var code modules
	for y := scale / 2; y < picture.Bounds().Dy(); y += scale {
		var row []bool
		for x := scale / 2; x < picture.Bounds().Dx(); x += scale {
			r, _, _, _ := picture.At(x, y).RGBA()
			row = append(row, r < 0x8000)
		}
		code = append(code, row)
	}
	if text, err := code.cropped().text(); err != nil || text != url ||
		!strings.HasPrefix(url, "https://phone.example.com/pair#c=") {
		t.Errorf("the picture says %q, %v; want %q", text, err, url)
	}

	shown, err := o.command("signal", "pair", "--output", "text").Output()
	if err != nil {
		t.Fatal(err)
	}
	drawn, _, _ := strings.Cut(string(shown), "\n\n")
	code = nil
	for line := range strings.Lines(drawn) { // two rows each, light on dark
		var upper, lower []bool
		for _, half := range strings.TrimSuffix(line, "\n") {
			upper, lower = append(upper, half == ' ' || half == '▄'), append(lower, half == ' ' || half == '▀')
		}
		code = append(code, upper, lower)
	}
	code = code[:len(code[0])] // the last line may have one row
	if text, err := code.cropped().text(); err != nil || !strings.Contains(string(shown), "open "+text+" on the phone") ||
		len(text) != len(url) {
		t.Errorf("the terminal says %q, %v:\n%s", text, err, shown)
	}
}
