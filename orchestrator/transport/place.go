//go:build unix

package transport

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"

	"mailroom/orchestrator"
	"mailroom/orchestrator/letter"
)

// place is the note, as JSON, that an attempt stores with its messages before it writes: the file, identified so
// that it can be recognized, and the offset at which the attempt's lines begin.
type place struct {
	letter.Identity
	Size     int64  `json:"size"`     // offset at which the lines begin
	Modified int64  `json:"modified"` // ns since 1970
	Tail     string `json:"tail"`     // fingerprint of the bytes before Size
	First    string `json:"first"`    // ID of the first message of the attempt
}

// tailLength is the number of bytes before Size that the fingerprint covers: enough to contain a message ID.
const tailLength = 4096

// placeOf describes the file as it is now. The caller holds the lock.
func placeOf(file *os.File) (p place, err error) {
	info, err := file.Stat()
	if err != nil {
		return p, err
	}
	p = place{Size: info.Size(), Modified: info.ModTime().UnixNano()}
	if p.Identity, err = letter.Identify(file); err != nil {
		return p, err
	}
	p.Tail, err = fingerprint(file, p.Size)
	return p, err
}

// fingerprint returns a hash of the bytes before an offset.
func fingerprint(file *os.File, end int64) (string, error) {
	tail := make([]byte, min(end, tailLength))
	if _, err := file.ReadAt(tail, end-int64(len(tail))); err != nil {
		return "", fmt.Errorf("cannot read %s: %w", file.Name(), err)
	}
	sum := sha256.Sum256(tail)
	return hex.EncodeToString(sum[:8]), nil
}

// stillIn returns an error unless the file is the recorded one and still has the recorded content. An error that
// wraps ErrUndecidable describes what happened to the file.
func (p place) stillIn(file *os.File, now place) error {
	if !p.Same(now.Identity) {
		return undecidable(file.Name(), "the file was rotated or replaced, so a different file has its name now")
	}
	if now.Size < p.Size {
		return undecidable(file.Name(), fmt.Sprintf("the file was truncated from %d bytes to %d", p.Size, now.Size))
	}
	tail, err := fingerprint(file, p.Size)
	if err != nil {
		return err
	}
	if tail != p.Tail {
		return undecidable(file.Name(), "the content of the file was replaced")
	}
	return nil
}

// conclusive reports whether a search without a result proves that nothing was written. It does, unless the file
// was empty at the time of the note: it could have been emptied again since, and only its modification time would
// show that. A first line that begins like the attempt's own proves that it was not emptied.
func (p place) conclusive(now place, first []byte) bool {
	if p.Size > 0 || now.Modified == p.Modified {
		return true
	}
	start := append([]byte(`{"message_id":`), orchestrator.JSONString(p.First)...) // the form of writeLine
	return len(first) > 0 && (bytes.HasPrefix(first, start) || bytes.HasPrefix(start, first))
}

// undecidable returns the error for an unknown result, with what happened to the file and advice.
func undecidable(path, what string) error {
	return fmt.Errorf("the result of an attempt to write to %s is unknown, and %s: %w. Look for the message in the rotated or replaced file;"+
		" if the message is missing, replay the message", path, what, orchestrator.ErrUndecidable)
}
