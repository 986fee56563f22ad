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

// sight is what a look found under a name.
type sight struct {
	print   string // fingerprint, see file.print
	problem string // the reported problem; "" if none
	settled bool   // nothing to do until the file changes

	retry time.Time // nothing to do before this time
}

// pass is one look at the root and its folders.
type pass struct {
	*watch
	root   *os.Root
	bin    *bin // of the current folder; nil until a file is removed from the folder
	agents map[string]*ledger.Agent
	clock  func() time.Time // the clock of the file system

	before map[string]sight // what the last look found in the current folder
	now    map[string]sight // what this look has found there so far
}

// errMoved ends the check of a file or folder that was moved during the check. The next look follows soon.
var errMoved = errors.New("a file or folder was moved during the check")

// look looks at every folder of the root, and deletes the records of problems that are gone.
func (w *watch) look(ctx context.Context) (err error) {
	// Read before the look: problems that other processes find meanwhile must stay.
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

// forget deletes the records of those problems from before a look that are gone. names lists the folders that are
// there.
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

// aLook starts a span for one look. Imported messages belong to the span of their look, not to the whole run of the
// watch. A look that imports nothing leaves no span, even if it fails: the same failure would repeat every few
// seconds, and the log has it. Call end when the look is over.
func (w *watch) aLook(ctx context.Context) (looking context.Context, end func(failure error)) {
	ctx, span := tracing.Start(ctx, "ralph_watch look")
	span.Kind = tracing.Consumer
	return ctx, func(failure error) {
		if span.Saved() {
			w.engine.EndSpan(ctx, span, failure, func() bool { return false })
		}
	}
}

// pass begins a look. It creates no folder: somebody may be removing all folders, and the root may be on a disk that
// is not mounted. It returns nil without an error if the root is gone.
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
		for _, files := range w.seen { // what prevented the import of files may be gone
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

// unsettle makes the next look check all files again.
func unsettle(files map[string]sight) {
	for name, s := range files {
		s.settled, s.retry = false, time.Time{}
		files[name] = s
	}
}

// rootGone records the problem that the root does not exist.
func (p *pass) rootGone(ctx context.Context) error {
	problem := letters.Problem{Path: p.path("", ""), Fingerprint: "gone",
		Problem: "the root of the inbox folders does not exist; mount its disk, or create the root with mkdir"}
	news, err := letters.NoteProblem(ctx, p.engine.Ledger, problem)
	if news {
		p.log.Warn("the root of the inbox folders has a problem", "path", problem.Path, "problem", problem.Problem)
	}
	return err
}

// openRoot opens the root. It returns an error if the root has become a symbolic link.
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

// folders returns the names of all possible inbox folders below the root, and of the folders of the agents that read
// below the root, whether they exist or not.
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

// strays reports messages that are in the root itself, where no agent looks for them. It ignores other files.
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

// each looks at the given folders. A file system error in one folder does not stop the others. An error of the
// database stops all.
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

// folder looks at one folder: at each file that is new or has changed, and at the delivered files that are gone.
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
			unsettle(p.before) // the same files may be in another folder now
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

// open opens an inbox folder. It returns nil if the folder does not exist, or if it must not be entered. In the
// second case it reports a problem.
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

// report records a problem with a file. The problem is logged once, and the file is checked again when it has
// changed.
func (p *pass) report(ctx context.Context, folder string, f file, problem error) error {
	p.now[f.name] = sight{print: f.print(), problem: problem.Error(), settled: true}
	return p.tell(ctx, folder, f.name)
}

// tell records the problem that this look has found under a name, unless the last look found the same.
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

// path returns the path of a file in the form for reports. A path with unprintable characters is quoted.
func (w *watch) path(folder, name string) string {
	path := filepath.Join(w.root, folder, name)
	if quoted := strconv.Quote(path); quoted != `"`+path+`"` {
		return quoted
	}
	return path
}

// isBelow reports whether a path from the method path is the root or below the root.
func (w *watch) isBelow(path string) bool {
	if plain, err := strconv.Unquote(path); err == nil {
		path = plain
	}
	return path == w.root || strings.HasPrefix(path, w.root+string(filepath.Separator))
}

// reason returns the text of an error, without the path of the file.
func reason(err error) string {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		err = at.Err
	}
	return err.Error()
}
