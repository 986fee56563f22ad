package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/bridge/letters"
	"mailroom/orchestrator/letter"
	"mailroom/orchestrator/store"
)

// maxFile is the maximum size of an imported file, in bytes: a payload of orchestrator.MaxPayload with room for
// indentation.
const maxFile = 4 * orchestrator.MaxPayload

// grace is how long an invalid file is left alone, because its writer may not have finished.
const grace = 2 * time.Second

// settled is how long the file of a delivered message must be missing while its folder stays before its recipient
// counts as having removed the file. Removing a folder removes its files first.
var settled = time.Second

// file is an entry of an inbox folder with the name of a message file. An empty name is the folder itself.
type file struct {
	name string
	info fs.FileInfo
}

// print returns a fingerprint of the file: its size, time, inode and permissions.
func (f file) print() string {
	inode := uint64(0)
	if s, ok := f.info.Sys().(*syscall.Stat_t); ok {
		inode = s.Ino
	}
	return fmt.Sprintf("%d-%d-%d-%o", f.info.Size(), f.info.ModTime().UnixNano(), inode, f.info.Mode().Perm())
}

// isYoung reports whether a file was changed so recently that it may be incomplete.
func (p *pass) isYoung(f file) bool {
	age := p.clock().Sub(f.info.ModTime())
	return age < grace && age > -grace // a time in the future means that the writer has finished
}

// clockFile is the file whose time clockOf sets.
const clockFile = private + "/clock"

// makeClock creates the file for clockOf when a watch begins.
func makeClock(root *os.Root) {
	if f, err := root.OpenFile(clockFile, os.O_CREATE|os.O_WRONLY|syscall.O_NONBLOCK, 0o600); err == nil {
		f.Close()
	}
}

// clockOf returns the time of the clock that sets file times, which may be another machine's. If clockFile does not
// exist, it returns this machine's time, because a check creates nothing that might obstruct a removal of the root.
func clockOf(root *os.Root) time.Time {
	probe, err := root.OpenFile(clockFile, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return time.Now()
	}
	defer probe.Close()
	if _, err := probe.WriteAt([]byte{'\n'}, 0); err != nil {
		return time.Now()
	}
	info, err := probe.Stat()
	if err != nil {
		return time.Now()
	}
	return info.ModTime()
}

// list returns the possible message files, oldest first.
func (p *pass) list(in *os.Root) (files []file, err error) {
	entries, err := fs.ReadDir(in.FS(), ".")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if name := e.Name(); strings.HasSuffix(name, letter.Suffix) && !strings.HasPrefix(name, ".") {
			info, err := in.Lstat(name)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			files = append(files, file{name, info})
		}
	}
	slices.SortStableFunc(files, func(a, b file) int { return a.info.ModTime().Compare(b.info.ModTime()) })
	return files, nil
}

// files processes the new and changed files.
func (p *pass) files(ctx context.Context, in *os.Root, folder string, files []file) error {
	var fresh []file
	for _, f := range files {
		if old := p.before[f.name]; old.print == f.print() && (old.settled || time.Now().Before(old.retry)) {
			p.now[f.name] = old
		} else {
			fresh = append(fresh, f)
		}
	}
	if len(fresh) > 0 && p.isInbox(folder) {
		if err := syncFolder(in); err != nil {
			return err
		}
	}
	for _, f := range fresh {
		if err := p.file(ctx, in, folder, f); err != nil {
			return err
		}
	}
	return nil
}

// isInbox reports whether the owner of a folder reads the files in it.
func (p *pass) isInbox(folder string) bool {
	a := p.agents[folder]
	return a != nil && a.Deliver == p.target
}

// syncFolder makes the names in a folder durable.
func syncFolder(in *os.Root) error {
	folder, err := in.Open(".")
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}

// file imports one file, if possible.
func (p *pass) file(ctx context.Context, in *os.Root, folder string, f file) error {
	p.now[f.name] = sight{print: f.print()} // check the file again, unless another result is stored below
	if kind := kindOf(f.info.Mode()); kind != "" {
		return p.report(ctx, folder, f, errors.New("a message must be a regular file, but this is "+kind))
	}
	text, err := f.read(in, p.isInbox(folder))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		delete(p.now, f.name)
		return nil
	case errors.Is(err, errMoved):
		return nil
	case errors.Is(err, fs.ErrPermission):
		return p.report(ctx, folder, f, errors.New("cannot read the file: "+reason(err)))
	case err != nil && !errors.Is(err, errLarge):
		return err
	}
	var message letters.TakenIn
	if err == nil {
		message, err = p.message(folder, f.name, text)
	}
	if err == nil {
		return p.takeIn(ctx, in, folder, f, text, message)
	}
	if p.isYoung(f) {
		return nil
	}
	if ours, failure := p.isDelivered(ctx, folder, f, text); ours || failure != nil {
		p.now[f.name] = sight{print: f.print(), settled: true}
		return failure
	}
	return p.report(ctx, folder, f, err)
}

// kindOf describes a file that is not regular, and returns "" for a regular file.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return ""
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	}
	return "a special file (" + mode.String() + ")"
}

// errLarge is the error for a file that is too large.
var errLarge = orchestrator.Errorf(orchestrator.InvalidParams, "the file is too large: the limit is %d bytes",
	maxFile).
	WithHint("Write the content to another file and send the path of that file")

// read returns the content of the file. With sync, read syncs the file first, which is necessary before the file
// counts as a delivery. Errors: errLarge; errMoved if another file has taken its place.
func (f file) read(in *os.Root, sync bool) ([]byte, error) {
	if f.info.Size() > maxFile {
		return nil, errLarge
	}
	opened, err := in.OpenFile(f.name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe in its place must not block
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	info, err := opened.Stat()
	if err != nil || (file{f.name, info}).print() != f.print() {
		return nil, errors.Join(err, errMoved)
	}
	text, err := io.ReadAll(io.LimitReader(opened, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = errMoved // the file is growing
	}
	if err == nil && sync {
		err = opened.Sync()
	}
	return text, err
}

// message parses a file as a message to the owner of its folder. Error: invalid_params.
func (p *pass) message(folder, name string, text []byte) (in letters.TakenIn, err error) {
	l, err := letter.Parse(text)
	if err != nil {
		return in, err
	}
	if name, err := orchestrator.CheckName("agent", folder); err != nil || name != folder {
		return in, orchestrator.Errorf(orchestrator.InvalidParams,
			"%q cannot be the inbox folder of an agent: the name of an agent starts with a-z, followed by a-z, 0-9, _, or -", folder).
			WithHint("Move the file to the folder of its recipient")
	}
	if to, err := orchestrator.CheckName("recipient", l.To); err != nil || to != folder {
		return in, orchestrator.Errorf(orchestrator.InvalidParams, "to: the message is to %s, but is in the folder %s",
			orchestrator.Clip(l.To), folder).
			WithHint("Move the file to the folder of its recipient")
	}
	in = letters.TakenIn{Draft: l.Draft(), ID: l.ID, Path: p.path(folder, name), Target: p.target}
	says, err := p.check(&l)
	in.Fault, in.Presence = cmp.Or(orchestrator.CheckPairs("the file", text), err), says
	in.Done = folder == p.o.Name && says != ""
	return in, nil
}

// check applies the rules of `ralph send` to a message, and returns the presence in a status_update.
func (p *pass) check(l *letter.Letter) (says orchestrator.PresenceStatus, err error) {
	sender, err := orchestrator.CheckName("sender", l.From)
	if err != nil {
		return "", fmt.Errorf("from: %w", err)
	}
	if l.Payload[0] != '{' {
		return "", orchestrator.Errorf(orchestrator.InvalidParams, "payload: must be a JSON object").
			WithHint(`Use the form {"key": ...}`)
	}
	if at, err := time.Parse(time.RFC3339, l.ExpiresAt); err == nil && !at.After(p.engine.Now()) {
		// For example, a delivered file whose row has been deleted.
		return "", orchestrator.Errorf(orchestrator.InvalidParams, "expires_at: the message expired at %s", l.ExpiresAt).
			WithHint("Remove the file")
	}
	from, to := p.agents[sender], p.agents[strings.ToLower(l.To)]
	if p.strict && from != nil && to != nil {
		if err := letter.CheckRoute(l.Type, letter.Party{Name: from.Name, Role: from.Role},
			letter.Party{Name: to.Name, Role: to.Role}); err != nil {
			return "", err
		}
	}
	return letter.Check(l.Type, sender, l.Payload)
}

// takeIn stores the message of a file, and removes the file unless it is the delivery itself.
func (p *pass) takeIn(ctx context.Context, in *os.Root, folder string, f file, text []byte,
	message letters.TakenIn) error {
	var err error
	if message.Mark, err = noteOf(in, f.name); err != nil {
		return err
	}
	got, err := letters.TakeIn(ctx, p.engine.Ledger, message)
	var refused *orchestrator.Error
	switch code := orchestrator.CodeOf(err); {
	case err == nil:
	case store.IsRefused(err):
		return p.wait(ctx, folder, f, err)
	case code == orchestrator.InvalidParams || code == orchestrator.Conflict:
		return p.report(ctx, folder, f, err)
	case code == orchestrator.UnknownSender || code == orchestrator.UnknownRecipient:
		return p.report(ctx, folder, f,
			fmt.Errorf("%w; if the agent reads from folders in this root, add --deliver %s", err, p.target))
	case code == orchestrator.Unavailable && errors.As(err, &refused) && refused.Recipient != "":
		return p.wait(ctx, folder, f, err)
	default:
		return err
	}
	if !got.Known {
		p.count(Counts{TakenIn: 1})
		p.log.Debug("imported", "path", message.Path, "message_id", message.ID)
	}
	if message.Done && !got.Placed && !got.Known {
		p.count(Counts{Acknowledged: 1})
	}
	if got.Placed && got.Known && !message.Done {
		if err := p.follow(ctx, in, f, message.ID, got.Mark); err != nil {
			return err
		}
	}
	if got.Placed {
		p.now[f.name] = sight{print: f.print(), settled: !message.Done}
		return nil
	}
	switch err := p.remove(in, folder, f, text); {
	case err == nil:
		delete(p.now, f.name)
		return nil
	case errors.Is(err, errMoved):
		return nil
	default:
		return p.wait(ctx, folder, f, errors.New("the message was imported, but its file cannot be removed: "+reason(err)))
	}
}

// follow records the new place of a delivered message's file if the file is no longer where it was put: its writer
// or its reader renamed it, or the folder was copied or restored.
func (p *pass) follow(ctx context.Context, in *os.Root, f file, id, mark string) error {
	here, err := identify(in)
	if err != nil {
		return err
	}
	there, name, err := parseNote(id, mark)
	if err == nil && there.Same(here) {
		if _, err := in.Lstat(name); name == f.name || !errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	note, err := moved(in, f.name, mark)
	if err != nil {
		return err
	}
	return letters.MovePlaced(ctx, p.engine.Ledger, id, p.target, mark, note)
}

// wait reports a problem that may go away without a change of the file, and skips the file for a while.
func (p *pass) wait(ctx context.Context, folder string, f file, problem error) error {
	p.now[f.name] = sight{print: f.print(), problem: problem.Error(), retry: time.Now().Add(seldom * p.o.Rescan)}
	return p.tell(ctx, folder, f.name)
}
