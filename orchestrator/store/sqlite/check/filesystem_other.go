//go:build !linux

package check

import "golang.org/x/sys/unix"

// fileSystemOf names the file system that holds a folder, and says whether it is a network one. "" is unknown.
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
