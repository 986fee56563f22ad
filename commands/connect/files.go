package connect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"syscall"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agenthost"
	"mailroom/orchestrator/pattern"
	"mailroom/orchestrator/store"
)

// file is a configuration file of a host, together with the functions for Mailroom's entries in it.
type file struct {
	host string // name of the host
	path string
	add  func(before []byte) ([]byte, error) // returns the text with our entries
	// remove returns the text without our entries, or nil if nothing else is left. was is the text before connect:
	// empty if the file did not exist, nil if unknown.
	remove func(before, was []byte) ([]byte, error)
	decode func(text []byte) map[string]any // parses the text; nil for a program
	server string                           // key of the object with our tools; "" for none
	entry  string                           // key of our tools in that object
	noMark bool                             // the host does not read a file that begins with a byte order mark
}

// decodeJSON decodes a JSON file that may contain comments. It returns nil if the text is not valid.
func decodeJSON(text []byte) (all map[string]any) {
	json.Unmarshal(standardized(bytes.TrimPrefix(text, mark)), &all)
	return all
}

// decodeTOML decodes a TOML file. It returns nil if the text is not valid.
func decodeTOML(text []byte) (all map[string]any) {
	if toml.Unmarshal(bytes.TrimPrefix(text, mark), &all) != nil {
		return nil
	}
	return all
}

// decoderOf returns the decoder for a file, chosen by its name.
func decoderOf(path string) func(text []byte) map[string]any {
	if filepath.Ext(path) == ".toml" {
		return decodeTOML
	}
	return decodeJSON
}

// tools returns the command line that starts our tools in a text of the file, from the program on, or nil if there is
// none.
func (f *file) tools(text []byte) []string {
	if f.server == "" {
		return nil
	}
	servers, _ := f.decode(text)[f.server].(map[string]any)
	return own(commandOf(servers[f.entry]), toolsAt)
}

// others returns the command lines in a text of the file that run Mailroom but that connect did not write.
func (f *file) others(text []byte) []string {
	if f.decode == nil || !carried().Match(text) {
		return nil
	}
	return others(f.decode(text), "")
}

// change is a planned change to a file. A nil text means that the file does not exist.
type change struct {
	path          string
	before, after []byte
}

// FileResult is the result for one file.
type FileResult struct {
	Path   string   `json:"path"`
	Change string   `json:"change"` // made, changed, removed, none
	Text   string   `json:"text,omitempty"`
	Others []string `json:"others,omitempty"` // kept lines that run Mailroom but that connect did not write
}

func (c *change) result() FileResult {
	r := FileResult{Path: c.path, Change: "changed"}
	switch {
	case string(c.before) == string(c.after) && (c.before == nil) == (c.after == nil):
		r.Change = "none"
	case c.before == nil:
		r.Change = "made"
	case c.after == nil:
		r.Change = "removed"
	}
	return r
}

// read returns the text of a file and its path with links resolved. The text is nil if the file does not exist.
func read(path string) (text []byte, at string, err error) {
	at, err = filepath.EvalSymlinks(path)
	if isGone(err) {
		if to, link := os.Readlink(path); link == nil {
			return nil, path, fmt.Errorf("the file is a symbolic link to %s, which does not exist", to)
		}
		return nil, resolved(path), nil
	}
	if err != nil {
		return nil, path, err
	}
	info, err := os.Stat(at)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err == nil {
		text, err = os.ReadFile(at)
	}
	return text, at, err
}

// resolved returns a path with links resolved, as records have it. For a path that does not exist, it resolves the
// folder.
func resolved(path string) string {
	at, err := filepath.EvalSymlinks(path)
	if err == nil {
		return at
	}
	if folder := filepath.Dir(path); folder != path {
		return filepath.Join(resolved(folder), filepath.Base(path))
	}
	return path
}

// isGone reports whether an error means that a file or folder does not exist, or that its parent is no longer a
// folder.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) }

// carried matches the text of every file that runs Mailroom: the words of the tools, of a hook, or of the plugin.
var carried = pattern.New(`(?s)\bmcp\b["',\s]{1,80}--as\b|\bhook\s+\w+\s+--host\b|\bmailroom\b.{1,40}\b(?:mcp|hook)\b|` + regexp.QuoteMeta(pluginWords))

// mark is the byte order mark with which some editors begin a file.
var mark = []byte("\xef\xbb\xbf")

// planAdd returns the change to the file when the host is connected. It first removes our entries if no record shows
// that connect wrote them here: somebody else, such as the author of a repository, may have put a program around
// them.
func (f *file) planAdd(known func(path string, text []byte) bool) (change, error) {
	before, at, err := read(f.path)
	if err != nil {
		return change{}, unreadable(f.path, err)
	}
	text := before
	if carried().Match(before) && !known(at, before) {
		if text, err = f.without(before, &record{}); err != nil {
			return change{}, err
		}
	}
	after, err := f.changed(text, f.add)
	return change{at, before, after}, err
}

// changed applies a change to a text, and keeps the byte order mark.
func (f *file) changed(before []byte, to func([]byte) ([]byte, error)) ([]byte, error) {
	text, marked := bytes.CutPrefix(before, mark)
	err := isUTF8(text)
	if marked && f.noMark {
		err = errors.New("the file begins with a byte order mark, so this host does not read it; save the file as UTF-8 without the mark")
	}
	var after []byte
	if err == nil {
		after, err = to(text)
	}
	if err != nil {
		return nil, unreadable(f.path, err)
	}
	if marked && after != nil {
		after = append(bytes.Clone(mark), after...)
	}
	return after, nil
}

// isUTF8 returns an error if a text has another encoding, because text added to it would be misread.
func isUTF8(text []byte) error {
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		return errors.New("the file is in UTF-16; save it as UTF-8")
	}
	for rest := text; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		if r == utf8.RuneError && n == 1 {
			line := 1 + bytes.Count(text[:len(text)-len(rest)], []byte("\n"))
			return fmt.Errorf("line %d is not valid UTF-8, because it contains the byte %#02x; save the file as UTF-8", line, rest[0])
		}
		rest = rest[n:]
	}
	return nil
}

// planRemove returns the change to the file when the host is disconnected. If the file was not changed since connect
// wrote it, the change restores the earlier text.
func (f *file) planRemove(at *agenthost.Place, b book) (change, error) {
	before, path, err := read(f.path)
	if err != nil {
		return change{}, unreadable(f.path, err)
	}
	if before == nil {
		return change{path: path}, nil
	}
	kept, found := b.find(f.host, at.Scope(), path, before)
	if !found && !carried().Match(before) {
		return change{path, before, before}, nil
	}
	after, err := f.without(before, &kept)
	return change{path, before, after}, err
}

// without returns a text without our entries. If the text is as connect left it, without returns the earlier text in
// the record. The record is empty if no connection is recorded.
func (f *file) without(text []byte, kept *record) (before []byte, err error) {
	var was []byte
	if kept.Before != nil {
		was = []byte(*kept.Before)
	}
	if kept.After == digest(text) {
		return was, nil
	}
	if was = bytes.TrimPrefix(was, mark); was == nil && kept.After != "" {
		was = []byte{} // the record shows that the file did not exist
	}
	return f.changed(text, func(text []byte) ([]byte, error) { return f.remove(text, was) })
}

func unreadable(path string, err error) error {
	e := orchestrator.Errorf(orchestrator.InvalidParams, "cannot change %s: %v", path, err)
	return e.WithHint("Nothing was changed. Fix the file and try again")
}

// put records how to undo the change, and then writes the file. If the file is as connect left it, undoing restores
// the text from before that connection; otherwise, undoing restores the present text without our entries.
func (c *change) put(f *file, h *agenthost.Host, at *agenthost.Place, own *connection) (err error) {
	made, before := missing(filepath.Dir(c.path)), c.before
	last, found := own.book.find(h.Name, at.Scope(), c.path, c.before)
	if found && c.before != nil {
		made = last.Made
	}
	if c.before != nil && (found || carried().Match(c.before)) {
		if before, err = f.without(c.before, &last); err != nil {
			return err
		}
	}
	keep := own.record(h, at)
	keep.File, keep.After, keep.Made = c.path, digest(c.after), made
	if before != nil {
		keep.Before = new(string(before))
	}
	if err := own.book.keep(&keep); err != nil {
		return err
	}
	if found && last.page != own.book.page(&keep) { // moved with its folder, or written by an older Mailroom
		own.book.drop(&last)
	}
	err = c.write()
	if err != nil && !found {
		own.book.drop(&keep)
	}
	return err
}

// missing counts the folders of a path that do not exist.
func missing(folder string) (n int) {
	for ; ; n++ {
		if _, err := os.Stat(folder); !isGone(err) {
			return n
		}
		folder = filepath.Dir(folder)
	}
}

// stale reports whether the record by which a file can be undone must be written again, because there is none, or
// because it belongs to a folder that no longer exists or to an older connection.
func (c *change) stale(h *agenthost.Host, at *agenthost.Place, own *connection) bool {
	kept, found := own.book.find(h.Name, at.Scope(), c.path, c.before)
	now := own.record(h, at)
	now.File, now.Before, now.After, now.Made, now.page = c.path, kept.Before, kept.After, kept.Made, kept.page
	return !found || !reflect.DeepEqual(kept, now)
}

// forget removes the record of a file. If the file was removed, it also removes the folders that connect created for
// the file, unless they have other content.
func (c *change) forget(h *agenthost.Host, at *agenthost.Place, b book) {
	kept, found := b.find(h.Name, at.Scope(), c.path, c.before)
	if !found {
		return
	}
	for folder := filepath.Dir(c.path); kept.Made > 0 && c.after == nil; kept.Made-- {
		os.Remove(folder)
		folder = filepath.Dir(folder)
	}
	b.drop(&kept)
}

// may returns an error if the file must change but cannot be written.
func (c *change) may() error {
	if c.result().Change == "none" {
		return nil
	}
	info, err := os.Stat(c.path)
	switch {
	case isGone(err):
		return nil
	case err == nil && info.Mode().Perm()&0o200 == 0:
		err = errors.New("the file is read-only")
	case err == nil:
		var f *os.File
		if f, err = os.OpenFile(c.path, os.O_WRONLY, 0); err == nil {
			err = f.Close()
		}
	}
	if err != nil {
		return unwritable(c.path, err)
	}
	return nil
}

func unwritable(path string, err error) error {
	return orchestrator.Errorf(orchestrator.Unavailable, "cannot write %s: %v", path, err).
		WithHint("Make the file writable and try again")
}

// write replaces the file's text, unless another program changed the file since it was read. A file that has hard
// links or belongs to another user is rewritten in place, because a renamed replacement would be another file with
// another owner.
func (c *change) write() error {
	now, err := os.ReadFile(c.path)
	if err != nil && !isGone(err) {
		return err
	}
	if !bytes.Equal(now, c.before) || isGone(err) != (c.before == nil) {
		return errors.New("another program has just changed the file")
	}
	if c.after == nil {
		if err := os.Remove(c.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(c.path); err == nil {
		mode = info.Mode().Perm()
		if store.HasOtherNames(info) || !store.IsOwn(info) {
			return rewrite(c.path, c.after)
		}
	}
	return store.ReplaceFile(c.path, c.after, mode)
}

// rewrite writes a text into an existing file in place. If the write is cut short, the record still has the earlier
// text.
func rewrite(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err = f.Write(text); err == nil {
		err = f.Truncate(int64(len(text)))
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
