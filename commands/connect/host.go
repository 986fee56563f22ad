package connect

import (
	"bytes"
	"cmp"
	"fmt"

	"mailroom/orchestrator/agenthost"
)

// filesOf returns the files of a host's configuration in a place, with the changes for a connection. The file that
// wakes idle sessions is included only if the connection needs it or must remove it.
func filesOf(h *agenthost.Host, at *agenthost.Place, c *connection) (files []file) {
	for i := range h.Files {
		f := fileOf(h, &h.Files[i], at, c)
		if h.Files[i].Idle && c.program != "" && !c.Idle {
			text, _, err := read(f.path)
			if err != nil || !bytes.Contains(text, []byte(pluginWords)) {
				continue
			}
			f.add = func(before []byte) ([]byte, error) { return f.remove(before, nil) }
		}
		files = append(files, f)
	}
	return files
}

func fileOf(h *agenthost.Host, of *agenthost.File, at *agenthost.Place, c *connection) file {
	f := file{host: h.Name, server: of.Servers, entry: of.EntryName(), noMark: of.NoMark}
	switch {
	case of.Script != "":
		f.add, f.remove = func(before []byte) ([]byte, error) { return c.addPlugin(h, of, before) }, dropPlugin
	case of.Format == agenthost.TOML:
		f.add, f.remove = func(before []byte) ([]byte, error) { return c.addTable(h, of, before) }, dropTable
		f.decode = decodeTOML
	default:
		f.add = edit(func(d *document) { c.addTo(d, h, of, at) })
		switch of.Format {
		case agenthost.JSON:
			f.add = plainJSON(f.add)
		case agenthost.CommentedJSON:
			f.add = commentedJSON(f.add)
		case agenthost.LaxJSON: // unchanged
		}
		f.remove, f.decode = undo(of), decodeJSON
	}
	f.path = f.chosen(of.Paths(at))
	return f
}

// chosen returns which of a host's files to change: the file with our tools or, if there is none, the last that
// exists or, if none exists, the first.
func (f *file) chosen(paths []string) string {
	there := paths[0]
	for _, path := range paths[1:] {
		if exists(path) {
			there = path
		}
	}
	if len(paths) > 1 {
		for _, path := range paths {
			if text, _, err := read(path); err == nil && f.tools(text) != nil {
				return path
			}
		}
	}
	return there
}

// server returns the server of our tools in the form of a host.
func (c *connection) server(h *agenthost.Host, of *agenthost.File) any {
	return of.Server(&agenthost.Server{Program: c.program, Args: c.serve(h.Name), Ask: c.Ask})
}

// addTo adds to a document what the file of the host must contain.
func (c *connection) addTo(d *document, h *agenthost.Host, of *agenthost.File, at *agenthost.Place) {
	if of.Server != nil {
		c.putServer(d, of, c.server(h, of))
	}
	if of.Rule != nil {
		c.putRule(d, of.Rule)
	}
	for _, w := range of.Words {
		switch {
		case w.Project && at.User || w.Spare && c.spare:
		case w.Unasked && c.Ask:
			dropWord(d, w.Text, w.Path...)
		default:
			addWord(d, w.Text, w.Path...)
		}
	}
	c.putHooks(d, h, of)
}

// putHooks adds the hooks to a document.
func (c *connection) putHooks(d *document, h *agenthost.Host, of *agenthost.File) {
	for _, e := range of.Hooks {
		words := c.hook(h.Name, cmp.Or(e.Runs, e.Event))
		if e.Names && c.host != "" {
			words = append(words, "--program", c.host)
		}
		addHook(d, e.Event, hook{Type: "command", Command: joined(words), Async: e.Async, Rewake: e.Async, Timeout: e.Timeout})
	}
}

// putRule sets whether the host asks before it uses our tools. A value set by the user is kept, unless the user gave
// connect the opposite choice.
func (c *connection) putRule(d *document, r *agenthost.Rule) {
	value := r.Allow
	if c.Ask {
		value = r.Ask
	}
	if value == "" {
		if c.allow {
			dropValue(d, r.Ask, r.Object, r.Name)
		}
		return
	}
	rules := d.at(true, r.Object)
	switch {
	case rules == nil && c.Ask:
		d.err = fmt.Errorf("%s must be an object", r.Object)
	case rules == nil: // one rule for all tools, which belongs to the user
	case c.Ask || c.allow || member(rules, r.Name) == nil:
		d.put(rules, 2, r.Name, value)
	}
}

// dropFrom removes from a document what connect added.
func dropFrom(d *document, of *agenthost.File) {
	dropped := of.Servers != "" && dropServer(d, of.Servers, of.EntryName())
	dropped = len(of.Hooks) > 0 && dropHooks(d) || dropped
	if !dropped && d.was == nil {
		return
	}
	if r := of.Rule; r != nil {
		dropValue(d, r.Ask, r.Object, r.Name)
		dropValue(d, r.Allow, r.Object, r.Name)
	}
	for _, w := range of.Words {
		dropWord(d, w.Text, w.Path...)
	}
}

// refuses returns why a host does not run the hooks in a place, or "" if no reason is known.
func refuses(h *agenthost.Host, at *agenthost.Place) string {
	for _, off := range h.Off {
		names := off.Names(at)
		if names == nil {
			continue
		}
		for _, path := range off.Paths(at) {
			if valueAt(path, names) == off.Is {
				return off.Says + " in " + path
			}
		}
	}
	if h.Digests {
		return distrusted(h, at)
	}
	return ""
}

// valueAt returns a value in a configuration file, or nil if there is none.
func valueAt(path string, names []string) any {
	text, _, err := read(path)
	if err != nil {
		return nil
	}
	var at any = decoderOf(path)(text)
	for _, name := range names {
		in, _ := at.(map[string]any)
		at = in[name]
	}
	return at
}
