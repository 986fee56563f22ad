package connect

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"mailroom/orchestrator/agenthost"
	"mailroom/orchestrator/pattern"
)

// codexHook is one of our hooks, as Codex identifies it.
type codexHook struct {
	event  string
	place  string // in its file: the event, the index of the group, and the index of the hook
	digest string // of the hook
}

// distrusted describes the hooks that Codex does not run, because its user has not trusted their current form or has
// disabled them. It returns "" if Codex runs them all. Codex's own configuration identifies each trusted hook by its
// file, its place in the file, and its digest.
func distrusted(h *agenthost.Host, at *agenthost.Place) string {
	own := h.Off[0].Paths(at)[0]
	var conf struct {
		Hooks struct {
			State map[string]struct {
				Trusted string `toml:"trusted_hash"`
				Enabled *bool  `toml:"enabled"`
			} `toml:"state"`
		} `toml:"hooks"`
	}
	text, err := os.ReadFile(own)
	if err == nil {
		err = toml.Unmarshal(text, &conf)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "cannot determine whether Codex trusts the hooks: " + own + ": " + err.Error()
	}
	file := h.Files[len(h.Files)-1]
	path := file.Paths(at)[0]
	text, real, err := read(path)
	if err != nil {
		return "cannot read the hooks: " + err.Error()
	}
	found := codexHooks(file.Hooks, text)
	var off []string
	for _, e := range file.Hooks {
		if !slices.ContainsFunc(found, func(h codexHook) bool {
			return h.event == e.Event && slices.ContainsFunc([]string{path, real}, func(file string) bool {
				state := conf.Hooks.State[file+":"+h.place]
				return state.Trusted == h.digest && (state.Enabled == nil || *state.Enabled)
			})
		}) {
			off = append(off, e.Event)
		}
	}
	if len(off) == 0 {
		return ""
	}
	return "Codex does not run the hooks " + strings.Join(off, ", ") +
		", because they are not trusted, were changed, or are disabled"
}

// digest returns the SHA-256 of a text in hexadecimal, by which texts are compared.
func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// innerCapital matches the capital letters within the name of an event.
var innerCapital = pattern.New(`\B[A-Z]`)

// codexHooks returns our hooks in Codex's hook file.
func codexHooks(entries []agenthost.Entry, text []byte) (list []codexHook) {
	var file struct {
		Hooks map[string][]struct {
			Matcher *string `json:"matcher"`
			Hooks   []struct {
				Type    string `json:"type"`
				Command string `json:"command"`
				Timeout int    `json:"timeout"`
				Async   bool   `json:"async"`
			} `json:"hooks"`
		} `json:"hooks"`
	}
	if json.Unmarshal(standardized(text), &file) != nil {
		return nil
	}
	for _, e := range entries {
		event := e.Event
		name := strings.ToLower(innerCapital().ReplaceAllString(event, "_$0"))
		for i, group := range file.Hooks[event] {
			for j, h := range group.Hooks {
				if hookEvent(h.Command) != event {
					continue
				}
				hook := map[string]any{"type": h.Type, "command": h.Command, "timeout": h.Timeout, "async": h.Async}
				identity := map[string]any{"event_name": name, "hooks": []any{hook}}
				if group.Matcher != nil {
					identity["matcher"] = *group.Matcher
				}
				list = append(list,
					codexHook{event, fmt.Sprintf("%s:%d:%d", name, i, j), "sha256:" + digest(sorted(identity))})
			}
		}
	}
	return list
}

// sorted returns JSON with the members of objects sorted by name, and without spaces. Codex computes its digests from
// this form.
func sorted(v any) []byte {
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // only texts, numbers, lists and objects
	}
	return []byte(strings.TrimSuffix(text.String(), "\n"))
}
