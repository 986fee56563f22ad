package main

import (
	"bytes"
	"context"
	"io"
	"syscall"
	"testing"

	"mailroom/commands"
	"mailroom/commands/surface/phone/browsertest"
)

// household is an office with a daemon, and a person who has phones.
type household struct {
	*office
	ctx    context.Context
	push   *browsertest.PushService
	daemon *serving
	log    bytes.Buffer // the daemon's; complete once logged is closed
	logged chan struct{}
}

// newHousehold starts a daemon that accepts the test's push service, with builder as the asking agent. The program is
// one of those that TestMain lists.
func newHousehold(ctx context.Context, t *testing.T, program string) *household {
	t.Helper()
	h := &household{ctx: ctx, push: browsertest.NewPushService(ctx, t), logged: make(chan struct{})}
	h.office = newOfficeOf(t, program, t.TempDir(), "builder")
	h.env = []string{"SSL_CERT_FILE=" + h.push.CertificateFile()}
	h.run("setting", "set", "signal.push_hosts", h.push.Host())
	h.run("setting", "set", "signal.allow_private", "on")
	h.daemon = h.serve("--phone", "127.0.0.1:0", "--log-level", "debug")
	h.run("setting", "set", "signal.url", h.daemon.phone)
	go func() {
		defer close(h.logged)
		io.Copy(&h.log, h.daemon.logs)
	}()
	t.Cleanup(func() {
		h.daemon.cmd.Process.Kill()
		<-h.logged
		h.daemon.cmd.Wait()
		if t.Failed() {
			t.Logf("the daemon logged:\n%s", h.log.Bytes())
		}
	})
	return h
}

// pair makes a page become a device, as its person would: it opens the address, and approves the fingerprint on the
// page. It returns the device's ID.
func (h *household) pair(p *browsertest.Page) (id string) {
	h.t.Helper()
	p.Open(h.run("signal", "pair")["url"].(string))
	p.Click("Pair this device")
	p.Until(`document.querySelector(".fingerprint")`)
	var fingerprint string
	p.Eval(`document.querySelector(".fingerprint").textContent`, &fingerprint)
	device := h.run("signal", "device", "approve", fingerprint)["device"].(map[string]any)
	p.Eval(`void dispatchEvent(new Event("focus"))`, nil) // as when the person looks at it again
	p.Reads("No open questions")
	return device["id"].(string)
}

// ring turns on the notifications of a device on its page.
func (h *household) ring(p *browsertest.Page) {
	h.t.Helper()
	p.Click("Turn on notifications")
	p.Until(`![...document.querySelectorAll("button")].some(b => b.innerText === "Turn on notifications")`)
}

// ask asks as builder and returns the question's ID.
func (h *household) ask(question string, more ...string) (id string) {
	h.t.Helper()
	answer := h.run(append([]string{"signal", "ask-question", "--as", "builder", "--question", question}, more...)...)
	return answer["questionId"].(string)
}

// answer presses an answer on a page, and leaves the page, so that an answer that could still be taken back is sent
// immediately.
func (h *household) answer(p *browsertest.Page, name string) {
	h.t.Helper()
	p.Click(name)
	p.Until(`document.querySelector("[data-until]")`)
	p.Eval(`void dispatchEvent(new Event("pagehide"))`, nil)
}

// project returns the app's name for the project of the database.
func (h *household) project() string { return commands.ProjectName(h.db) }

// response waits until a question has ended, and returns the asker's answer.
func (h *household) response(id string) map[string]any {
	h.t.Helper()
	for {
		got := h.run("signal", "get-response", id, "--as", "builder", "--wait-seconds", "55")
		if got["answered"] == true || got["status"] != nil || h.ctx.Err() != nil {
			return got
		}
	}
}

// answered fails the test unless the asker gets this answer.
func (h *household) answered(id, want string) {
	h.t.Helper()
	if got := h.response(id); got["answered"] != true || got["response"] != want {
		h.t.Errorf("the asker is told %v; want the answer %q", got, want)
	}
}

// stop ends the daemon and returns its log.
func (h *household) stop() string {
	h.t.Helper()
	h.daemon.cmd.Process.Signal(syscall.SIGTERM)
	<-h.logged
	return h.log.String()
}
