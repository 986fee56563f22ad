package connect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/tailscale/hujson"

	"mailroom/orchestrator/agenthost"
)

// edit converts a change to a document into a change to the text of a file.
func edit(change func(*document)) func([]byte) ([]byte, error) {
	return func(before []byte) ([]byte, error) {
		d, err := parseDocument(before)
		if err != nil {
			return nil, err
		}
		change(d)
		return d.text(), d.err
	}
}

// undo returns a change to the text of a file that removes what connect added. was is the content of the file before
// connect, if that is known: what existed in it is kept even if it is empty now, except what held only our servers
// for other hosts. If nothing is left, the result is nil.
func undo(of *agenthost.File) func(before, was []byte) ([]byte, error) {
	return func(before, was []byte) ([]byte, error) {
		d, err := parseDocument(before)
		if err != nil {
			return nil, err
		}
		if was != nil {
			d.was, _ = parseDocument(was)
		}
		if d.was != nil && of.Servers != "" {
			dropped := dropOthers(d.was, of) // what only these servers filled is not kept
			if dropped && string(bytes.TrimSpace(d.was.text())) == "{}" {
				was = nil
			}
		}
		dropFrom(d, of)
		text := d.text()
		if len(was) == 0 && !bytes.Equal(text, before) && string(bytes.TrimSpace(text)) == "{}" {
			return nil, nil
		}
		return text, d.err
	}
}

// plainJSON wraps a change to a file of a host that reads only strict JSON.
func plainJSON(change func([]byte) ([]byte, error)) func([]byte) ([]byte, error) {
	return func(before []byte) ([]byte, error) {
		if len(bytes.TrimSpace(before)) > 0 && !json.Valid(before) {
			if _, err := parse(before); err == nil {
				return nil, errors.New("the file has comments or trailing commas, so this host ignores the whole file")
			}
		}
		return change(before)
	}
}

// commentedJSON wraps a change to a file of a host that accepts comments but no trailing commas.
func commentedJSON(change func([]byte) ([]byte, error)) func([]byte) ([]byte, error) {
	return func(before []byte) ([]byte, error) {
		if v, err := parse(before); err == nil && ends(&v) {
			return nil, errors.New("the file has a trailing comma in a list or an object, so this host ignores the whole file")
		}
		return change(before)
	}
}

// ends reports whether v contains a list or an object with a trailing comma.
func ends(v *hujson.Value) bool {
	in := items{}
	switch v := v.Value.(type) {
	case *hujson.Object:
		in = membersOf(v)
	case *hujson.Array:
		in = elementsOf(v)
	}
	for i := range in.n {
		if last := in.last(i); ends(last) || i == in.n-1 && last.AfterExtra != nil {
			return true
		}
	}
	return false
}

// errNotOurs returns the error for a server of this name that the user wrote, which connect does not replace.
func errNotOurs(name string) error {
	return fmt.Errorf("the file already has a server named %s with a command that `mailroom connect` did not write. Rename or remove that server", name)
}

// putServer writes the server of our tools into the object of all servers. Other values that the user added to the
// server are kept, except optional values that it must not have now.
func (c *connection) putServer(d *document, of *agenthost.File, server any) {
	servers := d.at(true, of.Servers)
	if servers == nil {
		d.err = fmt.Errorf("%s must be an object", of.Servers)
		return
	}
	m := member(servers, of.EntryName())
	if m == nil {
		d.put(servers, 2, of.EntryName(), server)
		return
	}
	is := objectOf(m.Value)
	before := commandOf(plain(m.Value))
	if is == nil || own(before, toolsAt) == nil {
		d.err = errNotOurs(of.EntryName())
		return
	}
	fresh, _ := plain(d.value("", server)).(map[string]any)
	words := replaced(before, commandOf(fresh), toolsAt)
	if _, together := fresh["command"].([]any); together {
		fresh["command"] = words
	} else {
		fresh["command"], fresh["args"] = words[0], words[1:]
	}
	for _, name := range namesOf(server) {
		d.put(is, 3, name, fresh[name])
	}
	for _, name := range of.Optional {
		if _, has := fresh[name]; !has {
			d.drop(is, name)
		}
	}
}

// namesOf returns the JSON names of the fields of a struct, in order.
func namesOf(v any) (names []string) {
	return memberNames(objectOf((&document{eol: "\n"}).value("", v)))
}

// dropServer removes our server named entry, and what is empty afterwards. It reports whether the server existed.
func dropServer(d *document, all, entry string) bool {
	servers := d.at(false, all)
	if servers == nil {
		return false
	}
	m := member(servers, entry)
	if m == nil || own(commandOf(plain(m.Value)), toolsAt) == nil {
		return false
	}
	d.drop(servers, entry)
	d.emptied(all)
	return true
}

// dropOthers removes our servers for other hosts than that of the file. It reports whether there were any.
func dropOthers(d *document, of *agenthost.File) (dropped bool) {
	for _, h := range agenthost.Hosts {
		if name := h.Files[0].EntryName(); name != of.EntryName() {
			dropped = dropServer(d, of.Servers, name) || dropped
		}
	}
	return dropped
}

// hook is a hook in the configuration of a host.
type hook struct {
	Type    string `json:"type"`
	Command string `json:"command"`
	Async   bool   `json:"async,omitempty"` // Claude Code: the session does not wait for the hook
	Rewake  bool   `json:"asyncRewake,omitempty"`
	Timeout int    `json:"timeout"` // in seconds; for Gemini in milliseconds
}

// ownHook returns the event of one of our hooks, or "" for any other hook.
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
	return hookEvent(command.String())
}

// addHook adds a hook to an event, or updates our existing hook for the event. Other values that the user added are
// kept, except a matcher, which may prevent the hook from running.
func addHook(d *document, event string, h hook) {
	entries := d.listAt("hooks", event)
	if entries == nil {
		return
	}
	is, found := hookEvent(h.Command), false
	for i := len(entries.Elements) - 1; i >= 0; i-- {
		entry := objectOf(entries.Elements[i])
		shared := list(entry, "hooks")
		if shared == nil {
			continue
		}
		others := len(shared.Elements) == 0 ||
			slices.ContainsFunc(shared.Elements, func(v hujson.Value) bool { return ownHook(v) != is })
		narrowed := member(entry, "matcher") != nil
		if narrowed && !others {
			d.drop(entry, "matcher")
			narrowed = false
		}
		d.dropAll(shared, func(v hujson.Value) bool {
			if ownHook(v) != is {
				return false
			}
			if narrowed || found {
				return true
			}
			found = true
			d.putHook(objectOf(v), h)
			return false
		})
		if len(shared.Elements) == 0 && !others {
			d.cut(elementsOf(entries), i)
		}
	}
	if !found {
		d.add(entries, 3, struct {
			Hooks []hook `json:"hooks"`
		}{[]hook{h}})
	}
}

// putHook updates one of our hooks, and keeps a command of the user's around it.
func (d *document) putHook(o *hujson.Object, h hook) {
	command, _ := member(o, "command").Value.Value.(hujson.Literal)
	h.Command = replacedIn(command.String(), h.Command, hookAt)
	fresh, _ := plain(d.value("", h)).(map[string]any)
	for _, name := range namesOf(h) {
		d.put(o, 6, name, fresh[name])
	}
}

// objectOf returns a value as an object, or nil if it is not one.
func objectOf(v hujson.Value) *hujson.Object {
	o, _ := v.Value.(*hujson.Object)
	return o
}

// dropHooks removes all our hooks, and what is empty afterwards. It reports whether there were any.
func dropHooks(d *document) (dropped bool) {
	hooks := d.at(false, "hooks")
	if hooks == nil {
		return false
	}
	is := func(v hujson.Value) bool { return ownHook(v) != "" }
	for _, event := range memberNames(hooks) {
		entries := list(hooks, event)
		if entries == nil {
			continue
		}
		removed := d.dropAll(entries, func(v hujson.Value) bool {
			shared := list(objectOf(v), "hooks")
			if shared == nil {
				return is(v)
			}
			if !d.dropAll(shared, is) {
				return false
			}
			dropped = true
			return len(shared.Elements) == 0 && len(bytes.TrimSpace(shared.AfterExtra)) == 0
		})
		if removed {
			dropped = true
			d.emptied("hooks", event)
		}
	}
	if dropped {
		d.emptied("hooks")
	}
	return dropped
}

func memberNames(o *hujson.Object) (names []string) {
	for i := range o.Members {
		names = append(names, nameOf(&o.Members[i]))
	}
	return names
}

// addWord adds a text to the list at a path, unless the list has it.
func addWord(d *document, word string, path ...string) {
	words := d.listAt(path...)
	if words == nil || slices.ContainsFunc(words.Elements, func(v hujson.Value) bool { return same(v, word) }) {
		return
	}
	d.add(words, len(path)+1, word)
}

// dropWord removes a text from the list at a path, and what is empty afterwards, unless the text was in the file
// before Mailroom changed the file. If the earlier content is unknown, callers use dropWord only where the file has
// an entry of Mailroom's.
func dropWord(d *document, word string, path ...string) {
	if d.was != nil && slices.Contains(d.was.words(path...), word) {
		return
	}
	words := list(d.at(false, path[:len(path)-1]...), path[len(path)-1])
	if words == nil || !d.dropAll(words, func(v hujson.Value) bool { return same(v, word) }) {
		return
	}
	for n := len(path); n > 0 && d.emptied(path[:n]...); n-- {
	}
}

// words returns the texts of the list at a path.
func (d *document) words(path ...string) (words []string) {
	if a := list(d.at(false, path[:len(path)-1]...), path[len(path)-1]); a != nil {
		for _, v := range a.Elements {
			if l, is := v.Value.(hujson.Literal); is {
				words = append(words, l.String())
			}
		}
	}
	return words
}

// dropValue removes a member of an object if it has this value, unless the member existed before Mailroom changed the
// file. It also removes the object if it is empty afterwards.
func dropValue(d *document, value, object, name string) {
	in := d.at(false, object)
	if in == nil || d.was.has(object, name) {
		return
	}
	if m := member(in, name); m != nil && same(m.Value, value) {
		d.drop(in, name)
		d.emptied(object)
	}
}
