//go:build !linux

package check

import "golang.org/x/sys/unix"

// fileSystemOf returns the name of the file system of a folder, and whether it is a network one. An unknown name is
// "".
func fileSystemOf(folder string) (kind string, network bool) {
	var s unix.Statfs_t
	if unix.Statfs(folder, &s) != nil {
		return "", false
	}
	kind = unix.ByteSliceToString(s.Fstypename[:])
	switch kind {
	case "nfs", "smbfs", "afpfs", "webdav", "cifs":
		return kind, true
	}
	return kind, false
}
