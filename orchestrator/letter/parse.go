package letter

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"mailroom/orchestrator"
)

// maxID is the longest message id, in bytes.
const maxID = 256

// Parse parses a message file. Parse is strict: it refuses keys that repeat or differ only in case, trailing data,
// NUL and invalid UTF-8. It tolerates only a byte order mark, which some shells write. id, from, to, type and payload
// are required. A missing or null priority means normal, and a missing or null status means pending. Error:
// invalid_params, whose message begins with the path of the fault, such as `payload: missing`.
func Parse(text []byte) (Letter, error) {
	l, err := parse(text)
	if err != nil {
		return Letter{}, err
	}
	folded := strings.ToLower(l.From) == l.From && strings.ToLower(l.To) == l.To // a row stores names in lower case
	if ours, err := l.Encode(); err != nil || !folded || !bytes.Equal(ours, text) {
		l.file = bytes.Clone(text)
	}
	return l, nil
}

func parse(text []byte) (l Letter, err error) {
	list, err := members(orchestrator.WithoutMark(text))
	if err != nil {
		return l, err
	}
	columns := map[string]*string{}
	for _, c := range l.columns() {
		columns[c.key] = c.text
	}
	extras := map[string]*string{}
	for _, e := range l.extras() {
		extras[e.key] = e.text
	}
	for _, m := range list {
		switch {
		case m.Key == "payload":
			l.Payload = m.Value
		case columns[m.Key] != nil:
			if *columns[m.Key], err = textOf(m); err != nil {
				return l, err
			}
		case extras[m.Key] != nil && means(m):
			*extras[m.Key], _ = textOf(m)
		default:
			l.More = append(l.More, m)
		}
	}
	l.Priority, l.Status = cmp.Or(l.Priority, "normal"), cmp.Or(l.Status, waiting)
	return l, l.check()
}

// means reports whether a key that the document does not define, such as summary, has a value that the other
// vocabularies allow. Otherwise the key is kept as an unknown key.
func means(m Member) bool {
	text, err := textOf(m)
	return err == nil && text != "" && (m.Key != "action" || text == "queue" || text == "interrupt")
}

func (l *Letter) check() error {
	for _, required := range []struct{ key, text string }{
		{"id", l.ID}, {"from", l.From}, {"to", l.To}, {"type", l.Type}, {"payload", string(l.Payload)},
	} {
		if required.text == "" && required.key == "id" {
			return fault("id",
				"missing; use an ID that no other message has, such as msg-developer-20250123-120000-001")
		}
		if required.text == "" {
			return fault(required.key, "missing")
		}
	}
	switch {
	case len(l.ID) > maxID:
		return fault("id", "the value has %d bytes, but the limit is %d", len(l.ID), maxID)
	case strings.ContainsRune(l.ID, utf8.RuneError):
		return fault("id", "the value contains invalid characters")
	case !slices.Contains(orchestrator.Priorities, l.Priority):
		return fault("priority", "%q is not one of %s", orchestrator.Clip(l.Priority),
			strings.Join(orchestrator.Priorities, ", "))
	}
	return nil
}

// textOf returns the value of a key whose value is text or null.
func textOf(m Member) (text string, err error) {
	if string(m.Value) == "null" {
		return "", nil
	}
	if json.Unmarshal(m.Value, &text) != nil {
		return "", fault(m.Key, "the value must be text, but is %s", orchestrator.Clip(string(m.Value)))
	}
	if strings.ContainsRune(text, 0) {
		return "", fault(m.Key, "the value must not contain NUL")
	}
	return text, nil
}

// members splits a JSON object into its keys, in their order.
func members(text []byte) (list []Member, err error) {
	switch {
	case bytes.HasPrefix(text, []byte("\xff\xfe")), bytes.HasPrefix(text, []byte("\xfe\xff")):
		return nil, fault("", "the file must be UTF-8, but is UTF-16")
	case !utf8.Valid(text):
		return nil, fault("", "the file must be UTF-8")
	case bytes.IndexByte(text, 0) >= 0:
		return nil, fault("", "the file must not contain NUL")
	case len(bytes.TrimSpace(text)) == 0:
		return nil, fault("", "the file is empty")
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber() // a number as a token may be too large for any other form
	if token, err := dec.Token(); err != nil {
		return nil, notJSON(err)
	} else if token != json.Delim('{') {
		return nil, fault("", "the file must contain a JSON object")
	}
	seen := map[string]string{} // keys as written, by their lower-case form
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, notJSON(err)
		}
		key, _ := token.(string) // in an object, the token is always a string
		folded := strings.ToLower(key)
		switch first, twice := seen[folded]; {
		case twice && first == key:
			return nil, fault(orchestrator.Clip(key), "the key occurs twice")
		case twice: // readers differ in which of the two they use
			return nil, fault(orchestrator.Clip(key), "the key occurs twice; the other spelling is %s", orchestrator.Clip(first))
		}
		seen[folded] = key
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, notJSON(err)
		}
		list = append(list, Member{key, value})
	}
	if _, err := dec.Token(); err != nil {
		return nil, notJSON(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fault("", "the file contains text after the JSON object")
	}
	return list, nil
}

func notJSON(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fault("", "the file ends before its JSON is complete")
	}
	return fault("", "the file is not valid JSON: %v", err)
}

// fault returns the error for a fault at a path of the file; "" is the whole file.
func fault(path, format string, args ...any) error {
	if path != "" {
		path += ": "
	}
	return orchestrator.Errorf(orchestrator.InvalidParams, "%s", path+fmt.Sprintf(format, args...))
}
