package main

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"mailroom/orchestrator/store/postgres"
)

// canaries are unique words, by the part of a question that they belong to.
type canaries map[string]string

func newCanaries(names ...string) canaries {
	words := canaries{}
	for _, name := range names {
		words[name] = name + strings.ToLower(rand.Text()[:12])
	}
	return words
}

// forms returns the bytes by which a word can be found: unchanged, and in other encodings of a text around it.
func forms(word string) map[string][]byte {
	list := map[string][]byte{
		"text": []byte(word), "reversed": []byte(word), "hex": []byte(hex.EncodeToString([]byte(word))),
	}
	slices.Reverse(list["reversed"])
	for _, unit := range utf16.Encode([]rune(word)) {
		list["UTF-16"] = append(list["UTF-16"], byte(unit), byte(unit>>8))
	}
	for before := range 3 {
		// The base64 form of a word depends on the number of bytes before it; its ends depend on the neighbouring
		// bytes.
		encoded := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + word))
		list[fmt.Sprintf("base64 after %d", before)] = []byte(encoded[(before*8+5)/6 : len(encoded)-1])
	}
	return list
}

// places returns all stored and printed data of a database, by name: the files beside it, the contents of its tables
// (since the end of a page of the file can split a word), the metrics while the daemon runs, and its log after it has
// ended.
func (h *household) places() map[string][]byte {
	h.t.Helper()
	found := h.tables()
	err := filepath.WalkDir(h.folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			found[path], err = os.ReadFile(path)
		}
		return err
	})
	if err != nil || len(found[h.db]) == 0 && !postgres.IsAddress(h.db) {
		h.t.Fatalf("no database: %v", err)
	}
	select {
	case <-h.logged:
		found["log"] = h.log.Bytes()
	default:
		res, err := http.Get(h.daemon.address + "/metrics")
		if err != nil {
			h.t.Fatal(err)
		}
		defer res.Body.Close()
		if found["metrics"], err = io.ReadAll(res.Body); err != nil || len(found["metrics"]) == 0 {
			h.t.Fatalf("no metrics: %v", err)
		}
	}
	return found
}

// hides fails the test if a word of an encrypted question can be found anywhere. Options may be in the file with the
// asker's keys, which is beside the database and accessible only to its own user.
func (h *household) hides(words canaries, options ...string) {
	h.t.Helper()
	replies := filepath.Join(h.beside()+"-signal", "replies") + string(filepath.Separator)
	for place, content := range h.places() {
		for name, word := range words {
			if strings.HasPrefix(place, replies) && slices.Contains(options, name) {
				continue
			}
			for form, bytes := range forms(word) {
				if contains(content, bytes) {
					h.t.Errorf("the %s stands in %s, as %s", name, place, form)
				}
			}
		}
	}
}

func contains(content, word []byte) bool {
	return bytes.Contains(bytes.ToLower(content), bytes.ToLower(word))
}

// shows checks that hides can detect words: it fails the test if an unencrypted question is not found.
func (h *household) shows(places ...string) {
	h.t.Helper()
	words := newCanaries("question", "option", "context")
	h.ask(words["question"], "--encrypt=false", "--options", words["option"], "--context", words["context"])
	for name, word := range words {
		there := map[string]bool{}
		for place, content := range h.places() {
			there[place] = contains(content, forms(word)["text"])
		}
		for _, place := range places {
			if !there[place] {
				h.t.Errorf("the %s of a question that is not encrypted is not found in %s", name, place)
			}
		}
	}
}

// TestCanaryForms checks that a word is found in every form.
func TestCanaryForms(t *testing.T) {
	t.Parallel()
	word := newCanaries("question")["question"]
	for _, before := range []string{"", "1", "12", "123", `{"question":"`} {
		text := []byte(before + word + " and more")
		for form, said := range map[string]string{"hex": hex.EncodeToString(text),
			"base64": base64.StdEncoding.EncodeToString(text)} {
			found := false
			for _, bytes := range forms(word) {
				found = found || contains([]byte(said), bytes)
			}
			if !found {
				t.Errorf("%q is not found in %s", word, form)
			}
		}
	}
}
