package program

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// TailSize is how many bytes are kept of the beginning of a command's output, and how many of its end.
const TailSize = 4 << 10

// Tails keeps the first and the last TailSize bytes of what is written to it, and counts the rest. The zero value is
// empty. It must not be used concurrently.
type Tails struct {
	head, last []byte // last is a ring once it is full
	at         int    // where the ring begins
	left       int64  // bytes that were dropped
}

// Write takes everything and never fails.
func (t *Tails) Write(p []byte) (int, error) {
	n := len(p)
	take := min(TailSize-len(t.head), len(p))
	t.head, p = append(t.head, p[:take]...), p[take:]
	if skip := len(p) - TailSize; skip > 0 {
		t.left += int64(skip + len(t.last))
		t.last, t.at, p = t.last[:0], 0, p[skip:]
	}
	take = min(TailSize-len(t.last), len(p))
	t.last, p = append(t.last, p[:take]...), p[take:]
	for _, b := range p {
		t.last[t.at] = b
		t.at = (t.at + 1) % TailSize
		t.left++
	}
	return n, nil
}

// String is the text that was kept, with a note of how much is left out between its beginning and its end. It is UTF-8
// without NUL, whatever was written: what is not is replaced.
func (t *Tails) String() string {
	last := string(t.last[t.at:]) + string(t.last[:t.at])
	if t.left == 0 {
		return readable(string(t.head) + last)
	}
	head, left := string(t.head), t.left
	for i := 1; i < utf8.UTFMax && i <= len(head); i++ { // a character that the cut goes through is left out whole
		if start := len(head) - i; utf8.RuneStart(head[start]) {
			if !utf8.FullRuneInString(head[start:]) {
				head, left = head[:start], left+int64(i)
			}
			break
		}
	}
	for i := 0; i < utf8.UTFMax-1 && last != "" && !utf8.RuneStart(last[0]); i++ {
		last, left = last[1:], left+1
	}
	return fmt.Sprintf("%s\n[... %d bytes left out ...]\n%s", readable(head), left, readable(last))
}

func readable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// ReadLog returns what Tails keeps of a file that is the Log of a command, running or ended.
func ReadLog(path string) (string, error) { return readLog(path, 0) }

// readLog is ReadLog for one that has been cut by so many bytes.
func readLog(path string, cut int64) (string, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer file.Close()
	var t Tails
	if _, err := io.Copy(&t, io.NewSectionReader(file, 0, TailSize)); err != nil {
		return "", err
	}
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	from := max(TailSize, info.Size()-TailSize)
	t.left = from - TailSize + cut
	if _, err := io.Copy(&t, io.NewSectionReader(file, from, TailSize)); err != nil {
		return "", err
	}
	return t.String(), nil
}
