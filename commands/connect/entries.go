package connect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// edit makes of a change to a document one to the text of a file. Where nothing is left in the document there is no text.
func edit(change func(*document)) func([]byte) ([]byte, error) {
	return func(before []byte) ([]byte, error) {
		d, err := parseDocument(before)
		if err != nil {
			return nil, err
		}
		change(d)
		if d.err != nil {
			return nil, d.err
		}
		if text := d.text(); strings.TrimSpace(string(text)) != "{}" {
			return text, nil
		}
		return nil, nil
	}
}

// plainJSON is a change to a file of a host that reads nothing but JSON.
func plainJSON(change func([]byte) ([]byte, error)) func([]byte) ([]byte, error) {
	return func(before []byte) ([]byte, error) {
		if len(bytes.TrimSpace(before)) > 0 && !json.Valid(before) {
			if _, err := parse(before); err == nil {
				return nil, errors.New("it has comments or commas at the end of lists, which this host does not read: it takes nothing from the file as it is")
			}
		}
		return change(before)
	}
}

// putServer names the server of the tools in the object in which a host has all of them.
func (c *connection) putServer(d *document, all string, server any) {
	servers := d.at(true, all)
	if servers == nil {
		d.err = fmt.Errorf("%s is no object", all)
		return
	}
	if m := member(servers, "mailroom"); m != nil && !connected.Match(compact(m.Value)) {
		d.err = errors.New("it has a server mailroom already, which connect has not written")
		return
	}
	d.put(servers, 2, "mailroom", server)
}

func dropServer(d *document, all string) {
	if servers := d.at(false, all); servers != nil {
		if m := member(servers, "mailroom"); m != nil && connected.Match(compact(m.Value)) {
			drop(servers, "mailroom")
			if len(servers.Members) == 0 {
				drop(d.at(false), all)
			}
		}
	}
}

// hook is a hook as hosts have it in their configuration.
type hook struct {
	Type    string `json:"type"`
	Command string `json:"command"`
	Async   bool   `json:"async,omitempty"` // Claude Code: the session does not wait for it
	Rewake  bool   `json:"asyncRewake,omitempty"`
	Timeout int    `json:"timeout"` // in seconds, with Gemini in milliseconds
}

// shellWord is a word as orchestrator.ShellWord writes it.
const shellWord = `(?:[^\s'"\\;&|<>()$` + "`" + `]|'[^']*'|\\')+`

// ours recognizes the command of a hook that connect wrote, whatever the program, the agent and the database were then.
var ours = regexp.MustCompile(`^` + shellWord + ` hook (\w+) --host \w+ --as ` + shellWord + `(?: --[a-z-]+ ` + shellWord + `)*$`)

// ownHook returns the event of a hook that is ours; "" for any other.
func ownHook(v hujson.Value) string {
	o := objectOf(v)
	if o == nil {
		return ""
	}
	m := member(o, "command")
	if m == nil {
		return ""
	}
	command, _ := m.Value.Value.(hujson.Literal)
	found := ours.FindStringSubmatch(command.String())
	if found == nil {
		return ""
	}
	return found[1]
}

// ownIn returns the event of the first hook that is ours in an entry, which has a list of hooks; "" if there is none.
func ownIn(entry hujson.Value) string {
	if shared := list(objectOf(entry), "hooks"); shared != nil {
		for _, v := range shared.Elements {
			if is := ownHook(v); is != "" {
				return is
			}
		}
	}
	return ""
}

// addHook adds a hook to an event, in the place of the one that Mailroom has there for the same.
func addHook(d *document, event string, h hook) {
	entries := d.listAt("hooks", event)
	if entries == nil {
		return
	}
	entry := struct {
		Hooks []hook `json:"hooks"`
	}{[]hook{h}}
	is := ownIn(d.value("", entry))
	for i := range entries.Elements {
		if ownIn(entries.Elements[i]) == is {
			shared := list(objectOf(entries.Elements[i]), "hooks")
			switch {
			case len(shared.Elements) == 1:
			case member(objectOf(entries.Elements[i]), "matcher") != nil: // it may keep ours from being run
				shared.Elements = slices.DeleteFunc(shared.Elements, func(v hujson.Value) bool { return ownHook(v) == is })
				continue
			default:
				replaceIn(d, shared, h, is)
				return
			}
			if !same(entries.Elements[i], entry) {
				before := entries.Elements[i].BeforeExtra
				entries.Elements[i] = d.value(margin(before), entry)
				entries.Elements[i].BeforeExtra = before
			}
			return
		}
	}
	d.add(entries, 3, entry)
}

// replaceIn puts a hook in the place of ours for the same event, in an entry in which others have theirs.
func replaceIn(d *document, shared *hujson.Array, h hook, event string) {
	for i, v := range shared.Elements {
		if ownHook(v) == event && !same(v, h) {
			shared.Elements[i] = d.value(margin(v.BeforeExtra), h)
			shared.Elements[i].BeforeExtra = v.BeforeExtra
		}
	}
}

// objectOf returns a value as an object; nil if it is none.
func objectOf(v hujson.Value) *hujson.Object {
	o, _ := v.Value.(*hujson.Object)
	return o
}

// dropHooks removes all hooks that are ours, and what is empty then.
func dropHooks(d *document) {
	hooks := d.at(false, "hooks")
	if hooks == nil {
		return
	}
	for _, m := range slices.Clone(hooks.Members) {
		entries := list(hooks, nameOf(&m))
		if entries == nil {
			continue
		}
		had := len(entries.Elements)
		entries.Elements = slices.DeleteFunc(entries.Elements, func(v hujson.Value) bool {
			shared := list(objectOf(v), "hooks")
			if shared == nil {
				return ownHook(v) != ""
			}
			all := len(shared.Elements)
			shared.Elements = slices.DeleteFunc(shared.Elements, func(v hujson.Value) bool { return ownHook(v) != "" })
			return all > 0 && len(shared.Elements) == 0
		})
		if had > 0 && len(entries.Elements) == 0 {
			drop(hooks, nameOf(&m))
		}
	}
	if len(hooks.Members) == 0 {
		drop(d.at(false), "hooks")
	}
}

// addWord adds a text to the list at the end of a path, unless it is there.
func addWord(d *document, word string, path ...string) {
	words := d.listAt(path...)
	if words == nil || slices.ContainsFunc(words.Elements, func(v hujson.Value) bool { return same(v, word) }) {
		return
	}
	d.add(words, len(path)+1, word)
}

// dropWord removes a text from the list at the end of a path, and what is empty then.
func dropWord(d *document, word string, path ...string) {
	last := len(path) - 1
	in := d.at(false, path[:last]...)
	words := list(in, path[last])
	if words == nil {
		return
	}
	words.Elements = slices.DeleteFunc(words.Elements, func(v hujson.Value) bool { return same(v, word) })
	if len(words.Elements) == 0 {
		drop(in, path[last])
	}
	for ; last > 0 && len(in.Members) == 0; last-- {
		drop(d.at(false, path[:last-1]...), path[last-1])
		in = d.at(false, path[:last-1]...)
	}
}

// dropValue removes a member of an object if it has this value, and the object if it is empty then.
func dropValue(d *document, value, object, name string) {
	in := d.at(false, object)
	if in == nil {
		return
	}
	if m := member(in, name); m != nil && same(m.Value, value) {
		drop(in, name)
	}
	if len(in.Members) == 0 {
		drop(d.at(false), object)
	}
}
