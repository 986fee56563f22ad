package connect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agenthost"
)

// Marks that earlier versions wrote around our table.
const (
	beginMark = "# mailroom begin"
	endMark   = "# mailroom end"
)

// codexTable is the path of our tools in Codex's configuration.
var codexTable = []string{"mcp_servers", "mailroom"}

// codexServer returns the server of our tools in Codex's configuration, or nil if there is none.
func codexServer(all map[string]any) map[string]any {
	servers, _ := all["mcp_servers"].(map[string]any)
	server, _ := servers["mailroom"].(map[string]any)
	return server
}

// addTable adds our table, or updates the existing one in whichever form of TOML the host or the user wrote it.
func (c *connection) addTable(h *agenthost.Host, of *agenthost.File, before []byte) ([]byte, error) {
	t, all, err := parseTOML(before)
	if err != nil {
		return nil, err
	}
	server := codexServer(all)
	if server != nil && own(commandOf(server), toolsAt) == nil {
		return nil, errNotOurs("mailroom")
	}
	fields, err := c.tomlFields(h, of, server)
	if err != nil {
		return nil, err
	}
	var after []byte
	if server != nil {
		after, err = t.set(codexTable, server, fields)
	} else {
		after = t.addServer(fields)
	}
	if err == nil && !onlyServerDiffers(before, after, fields) {
		err = errors.New("cannot safely edit this file because of its formatting")
	}
	if err != nil {
		return nil, fmt.Errorf("%w. Add the table mcp_servers.mailroom yourself, with %s", err,
			strings.Join(lines(fields), ", "))
	}
	return after, nil
}

// tomlFields returns the values of our table, which replace those of an existing server. Texts, numbers and lists of
// texts have the same form in TOML as in JSON.
func (c *connection) tomlFields(h *agenthost.Host, of *agenthost.File, server map[string]any) (fields []tomlField, err error) {
	entry := c.server(h, of)
	text, err := orchestrator.JSON(entry)
	if err != nil {
		return nil, err
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(text, &values); err != nil {
		return nil, err
	}
	words := append([]string{c.program}, c.serve(h.Name)...)
	if server != nil {
		words = replaced(commandOf(server), words, toolsAt)
	}
	if values["args"], err = orchestrator.JSON(words[1:]); err != nil {
		return nil, err
	}
	values["command"] = orchestrator.JSONString(words[0])
	for _, name := range namesOf(entry) {
		fields = append(fields, tomlField{name, string(values[name])})
	}
	for _, name := range of.Optional {
		if values[name] == nil {
			fields = append(fields, tomlField{name, ""})
		}
	}
	return fields, nil
}

// lines returns the values as lines of a table.
func lines(fields []tomlField) (list []string) {
	for _, f := range fields {
		if f.value != "" {
			list = append(list, f.name+" = "+f.value)
		}
	}
	return list
}

// addServer adds our table to the inline table of all servers or, if there is none, at the end of the file.
func (t *tomlText) addServer(fields []tomlField) []byte {
	own := lines(fields)
	if i := slices.IndexFunc(t.parts, func(p tomlPart) bool { return p.table && p.is("mcp_servers") }); i >= 0 {
		table := "mailroom = { " + strings.Join(own, ", ") + " }"
		holder := t.parts[i].value
		last := holder + 1
		for j := i + 1; j < len(t.parts) && t.parts[j].inline; j++ {
			if t.holder(&t.parts[j]) == holder {
				last = t.parts[j].end
			}
		}
		if last == holder+1 {
			return t.edited([]tomlEdit{{last, last, " " + table + " "}})
		}
		return t.edited([]tomlEdit{{last, last, ", " + table}})
	}
	gap := ""
	switch {
	case len(t.text) == 0:
	case bytes.HasSuffix(t.text, []byte("\n")):
		gap = t.eol
	default:
		gap = t.eol + t.eol
	}
	text := gap + "[mcp_servers.mailroom]" + t.eol + strings.Join(own, t.eol) + t.eol
	return append(bytes.Clone(t.text), text...)
}

// onlyServerDiffers reports whether two versions of a configuration differ only in our server, which must have these
// values in the second.
func onlyServerDiffers(before, after []byte, fields []tomlField) bool {
	_, was, err := parseTOML(before)
	if err != nil {
		return false
	}
	_, is, err := parseTOML(after)
	if err != nil {
		return false
	}
	had, server := codexServer(was), codexServer(is)
	if len(fields) == 0 && server != nil {
		return false
	}
	for _, f := range fields {
		if v, has := server[f.name]; has != (f.value != "") || has && !sameTOML(v, f.value) {
			return false
		}
		delete(had, f.name)
		delete(server, f.name)
	}
	if len(fields) > 0 && fmt.Sprintf("%#v", had) != fmt.Sprintf("%#v", server) && len(had)+len(server) > 0 {
		return false // the user's own values of the server
	}
	for _, all := range []map[string]any{was, is} {
		if servers, _ := all["mcp_servers"].(map[string]any); servers != nil {
			if delete(servers, "mailroom"); len(servers) == 0 {
				delete(all, "mcp_servers")
			}
		}
	}
	return fmt.Sprintf("%#v", was) == fmt.Sprintf("%#v", is)
}

// dropTable removes our table in whichever form it is written, including parts of it elsewhere in the file.
func dropTable(before, was []byte) ([]byte, error) {
	t, all, err := parseTOML(before)
	if err != nil {
		return nil, err
	}
	if own(commandOf(codexServer(all)), toolsAt) == nil {
		return before, nil
	}
	after := t.remove(codexTable)
	if !onlyServerDiffers(before, after, nil) {
		return nil, errors.New("cannot safely edit this file because of its formatting; remove the table mcp_servers.mailroom yourself")
	}
	if len(was) == 0 && len(bytes.TrimSpace(after)) == 0 {
		return nil, nil
	}
	return after, nil
}
