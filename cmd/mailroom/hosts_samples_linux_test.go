package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// samples is the folder with the hosts' input to hooks, for the tests of package hook. With -update the samples are
// rewritten.
const samples = "../../commands/surface/hook/testdata/samples"

// recording returns a shell command around that of a hook that stores the host's input to the hook.
func (k *desk) recording() string { return fmt.Sprintf("tee %s/$EVENT.said | hook", k.folder) }

// neutral are the texts that differ between runs, with their replacements.
var neutral = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`msg-[0-9A-Z]{26}`), "msg-01ARZ3NDEKTSV4RRFFQ69G5FAV"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`),
		"01234567-89ab-4cde-8f01-23456789abcd"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "2026-01-02T03:04:05.678Z"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d`), "2026-01-02T03-04-05"},
	{regexp.MustCompile(`\d+\.[0-9a-f]{24}`), "1.aaaaaaaaaaaaaaaaaaaaaaaa"},
	{regexp.MustCompile(`/\d{4}/\d\d/\d\d/`), "/2026/01/02/"},
	{regexp.MustCompile(`/tmp/[^"' ]*/gate`), "/tmp/gate"},
	{regexp.MustCompile(`"(duration_ms|create_time|durationMs|command_duration_ms)":[0-9.]+`), `"$1":1`},
}

// neutralized replaces the texts that differ between runs.
func (k *desk) neutralized(text []byte) []byte {
	const home = "/home/bob/shop"
	dashes := func(path string) string { return regexp.MustCompile(`[^A-Za-z0-9]`).ReplaceAllString(path, "-") }
	text = bytes.ReplaceAll(text, []byte(k.mailroom()), []byte("/usr/bin/mailroom"))
	text = bytes.ReplaceAll(text, []byte(k.folder), []byte(home))
	text = bytes.ReplaceAll(text, []byte(dashes(k.folder)), []byte(dashes(home)))
	for _, n := range neutral {
		text = n.pattern.ReplaceAll(text, []byte(n.instead))
	}
	return text
}

// checkSamples compares the samples with the host's current input, as far as the hooks read it: for each event, and
// in the transcript, which is in a folder below the desk's, for a message that was shown and answered.
func (k *desk) checkSamples(transcripts, id string) {
	k.t.Helper()
	for _, event := range k.hooks {
		said, err := os.ReadFile(filepath.Join(k.folder, event+".said"))
		if os.IsNotExist(err) {
			continue // it has not happened
		}
		if err != nil {
			k.t.Fatal(err)
		}
		k.checkSample(event+".json", k.neutralized(said))
	}
	k.checkSample("transcript.jsonl", k.neutralized(k.transcript(transcripts, id)))
}

// transcript returns the lines of the host's transcript starting with the one before a message, without unrelated
// long lines. It returns nothing if the message is not in the transcript yet.
func (k *desk) transcript(folder, id string) []byte {
	k.t.Helper()
	var lines [][]byte
	err := filepath.WalkDir(filepath.Join(k.folder, folder), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".jsonl") {
			return err
		}
		text, err := os.ReadFile(path)
		all := slices.Collect(bytes.Lines(text))
		if at := slices.IndexFunc(all, func(line []byte) bool { return bytes.Contains(line, []byte(id)) }); at > 0 {
			lines = slices.DeleteFunc(all[at-1:],
				func(line []byte) bool { return len(line) > 4000 && !bytes.Contains(line, []byte(id)) })
		}
		return err
	})
	if err != nil {
		k.t.Fatal(err)
	}
	return bytes.Join(lines, nil)
}

// checkSample compares one sample, or writes it. Hosts add data with each version, and only the parts that the hooks
// read must remain.
func (k *desk) checkSample(name string, now []byte) {
	k.t.Helper()
	path := filepath.Join(samples, k.host, name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			k.t.Fatal(err)
		}
		if err := os.WriteFile(path, now, 0o644); err != nil {
			k.t.Fatal(err)
		}
		return
	}
	was, err := os.ReadFile(path)
	if err != nil {
		k.t.Fatal(err)
	}
	if got, want := gist(now), gist(was); !slices.Equal(got, want) {
		k.t.Errorf("%s says something else than in %s:\n%s\nwant\n%s", k.host, path, strings.Join(got, "\n"),
			strings.Join(want, "\n"))
	}
}

// gist returns the parts of a host's input that the hooks read, line by line. For a transcript, these are the places
// of messages and of the model's answers.
func gist(text []byte) (lines []string) {
	for line := range bytes.Lines(text) {
		var said struct {
			Session    string `json:"session_id"`
			Transcript string `json:"transcript_path"`
			Event      string `json:"hook_event_name"`
			Prompt     string
			Type       string
			Payload    struct{ Type, Role string }
		}
		if err := json.Unmarshal(line, &said); err != nil {
			lines = append(lines, err.Error())
			continue
		}
		framed := bytes.Contains(line, []byte(`<mailroom-message id=\"`))
		if framed || said.Event != "" || said.Type == "assistant" || said.Payload.Role != "" {
			lines = append(lines, fmt.Sprintf("%+v %t", said, framed))
		}
	}
	return lines
}
