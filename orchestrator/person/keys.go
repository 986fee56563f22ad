package person

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// The subfolders of the key folder.
const (
	repliesFolder = "replies" // a file per encrypted question: the keys that open and check its answer
	clearFolder   = "clear"   // a file per unencrypted question: the content that must not change
	devicesFolder = "devices" // a file per approved device: its recipient
	vouchedFolder = "vouched" // a file per answer of an approved device that was returned as a message: its digest
)

var folders = []string{repliesFolder, clearFolder, devicesFolder, vouchedFolder}

// maxKeyFile is the most bytes that are read from a key file. The largest file is that of a question with five
// options.
const maxKeyFile = 16 << 10

// keys is the folder DATABASE-signal. It holds data that must not be in the table, because anyone who can write to
// the table could change the data, and anyone who can read a backup could read it. The folder belongs to one system
// user: files that other users own or can access are rejected, and links are never followed. Two processes may use it
// at the same time.
type keys struct {
	path string
	root *os.Root // nil: the folder does not exist, so it holds nothing
}

// openKeys opens the folder. If create is set, a missing folder is created. The caller closes it.
func openKeys(l *ledger.Ledger, create bool) (*keys, error) {
	k := &keys{path: l.FilePrefix() + "-signal"}
	if create {
		if err := makeFolders(k.path); err != nil {
			return nil, k.failed("cannot create", "", err)
		}
	}
	info, err := os.Lstat(k.path)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err == nil {
		err = k.check("", info, fs.ModeDir)
	}
	if err != nil {
		return nil, k.failed("cannot open", "", err)
	}
	if k.root, err = os.OpenRoot(k.path); err != nil {
		return nil, k.failed("cannot open", "", err)
	}
	for _, folder := range append([]string{"."}, folders...) {
		if info, err = k.root.Lstat(folder); err == nil {
			err = k.check(folder, info, fs.ModeDir)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			k.close()
			return nil, k.failed("cannot open", folder, err)
		}
	}
	return k, nil
}

func (k *keys) close() {
	if k.root != nil {
		k.root.Close()
	}
}

// makeFolders creates the missing parts of the key folder, and syncs them so that they survive a power failure.
func makeFolders(path string) error {
	made := false
	for _, folder := range append([]string{"."}, folders...) {
		err := os.Mkdir(filepath.Join(path, folder), 0o700)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		made = made || err == nil
	}
	if !made {
		return nil
	}
	if err := store.SyncFolder(path); err != nil {
		return err
	}
	return store.SyncFolder(filepath.Dir(path))
}

// check rejects a file of the wrong kind, or one that belongs to or is accessible to another user.
func (k *keys) check(name string, info fs.FileInfo, kind fs.FileMode) error {
	path := filepath.Join(k.path, name)
	if info.Mode().Type() != kind {
		return orchestrator.Errorf(orchestrator.PermissionDenied, "%s is not the expected kind of file (mode %s)",
			path, info.Mode()).
			WithHint("Find out who created it, and remove it")
	}
	if !store.IsOwn(info) {
		return orchestrator.Errorf(orchestrator.PermissionDenied, "%s must belong to the user %d, but belongs to another user", path, os.Geteuid()).
			WithHint("Run the command as the user who owns the keys")
	}
	if !store.IsPrivate(info) {
		return orchestrator.Errorf(orchestrator.PermissionDenied, "%s must not be accessible to other users, but has mode %04o",
			path, info.Mode().Perm()).
			WithHint("Run `chmod go= %s`", path)
	}
	return nil
}

// failed adds the failed operation to an error. Errors from check are returned unchanged, because they are complete.
func (k *keys) failed(doing, name string, err error) error {
	if own, ok := errors.AsType[*orchestrator.Error](err); ok {
		return own
	}
	return &orchestrator.Error{Code: orchestrator.Unavailable,
		Message: fmt.Sprintf("%s %s", doing, filepath.Join(k.path, name)), Err: err}
}

// plainID reports whether an ID has the form of the IDs that Mailroom creates: a lower-case letter, a dash, and 8 to
// 64 letters and digits. IDs become file names, and anyone may have written one into the table.
func plainID(id string) bool {
	return len(id) >= 2+8 && len(id) <= 2+64 && id[0] >= 'a' && id[0] <= 'z' && id[1] == '-' &&
		strings.Trim(id[2:], orchestrator.Alphanumeric) == ""
}

// file returns the path of the file of an ID in a folder. Error: invalid_params for an ID in another form.
func file(folder, id string) (string, error) {
	if !plainID(id) {
		return "", orchestrator.Errorf(orchestrator.InvalidParams, "%q is not a valid ID of a question or a device",
			orchestrator.Clip(id))
	}
	return filepath.Join(folder, id), nil
}

// write stores a value as the file of an ID, and replaces an older file. The file is on disk when write returns, and
// is never there in part.
func (k *keys) write(folder, id string, value any) error {
	return k.store(folder, id, value, func(draft, name string) error { return k.root.Rename(draft, name) })
}

// create stores a value as the file of an ID, but leaves an existing file unchanged.
func (k *keys) create(folder, id string, value any) error {
	return k.store(folder, id, value, func(draft, name string) error {
		err := k.root.Link(draft, name)
		if errors.Is(err, fs.ErrExist) {
			err = nil
		}
		return errors.Join(err, k.root.Remove(draft))
	})
}

// draftPrefix begins the name of a file that is being written.
const draftPrefix = ".new-"

func (k *keys) store(folder, id string, value any, place func(draft, name string) error) error {
	name, err := file(folder, id)
	if err != nil {
		return err
	}
	content, err := orchestrator.JSON(value)
	if err != nil {
		return err
	}
	draft := filepath.Join(repliesFolder, draftPrefix+rand.Text()) // sweep removes files left by killed processes
	if err := k.writeDraft(draft, content); err != nil {
		return k.failed("cannot write", draft, errors.Join(err, k.root.Remove(draft)))
	}
	if err := place(draft, name); err != nil {
		return k.failed("cannot write", name, err)
	}
	return k.sync(folder)
}

func (k *keys) writeDraft(name string, content []byte) error {
	f, err := k.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}

func (k *keys) sync(folder string) error {
	f, err := k.root.Open(folder)
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err != nil {
		return k.failed("cannot sync", folder, err)
	}
	return nil
}

// read reads the file of an ID into a value. Errors: fs.ErrNotExist if there is no file; permission_denied for a file
// that other users own or can access.
func (k *keys) read(folder, id string, into any) error {
	name, err := file(folder, id)
	if err != nil {
		return err
	}
	if k.root == nil {
		return fs.ErrNotExist
	}
	content, err := k.content(name)
	if err == nil {
		if err = json.Unmarshal(content, into); err != nil {
			err = errors.New("the file is not in the format that Mailroom writes") // the cause could repeat it
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return k.failed("cannot read", name, err)
	}
	return err
}

func (k *keys) content(name string) ([]byte, error) {
	info, err := k.root.Lstat(name)
	if err == nil {
		err = k.check(name, info, 0)
	}
	if err != nil {
		return nil, err
	}
	if info.Size() > maxKeyFile {
		return nil, errors.New("the file is too large")
	}
	return k.root.ReadFile(name)
}

// remove removes the file of an ID, if it exists.
func (k *keys) remove(folder, id string) error {
	name, err := file(folder, id)
	if err != nil || k.root == nil {
		return err
	}
	return k.removeFile(name)
}

func (k *keys) removeFile(name string) error {
	if err := k.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return k.failed("cannot remove", name, err)
	}
	return nil
}

// names lists the files in a folder.
func (k *keys) names(folder string) (names []string, err error) {
	if k.root == nil {
		return nil, nil
	}
	f, err := k.root.Open(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		defer f.Close()
		names, err = f.Readdirnames(-1)
	}
	if err != nil {
		return nil, k.failed("cannot list", folder, err)
	}
	return names, nil
}
