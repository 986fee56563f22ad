package bridge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/bridge/letters"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/letter"
	"mailroom/tracing"
)

// sight is the result of a check of a file or folder.
type sight struct {
	print   string // fingerprint, see file.print
	problem string // problem that was reported; "" is none
	settled bool   // nothing to do until it changes

	retry time.Time // nothing to do before this time
}

// pass is one check of the root and its folders.
type pass struct {
	*watch
	root   *os.Root
	bin    *bin // of the current folder; nil until a file is removed from it
	agents map[string]*ledger.Agent
	clock  func() time.Time // clock of the file system

	before map[string]sight // results of the last check in the current folder
	now    map[string]sight // results of this check so far
}

// errMoved ends a check during which a file or folder was moved. The next check follows soon.
var errMoved = errors.New("a file or folder was moved during the check")

// look checks every folder of the root and deletes the records of problems that no longer exist.
func (w *watch) look(ctx context.Context) (err error) {
	// The problems are read before the check, so that problems that other processes find meanwhile are kept.
	before, err := letters.Problems(ctx, w.engine.Ledger)
	if err != nil {
		return err
	}
	ctx, end := w.aLook(ctx)
	defer func() { end(err) }()
	p, err := w.pass(ctx)
	if err != nil || p == nil {
		return err
	}
	defer p.root.Close()
	var failed error
	if !w.restored {
		makeClock(p.root)
		failed = p.restore()
		w.restored = failed == nil
	}
	names, err := p.folders()
	if err != nil {
		return err
	}
	if err := errors.Join(failed, p.strays(ctx), p.each(ctx, names)); err != nil {
		return err
	}
	return w.forget(ctx, before, names)
}

// forget deletes the records of problems from before a check that no longer exist, as far as the existing folders
// show.
func (w *watch) forget(ctx context.Context, before []letters.Problem, names []string) error {
	there := map[string]bool{"": true}
	for _, name := range names {
		there[name] = true
	}
	standing := map[string]bool{}
	for folder, files := range w.seen {
		if !there[folder] {
			delete(w.seen, folder)
			continue
		}
		for name, s := range files {
			standing[w.path(folder, name)] = s.problem != "" || !s.settled
		}
	}
	var gone []string
	for _, b := range before {
		if w.isBelow(b.Path) && !standing[b.Path] {
			gone = append(gone, b.Path)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return letters.ForgetProblems(ctx, w.engine.Ledger, gone)
}

// aLook gives a check its own span. Imported messages belong to that span and not to the whole run of the watch. A
// check that imports nothing leaves no span. Nor does a check that fails before it imports anything, because it
// would fail again every few seconds, and the log has the error. Call end when the check is over.
func (w *watch) aLook(ctx context.Context) (looking context.Context, end func(failure error)) {
	ctx, span := tracing.Start(ctx, "ralph_watch look")
	span.Kind = tracing.Consumer
	return ctx, func(failure error) {
		if span.Saved() {
			w.engine.EndSpan(ctx, span, failure, func() bool { return false })
		}
	}
}

// pass begins a check. It creates no folder, because somebody may be removing all of them, and the root could be on
// a disk that is not mounted. If the root does not exist, pass returns nil and no error.
func (w *watch) pass(ctx context.Context) (*pass, error) {
	list, err := agents.List(ctx, w.engine.Ledger)
	if err != nil {
		return nil, err
	}
	strict, err := w.engine.Setting(ctx, "ralph.strict_routes")
	if err != nil {
		return nil, err
	}
	if on := strict.Value == "on"; on != w.strict || !reflect.DeepEqual(list, w.agents) {
		w.agents, w.strict = list, on
		for _, files := range w.seen { // the causes that blocked files may be gone
			unsettle(files)
		}
	}
	p := &pass{watch: w, agents: map[string]*ledger.Agent{}}
	if p.root, err = openRoot(w.root); errors.Is(err, fs.ErrNotExist) {
		return nil, p.rootGone(ctx)
	} else if err != nil {
		return nil, err
	}
	w.heed(w.root)
	p.clock = sync.OnceValue(func() time.Time { return clockOf(p.root) })
	for i := range list {
		a := &list[i]
		p.agents[a.Name] = a
	}
	return p, nil
}

// unsettle makes the next check process all files.
func unsettle(files map[string]sight) {
	for name, s := range files {
		s.settled, s.retry = false, time.Time{}
		files[name] = s
	}
}

// rootGone reports that the root does not exist.
func (p *pass) rootGone(ctx context.Context) error {
	problem := letters.Problem{Path: p.path("", ""), Fingerprint: "gone",
		Problem: "the root of the inbox folders does not exist; mount its disk, or create the root with mkdir"}
	news, err := letters.NoteProblem(ctx, p.engine.Ledger, problem)
	if news {
		p.log.Warn("the root of the inbox folders has a problem", "path", problem.Path, "problem", problem.Problem)
	}
	return err
}

// openRoot opens the root, which must not have become a link.
func openRoot(path string) (*os.Root, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	if opened, err := root.Stat("."); err != nil || !os.SameFile(opened, info) {
		root.Close()
		return nil, errors.Join(err, fmt.Errorf("%s is a symbolic link, or was moved during the check", path))
	}
	return root, nil
}

// folders returns the names of possible inbox folders and of the folders of agents that read below the root. The
// latter may not exist.
func (p *pass) folders() (names []string, err error) {
	entries, err := fs.ReadDir(p.root.FS(), ".")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && (e.IsDir() || e.Type() == fs.ModeSymlink) && !p.isInbox(e.Name()) {
			names = append(names, e.Name())
		}
	}
	for name := range p.agents {
		if p.isInbox(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// strays reports messages in the root itself, where nobody reads them. It ignores other files.
func (p *pass) strays(ctx context.Context) error {
	p.before, p.now = p.seen[""], map[string]sight{}
	files, err := p.list(p.root)
	if err != nil {
		return err
	}
	for _, f := range files {
		if old := p.before[f.name]; old.print == f.print() {
			p.now[f.name] = old
			continue
		}
		p.now[f.name] = sight{print: f.print(), settled: true}
		if !f.info.Mode().IsRegular() {
			continue
		}
		text, err := f.read(p.root, false)
		if l, perr := letter.Parse(text); err == nil && perr == nil {
			problem := fmt.Errorf("this message to %s is not in an inbox folder. Move it to the folder of its recipient", orchestrator.Clip(l.To))
			if err := p.report(ctx, "", f, problem); err != nil {
				return err
			}
		}
	}
	p.seen[""] = p.now
	return nil
}

// each checks folders. An error of the file system in one folder does not stop the checks of the others. An error
// of the database stops all, because nothing can be done without it.
func (p *pass) each(ctx context.Context, names []string) (failed error) {
	for _, name := range names {
		err := p.folder(ctx, name)
		if errors.Is(err, errMoved) {
			continue
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", p.path(name, ""), err))
		}
		if _, own := errors.AsType[*orchestrator.Error](err); own || ctx.Err() != nil {
			break
		}
	}
	return failed
}

// folder checks one folder: each new or changed file, and the delivered files that are missing.
func (p *pass) folder(ctx context.Context, name string) error {
	if strings.HasPrefix(name, ".") {
		return nil
	}
	p.before, p.now = p.seen[name], map[string]sight{}
	in, err := p.open(ctx, name)
	if err != nil {
		return err
	}
	if in != nil {
		defer in.Close()
		defer p.closeBin()
		if here, err := identify(in); err != nil {
			return err
		} else if p.places[name] != here {
			unsettle(p.before) // the files may be the same, but in another folder
			p.places[name] = here
		}
		files, err := p.list(in)
		if err != nil {
			return err
		}
		if err := p.files(ctx, in, name, files); err != nil {
			return err
		}
	}
	if err := p.removed(ctx, in, name); err != nil {
		return err
	}
	p.seen[name] = p.now
	return nil
}

// open opens an inbox folder. It returns nil if the folder does not exist, or if it must not be entered; the latter
// is reported as a problem.
func (p *pass) open(ctx context.Context, name string) (*os.Root, error) {
	info, err := p.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case info.Mode().Type() == fs.ModeSymlink:
		return nil, p.report(ctx, name, file{info: info},
			errors.New("an inbox folder must be a folder, but this is a symbolic link; Mailroom does not import from it"))
	case !info.IsDir():
		return nil, nil
	}
	in, err := p.root.OpenRoot(name)
	var opened fs.FileInfo
	if err == nil {
		if opened, err = in.Stat("."); err != nil {
			in.Close()
		}
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, p.report(ctx, name, file{info: info}, errors.New("cannot read the folder: "+reason(err)))
	case err != nil:
		return nil, err
	case !os.SameFile(opened, info):
		in.Close()
		return nil, errMoved
	}
	p.heed(filepath.Join(p.watch.root, name))
	return in, nil
}

// report records a problem. It is logged once, and the file is checked again when it has changed.
func (p *pass) report(ctx context.Context, folder string, f file, problem error) error {
	p.now[f.name] = sight{print: f.print(), problem: problem.Error(), settled: true}
	return p.tell(ctx, folder, f.name)
}

// tell records the problem that this check has found, unless the last check found the same.
func (p *pass) tell(ctx context.Context, folder, name string) error {
	s, old := p.now[name], p.before[name]
	if s.problem == old.problem && s.print == old.print {
		return nil
	}
	path := p.path(folder, name)
	news, err := letters.NoteProblem(ctx, p.engine.Ledger,
		letters.Problem{Path: path, Fingerprint: s.print, Problem: s.problem})
	if news {
		p.log.Warn("a file or folder in the root has a problem", "path", path, "problem", s.problem)
	}
	return err
}

// path returns the path of a file for reports. It quotes a path with unprintable characters.
func (w *watch) path(folder, name string) string {
	path := filepath.Join(w.root, folder, name)
	if quoted := strconv.Quote(path); quoted != `"`+path+`"` {
		return quoted
	}
	return path
}

// isBelow reports whether a path that method path returned is that of the root or of something below it.
func (w *watch) isBelow(path string) bool {
	if plain, err := strconv.Unquote(path); err == nil {
		path = plain
	}
	return path == w.root || strings.HasPrefix(path, w.root+string(filepath.Separator))
}

// reason returns the text of an error without the path of the file.
func reason(err error) string {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		err = at.Err
	}
	return err.Error()
}
