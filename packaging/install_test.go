package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// newKey creates a key for signatures.
func newKey(t *testing.T) string {
	t.Helper()
	need(t, "ssh-keygen")
	key := filepath.Join(t.TempDir(), "key")
	command(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "somebody", "-f", key)
	return key
}

// testNPM installs the packages of this system from their files, and uses the program.
func testNPM(t *testing.T, out, program, version string) {
	need(t, "npm")
	home := t.TempDir()
	cpu := strings.Replace(runtime.GOARCH, "amd64", "x64", 1)
	npm := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "npm", append(args, "--global", "--prefix", home, "--offline", "--no-audit", "--no-fund",
			"--cache", filepath.Join(home, "cache"))...)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, text)
		}
	}
	whole := only(t, out, "mailroom-npm_"+version+".tgz")
	one := only(t, out, "mailroom-npm_*_linux-"+cpu+".tgz")
	only(t, out, "mailroom-npm_*_win32-"+cpu+".tgz")
	npm("install", whole)
	installed := filepath.Join(home, "bin", "mailroom")
	if text, err := exec.CommandContext(t.Context(), installed, "--version").CombinedOutput(); err == nil ||
		!strings.Contains(string(text), npmScope+"/mailroom-linux-"+cpu+" is missing") {
		t.Errorf("without the package for this system it prints %s, and ends with %v", text, err)
	}
	npm("install", one, whole)
	if got, want := command(t, installed, "--version"), command(t, program, "--version"); got != want {
		t.Errorf("it is %q, and the program %q", got, want)
	}
	database := filepath.Join(home, "mailroom.db")
	command(t, installed, "--db", database, "init")
	command(t, installed, "--db", database, "agent", "add", "a")
	command(t, installed, "--db", database, "agent", "add", "b")
	lines := exec.CommandContext(t.Context(), installed, "--db", database, "send", "--stdin")
	lines.Stdin = strings.NewReader(`{"sender":"a","recipient":"b","message_type":"note"}` + "\n")
	if text, err := lines.Output(); err != nil || !strings.Contains(string(text), `"success":true`) {
		t.Errorf("a line on standard input is answered with %s: %v", text, err)
	}
	err := exec.CommandContext(t.Context(), installed, "--db", database, "show", "nothing").Run()
	if failed, is := err.(*exec.ExitError); !is || failed.ExitCode() != 66 {
		t.Errorf("its exit status is that of %v", err)
	}
	// Without a terminal, only the launcher passes on a signal.
	waiting := exec.CommandContext(t.Context(), installed, "--db", database, "wait", "--recipient", "a", "--timeout", "60s")
	if err := waiting.Start(); err != nil {
		t.Fatal(err)
	}
	untilStarted(t, waiting.Process.Pid)
	waiting.Process.Signal(os.Interrupt)
	if err := waiting.Wait(); waiting.ProcessState.ExitCode() != 130 {
		t.Errorf("interrupted it ends with %v", err)
	}
	// If the launcher is killed, the program prints nothing more, because it is killed as well.
	killed := exec.CommandContext(t.Context(), installed, "--db", database, "wait", "--recipient", "a", "--timeout", "60s")
	output, err := killed.StdoutPipe()
	if err == nil {
		err = killed.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	untilStarted(t, killed.Process.Pid)
	killed.Process.Kill()
	if text, err := io.ReadAll(output); err != nil || len(text) > 0 {
		t.Errorf("after its launcher was killed, the program printed %s, %v", text, err)
	}
	killed.Wait()
	if text := command(t, installed, "upgrade"); !strings.Contains(text, "npm install --global ./mailroom-npm_VERSION.tgz ./mailroom-npm_VERSION_linux-"+cpu+".tgz") {
		t.Errorf("upgrade prints %s", text)
	}
	for _, archive := range []string{whole, one} {
		if text := command(t, "tar", "-xzOf", archive, "package/package.json"); strings.Contains(text, "scripts") {
			t.Errorf("%s runs scripts: %s", archive, text)
		}
	}
}

// untilStarted returns when the launcher with a process ID has started the program.
func untilStarted(t *testing.T, launcher int) {
	t.Helper()
	for children := ""; children == ""; {
		children = read(t, fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", launcher))
	}
}

// testFormula runs the steps of the formula on the source archive in it, because brew itself cannot run here.
func testFormula(t *testing.T, out, version string) {
	need(t, "ruby")
	formula := only(t, out, "*.rb")
	command(t, "ruby", "-wc", formula)
	prefix := t.TempDir()
	brew, err := filepath.Abs("testdata/brew.rb")
	if err != nil {
		t.Fatal(err)
	}
	command(t, "ruby", brew, formula, prefix)
	if got := command(t, filepath.Join(prefix, "bin", "mailroom"), "--version"); got != "mailroom version v"+version+"\n" {
		t.Errorf("it is %q", got)
	}
	if text := read(t, filepath.Join(prefix, "share/man/man1/mailroom.1")); !strings.HasPrefix(text, ".TH MAILROOM") {
		t.Errorf("the man page starts with %.60q", text)
	}
	if text := read(t, filepath.Join(prefix, "completions/fish")); !strings.Contains(text, "complete -c mailroom") {
		t.Errorf("the completion of fish is %.60q", text)
	}
}

// testInstaller downloads and installs with install.sh. It checks that install.sh installs nothing that the key has
// not signed.
func testInstaller(t *testing.T, out, key, version string) {
	served := t.TempDir()
	archive := filepath.Base(only(t, out, "mailroom_*_linux_"+runtime.GOARCH+".tar.gz"))
	fresh := func() {
		for _, name := range []string{"SHA256SUMS", "SHA256SUMS.sig", archive} {
			if err := os.WriteFile(filepath.Join(served, name), []byte(read(t, filepath.Join(out, name))), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	server := httptest.NewServer(http.FileServer(http.Dir(served)))
	defer server.Close()
	home := t.TempDir()
	program := filepath.Join(home, ".local", "bin", "mailroom")
	script := filepath.Join(out, "install.sh")
	install := func(from string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "sh", append([]string{script}, args...)...)
		cmd.Env = append(os.Environ(), "HOME="+home, "MAILROOM_FROM="+from)
		text, err := cmd.CombinedOutput()
		return string(text), err
	}
	sign := func(key string) {
		t.Helper()
		sums := filepath.Join(served, "SHA256SUMS")
		os.Remove(sums + ".sig")
		command(t, "ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", "mailroom", sums)
	}
	other := newKey(t)
	change := func(name string) {
		if err := os.WriteFile(filepath.Join(served, name), []byte(read(t, filepath.Join(served, name))+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, row := range map[string]struct {
		do   func()
		said string
	}{
		"another archive": {func() { change(archive) }, "is not the file that was signed"},
		"another list":    {func() { change("SHA256SUMS") }, "signature of SHA256SUMS is not valid"},
		"another key":     {func() { sign(other) }, "signature of SHA256SUMS is not valid"},
		"no signature":    {func() { os.Remove(filepath.Join(served, "SHA256SUMS.sig")) }, "cannot download"},
		"a list of older ones": {func() {
			os.WriteFile(filepath.Join(served, "SHA256SUMS"), []byte("00  mailroom_0.1.tar.gz\n"), 0o644)
			sign(key)
		}, "does not list"},
	} {
		fresh()
		row.do()
		if text, err := install(server.URL); err == nil || !strings.Contains(text, row.said) {
			t.Errorf("%s: %v, %s", name, err, text)
		}
	}
	if _, err := os.Stat(filepath.Join(home, ".local")); err == nil {
		t.Fatal("something was installed")
	}
	fresh()
	for _, from := range []string{server.URL, served, ""} {
		os.Remove(program)
		if text, err := install(from); err != nil || !strings.Contains(text, "Add "+filepath.Dir(program)+" to PATH") {
			t.Fatalf("from %q: %v, %s", from, err, text)
		}
		if got := command(t, program, "--version"); got != "mailroom version v"+version+"\n" {
			t.Errorf("it is %q", got)
		}
	}
	if text, err := install(server.URL, filepath.Join(home, "my programs")); err != nil {
		t.Errorf("into a folder that is named: %v, %s", err, text)
	}
	command(t, filepath.Join(home, "my programs", "mailroom"), "--version")
	file := filepath.Join(home, "file")
	taken := filepath.Join(home, "taken", "mailroom")
	for _, err := range []error{os.WriteFile(file, nil, 0o644), os.MkdirAll(taken, 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for said, args := range map[string][]string{
		taken + " is a folder": {filepath.Dir(taken)}, "cannot create " + file: {file},
		"only one folder": {"my", "programs"}, "-x is not an option": {"-x"},
	} {
		if text, err := install(server.URL, args...); err == nil || !strings.Contains(text, said) ||
			!strings.Contains(text, "Nothing was installed") {
			t.Errorf("%q: %v, %s", args, err, text)
		}
	}
	if text := read(t, script); strings.Contains(text, "somebody") || !strings.Contains(text, "key='ssh-ed25519 ") {
		t.Errorf("install.sh has another key, or its owner: %s", text)
	}
}
