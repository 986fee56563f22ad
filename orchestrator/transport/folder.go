//go:build unix

package transport

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// folder is an open folder. Its methods take names within the folder, never paths, and do not follow links. They
// operate on the opened folder even if its path later leads elsewhere.
type folder struct{ *os.File }

// openFolder opens the folder at path. The last element of path must not be a link.
func openFolder(path string) (folder, error) {
	file, err := os.OpenFile(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return folder{}, fmt.Errorf("the folder %s does not exist; create it before the next attempt", path)
	}
	return folder{file}, folderError(path, err)
}

// makeFolders creates a folder and its parents, mode 0700, and returns when their names are durable.
func makeFolders(path string) error {
	err := os.Mkdir(path, 0o700)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeFolders(filepath.Dir(path)); err != nil {
			return err
		}
		err = os.Mkdir(path, 0o700)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// folderError explains why a path could not be opened as a folder.
func folderError(path string, err error) error {
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return fmt.Errorf("%s is a link or is not a folder; replace it with a folder before the next attempt",
			path)
	}
	return err
}

// at adds the operation and the path to an error of a system call.
func (f folder) at(doing, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: doing, Path: filepath.Join(f.Name(), name), Err: err}
}

// open opens a file or a folder within the folder. It does not block on a pipe.
func (f folder) open(name string, flags int) (*os.File, error) {
	for {
		fd, err := unix.Openat(int(f.Fd()), name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, f.at("cannot open", name, err)
		}
		return os.NewFile(uintptr(fd), filepath.Join(f.Name(), name)), nil
	}
}

// sub opens a subfolder and creates it, mode 0700, if it does not exist.
func (f folder) sub(name string) (folder, error) {
	file, err := f.open(name, unix.O_RDONLY|unix.O_DIRECTORY)
	for range 100 { // the subfolder may be created and removed meanwhile
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err := unix.Mkdirat(int(f.Fd()), name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return folder{}, f.at("cannot create", name, err)
		}
		file, err = f.open(name, unix.O_RDONLY|unix.O_DIRECTORY)
	}
	return folder{file}, folderError(filepath.Join(f.Name(), name), err)
}

// stagingFolder opens the staging folder of a root and creates it if it does not exist. It returns an error if
// other users can write to the folder, because a file that replaces a staged file would be delivered as the
// message.
func (f folder) stagingFolder() (folder, error) {
	staging, err := f.sub(StagingFolder)
	if err != nil {
		return staging, err
	}
	info, err := staging.Stat()
	if err == nil && info.Mode().Perm()&0o022 != 0 {
		err = fmt.Errorf("other users can write to %s and could put their own messages into it; run `chmod 700 %[1]s`",
			staging.Name())
	}
	if err != nil {
		staging.Close()
		return folder{}, err
	}
	return staging, nil
}

// write creates a new file and returns when its content is on the disk. The file's name is durable once the folder
// is synced.
func (f folder) write(name string, text []byte) error {
	file, err := f.open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(text, 0)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// holds reports whether name is a file with exactly this content. The content must not be empty.
func (f folder) holds(name string, text []byte) bool {
	file, err := f.open(name, unix.O_RDONLY)
	if err != nil {
		return false
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || info.Size() != int64(len(text)) {
		return false
	}
	found, err := io.ReadAll(io.LimitReader(file, int64(len(text))+1))
	return err == nil && bytes.Equal(found, text)
}

// has reports whether name exists in the folder.
func (f folder) has(name string) (bool, error) {
	var s unix.Stat_t
	err := unix.Fstatat(int(f.Fd()), name, &s, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, f.at("cannot examine", name, err)
}

// remove removes a file. A file that does not exist is not an error.
func (f folder) remove(name string) error {
	err := unix.Unlinkat(int(f.Fd()), name, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return f.at("cannot remove", name, err)
}

// touch sets a file's modification time to now.
func (f folder) touch(name string) error {
	at, err := unix.TimeToTimespec(time.Now())
	if err == nil {
		err = unix.UtimesNanoAt(int(f.Fd()), name, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW)
	}
	return f.at("cannot set the modification time of", name, err)
}

// renameChecked renames a file to a name that does not exist yet, for systems that cannot do so atomically: a file
// that gets the name between the check and the rename is replaced. (With a link and a removal of the old name
// instead, a crash between the two would leave the result undecidable.)
func renameChecked(from folder, old string, to folder, name string) error {
	if taken, err := to.has(name); err != nil {
		return err
	} else if taken {
		return unix.EEXIST
	}
	return unix.Renameat(int(from.Fd()), old, int(to.Fd()), name)
}
