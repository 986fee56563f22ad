package check

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// networkFileSystems maps magic numbers (statfs(2)) to the names of file systems whose locks or shared memory are
// unreliable.
var networkFileSystems = map[int64]string{
	unix.NFS_SUPER_MAGIC:  "nfs",
	unix.SMB_SUPER_MAGIC:  "smb",
	unix.SMB2_SUPER_MAGIC: "smb2",
	unix.CIFS_SUPER_MAGIC: "cifs",
	unix.AFS_SUPER_MAGIC:  "afs",
	unix.CODA_SUPER_MAGIC: "coda",
	unix.V9FS_MAGIC:       "9p",
	unix.FUSE_SUPER_MAGIC: "fuse",
	unix.CEPH_SUPER_MAGIC: "ceph",
}

// fileSystemOf returns the name of the file system of a folder, and whether it is a network one. An unknown name is
// "".
func fileSystemOf(folder string) (kind string, network bool) {
	var s unix.Statfs_t
	if unix.Statfs(folder, &s) != nil {
		return "", false
	}
	if name, ok := networkFileSystems[int64(s.Type)]; ok {
		return name, true
	}
	return fmt.Sprintf("type %#x", uint32(s.Type)), false
}
