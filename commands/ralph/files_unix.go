//go:build unix

package ralph

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/bridge"
	"mailroom/orchestrator/bridge/letters"
	"mailroom/orchestrator/letter"
	"mailroom/orchestrator/watchdog"
)

// WatchResult holds what was done until the watch ended.
type WatchResult struct {
	Root string `json:"root"`
	bridge.Counts
	Found []letters.Problem `json:"found,omitempty"` // the first 20 problems; only with once
}

// watch watches the folders until it is stopped, which is not an error.
func watch(ctx context.Context, env commands.Env, p WatchParams) (WatchResult, error) {
	o := bridge.Options{
		Root: p.Root, Name: p.Name, Log: env.Log,
		Alongside: func(ctx context.Context) error { return watchdog.Run(ctx, env.Ledger, env.Log) },
	}
	run := bridge.Once
	if !p.Once {
		run = bridge.Run
		if env.Call.Narrator != nil {
			env.Call.Narrator.Printf("Watching %s. Stop with Ctrl-C.\n", p.Root)
		}
	}
	counts, err := run(ctx, env.Engine, o)
	r := WatchResult{Root: p.Root, Counts: counts}
	if err == nil && p.Once && counts.Problems > 0 {
		r.Found, err = letters.Problems(ctx, env.Ledger)
		r.Found = r.Found[:min(20, len(r.Found))]
	}
	return r, err
}

// Text writes the counts, and the problems or where to find them.
func (r WatchResult) Text(w *terminal.Text) {
	w.Printf("Imported: %d. Delivered: %d. Acknowledged: %d. Problems: %d.\n", r.TakenIn, r.Delivered, r.Acknowledged,
		r.Problems)
	for _, p := range r.Found {
		w.Printf("%s: %s\n", p.Path, p.Problem)
	}
	if r.Problems > len(r.Found) {
		w.Printf("To list the problems, run `mailroom sql 'SELECT path, problem FROM bridge_problems'`.\n")
	}
}

// removeFile removes the file of a message that its recipient acknowledged, and reports whether the file existed. It
// resolves everything except the root itself below the root, so that no link leads out of the root.
func removeFile(root string, m *orchestrator.Message, mark string) (removed bool, err error) {
	name, err := bridge.FileName(m.ID, mark)
	if err != nil {
		return false, err
	}
	folder, err := os.OpenRoot(root)
	if err == nil {
		defer folder.Close()
		removed, err = removeOwn(folder, filepath.Join(m.Recipient, name), m.ID)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return removed, nil
	}
	return false, (&orchestrator.Error{
		Code: orchestrator.Unavailable, Message: m.ID + " was acknowledged, but its file cannot be removed",
		MessageID: m.ID, Err: err,
	}).WithHint("Delete the file manually, or acknowledge the message again when its folder is writable")
}

// removeOwn removes the file of a message below a root. It keeps a file that has since replaced it under the same
// name, such as another message.
func removeOwn(root *os.Root, path, id string) (removed bool, err error) {
	info, err := root.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false, err
	}
	text, err := root.ReadFile(path)
	if err != nil {
		return false, err
	}
	if l, err := letter.Parse(text); err == nil && l.ID != id {
		return false, nil
	}
	err = root.Remove(path)
	return err == nil, err
}
