package surface

import (
	"bufio"
	"bytes"
	"errors"

	"mailroom/orchestrator"
)

// MaxLine bounds one line of input, in bytes; the decoder has a tighter bound, and says so.
const MaxLine = 4 << 20

// ReadLine reads one line without its end, and without a byte order mark before it: PowerShell writes one, and files
// that were joined have one at each seam. A line of more than MaxLine bytes is not returned: long is true, and skimmed
// has got all of it, piece by piece, unless it is nil. err is that of r; there may be a line beside it.
func ReadLine(r *bufio.Reader, skimmed func(piece []byte)) (line []byte, long bool, err error) {
	if skimmed == nil {
		skimmed = func([]byte) {}
	}
	for {
		piece, err := r.ReadSlice('\n')
		switch {
		case long:
			skimmed(piece)
		case len(line)+len(piece) > MaxLine:
			skimmed(line)
			skimmed(piece)
			line, long = nil, true
		default:
			line = append(line, piece...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return orchestrator.WithoutMark(bytes.TrimRight(line, "\r\n")), long, err
		}
	}
}
