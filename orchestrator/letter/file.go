package letter

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Suffix ends the name of every file with a message.
const Suffix = ".json"

// maxName is the longest file name that file systems take, in bytes.
const maxName = 255

// FileName is the name of the file with a message: `{id}.json` where the id is letters, digits, '.', '_' and '-' and
// does not begin with a dot. Any other byte becomes % and two hexadecimal digits; a name that would be too long ends
// with the SHA-256 of the id instead. Different ids have different names. Error: an empty id.
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
	hash := "%-" + hex.EncodeToString(sum[:]) // no byte is written as %-, so that no id has this name by itself
	return name.String()[:maxName-len(hash)-len(Suffix)] + hash + Suffix, nil
}

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
}

// Identity tells files and folders apart, wherever they were moved.
type Identity struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	Born   int64  `json:"born"` // ns since 1970; 0: the file system does not say. An inode number is used again
}

// Identify returns the identity of an open file or folder. Errors: those of the system.
func Identify(file *os.File) (id Identity, err error) {
	var s unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &s); err != nil {
		return id, fmt.Errorf("looking at %s: %w", file.Name(), err)
	}
	return Identity{Device: uint64(s.Dev), Inode: s.Ino, Born: born(file)}, nil
}

// Same reports whether two identities are of one file. The number of a device may change when the machine starts anew,
// so it counts only if the time of birth is not known.
func (id Identity) Same(now Identity) bool {
	return now.Inode == id.Inode && now.Born == id.Born && (id.Born != 0 || now.Device == id.Device)
}

func (id Identity) String() string { return fmt.Sprintf("%d-%d-%d", id.Device, id.Inode, id.Born) }
