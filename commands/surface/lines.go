package surface

import (
	"bufio"
	"bytes"
	"errors"
)

// MaxLine bounds one line of input, in bytes; the decoder has a tighter bound, and says so.
const MaxLine = 4 << 20

// ReadLine reads one line without its end. long is true when it was longer than MaxLine; the excess is thrown away.
func ReadLine(r *bufio.Reader) (line []byte, long bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) <= MaxLine {
			line = append(line, part...)
		} else {
			long = true
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimRight(line, "\r\n"), long, err
		}
	}
}
