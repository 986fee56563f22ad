package letter

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Suffix is the end of every file name of a message.
const Suffix = ".json"

// maxName is the longest file name that file systems allow, in bytes.
const maxName = 255

// FileName returns the name of the file for a message: `{id}.json` if the id consists of letters, digits, '.', '_'
// and '-' and does not begin with a dot. Every other byte becomes % and two hexadecimal digits. A name that would be
// too long ends with the SHA-256 of the id instead. Different ids have different names. Error: an empty id.
func FileName(id string) (string, error) {
	if id == "" {
		return "", errors.New("the message has no id")
	}
	var name strings.Builder
	for i, c := range []byte(id) {
		if plain(c) && (c != '.' || i > 0) {
			name.WriteByte(c)
		} else {
			fmt.Fprintf(&name, "%%%02X", c)
		}
	}
	if name.Len()+len(Suffix) <= maxName {
		return name.String() + Suffix, nil
	}
	sum := sha256.Sum256([]byte(id))
	hash := "%-" + hex.EncodeToString(sum[:]) // no byte is written as %-, so no id has this name on its own
	return name.String()[:maxName-len(hash)-len(Suffix)] + hash + Suffix, nil
}

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
}
