package surface

import (
	"bufio"
	"bytes"
	"errors"

	"mailroom/orchestrator"
)

// MaxLine is the maximum length of one line of input, in bytes. The decoder has a lower limit and reports it.
const MaxLine = 4 << 20

// ReadLine reads one line from r and returns it without its line ending. It removes a byte order mark at the start of
// the line: PowerShell writes one, and joined files have one at each seam. If the line is longer than MaxLine bytes,
// ReadLine does not return the line: it sets long and passes the whole line, piece by piece, to skimmed unless
// skimmed is nil. err is the read error of r; ReadLine can return a line together with an error.
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
