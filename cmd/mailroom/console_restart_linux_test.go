package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mailroom/commands/surface/phone/browsertest"
)

// TestConsoleOutlivesItsDaemon checks that a page stays open while its daemon is killed or asked to end, and another
// is started at the same address. The page shows that there is no connection, continues by itself without a reload
// and with the same login, and misses nothing.
func TestConsoleOutlivesItsDaemon(t *testing.T) {
	t.Parallel()
	ctx := browsertest.Start(t, browsertest.ShellPrograms...)
	odd := filepath.Join(t.TempDir(), "it's $' $& $$ \u200d")
	if err := os.Mkdir(odd, 0o700); err != nil {
		t.Fatal(err)
	}
	o := newOfficeOf(t, "mailroom", odd, "a", "b")
	s := o.serve()
	_, address, code := o.consoleOf()
	d := browsertest.StartShell(ctx, t).NewScreen(1440, 900, false)
	d.Open(address + "/messages#code=" + code)
	d.Until(`document.querySelector(".live[title]")`)
	d.Eval(`document.body.dataset.loaded = "once"`, nil)
	says := `[...document.querySelectorAll(".stream tr.is-delivered .c-says")].map((cell) => cell.textContent).join("|")`
	var sent []string
	send := func(text string) {
		o.run("send", "--sender", "a", "--recipient", "b", "--message-type", "note", "--payload", `"`+text+`"`)
		sent = append([]string{text}, sent...)
	}
	for _, end := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGKILL} {
		send("before " + end.String())
		d.Until(says + ` === "` + strings.Join(sent, "|") + `"`)
		if err := s.cmd.Process.Signal(end); err != nil {
			t.Fatal(err)
		}
		s.cmd.Wait()
		d.Until(`document.querySelector(".live.offline")`)
		send("while nobody served")
		s = o.serveAt(strings.TrimPrefix(address, "http://"))
		d.Until(`document.querySelector(".live[title]") && ` + says + ` === "` + strings.Join(sent, "|") + `"`)
		send("after " + end.String())
		d.Until(says + ` === "` + strings.Join(sent, "|") + `" && document.body.dataset.loaded === "once"`)
	}

	// Commands to copy name the database, and are valid for a shell whatever the folder and the sender are called.
	id := "x; touch made; #"
	o.run("invoke", "ralph_send", `{"from":"a","to":"b","type":"note","payload":{},"id":"`+id+`"}`)
	d.Eval(fmt.Sprintf(`(history.pushState(null, "", "/messages/" + encodeURIComponent(%q)), dispatchEvent(new PopStateEvent("popstate")))`, id), nil)
	d.Until(`document.querySelector(".cmd code")`)
	var command string
	d.Eval(`[...document.querySelectorAll(".cmd code")].at(-1).textContent`, &command)
	said, err := exec.CommandContext(ctx, "bash", "-c", `printf '%s\n' `+command).CombinedOutput()
	if want := "mailroom\n--db\n" + o.db + "\ntrace\n" + id + "\n"; err != nil || string(said) != want {
		t.Errorf("of %q a shell makes %q, %v; want %q", command, said, err, want)
	}
}
