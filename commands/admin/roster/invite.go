package roster

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/certificate"
	"mailroom/orchestrator/daemons"
)

// InviteParams holds who is invited, and the name of this machine as the other machine uses it.
type InviteParams struct {
	Name      string `json:"name,omitempty" desc:"agent that the other machine or container acts as" check:"agent" arg:"1"`
	Operator  bool   `json:"operator,omitempty" desc:"invite a second machine of yours, which gets all rights of the console"`
	Host      string `json:"host,omitempty" desc:"host name or address at which the other machine reaches this one" check:"max=253"`
	Container bool   `json:"container,omitempty" desc:"invite a container on this machine, which reaches this machine as host.docker.internal"`
}

// InviteResult holds what to type on the other machine.
type InviteResult struct {
	Agent     string `json:"agent"`
	Link      string `json:"link"` // argument of `mailroom join`
	ExpiresAt string `json:"expires_at"`
}

var inviteCommand = commands.Define(vocabulary, "invite", invite).With(commands.Traits{HereOnly: true})

// containerHost is the name by which containers reach the machine that they run on.
const containerHost = "host.docker.internal"

func invite(ctx context.Context, env commands.Env, p InviteParams) (InviteResult, error) {
	if (p.Name == "") != p.Operator {
		return InviteResult{}, orchestrator.InvalidParam("name", "give either the name of an agent or `operator`").
			WithHint("Run `mailroom invite NAME`. For a second machine of yours, run `mailroom invite --operator`")
	}
	at, err := listening(ctx, env)
	if err != nil {
		return InviteResult{}, err
	}
	pin, err := pinAt(ctx, at)
	if err != nil {
		return InviteResult{}, err
	}
	if p.Container {
		p.Host = cmp.Or(p.Host, containerHost)
	}
	if ip, err := netip.ParseAddr(at.Hostname()); p.Host != "" {
		at.Host = net.JoinHostPort(strings.Trim(p.Host, "[]"), at.Port())
	} else if err == nil && ip.IsUnspecified() {
		own, err := os.Hostname()
		if err != nil {
			return InviteResult{}, err
		}
		at.Host = net.JoinHostPort(own, at.Port())
	}
	if host := at.Hostname(); at.Scheme == "http" && host != "localhost" && !isLoopback(host) {
		return InviteResult{}, orchestrator.Errorf(orchestrator.InvalidParams, "the daemon at %s has no certificate, so other machines cannot reach it", at).
			WithHint("Start the daemon with `mailroom serve --listen 0.0.0.0:%s`, which creates a certificate", at.Port())
	}
	name := cmp.Or(p.Name, orchestrator.Operator)
	code, invitation, err := agents.Invite(ctx, env.Ledger, name)
	if err != nil {
		return InviteResult{}, err
	}
	at.Path, at.Fragment = "/", name+"."+code
	if pin != "" {
		at.Fragment += "." + pin
	}
	return InviteResult{Agent: name, Link: at.String(), ExpiresAt: invitation.ExpiresAt}, nil
}

// listening returns the address of a daemon on this machine, preferably one that other machines can reach.
func listening(ctx context.Context, env commands.Env) (*url.URL, error) {
	list, err := daemons.List(ctx, env.Ledger)
	if err != nil {
		return nil, err
	}
	var best *url.URL
	for _, d := range list {
		at, err := url.Parse(d.Listening)
		if d.Host != env.Ledger.Host() || err != nil || at.Port() == "" {
			continue
		}
		if best == nil || isLoopback(best.Hostname()) {
			best = at
		}
	}
	if best == nil {
		return nil, orchestrator.Errorf(orchestrator.Unavailable, "no daemon on this machine listens for connections, so no machine can join").
			WithHint("To listen for other machines, run `mailroom serve --listen 0.0.0.0:9464`. For this machine only, run `mailroom serve --listen 127.0.0.1:9464`")
	}
	return best, nil
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// asksFor is how long to wait for a daemon's certificate.
const asksFor = 5 * time.Second

// pinAt returns the pin of the certificate at an address of this machine, or "" without TLS.
func pinAt(ctx context.Context, at *url.URL) (string, error) {
	if at.Scheme != "https" {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, asksFor)
	defer cancel()
	host := at.Hostname()
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} // this machine; nothing is sent
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, at.Port()))
	if err != nil {
		return "", &orchestrator.Error{Code: orchestrator.Unavailable, Message: "the daemon at " + at.String() + " does not answer", Err: err}
	}
	defer conn.Close()
	return certificate.Pin(conn.(*tls.Conn).ConnectionState().PeerCertificates[0]), nil
}

// Text writes the command to type.
func (r InviteResult) Text(w *terminal.Text) {
	w.Printf("mailroom join %s\n", orchestrator.ShellWord(r.Link))
	as := "as " + r.Agent
	if r.Agent == orchestrator.Operator {
		as = "as you, with all rights"
	}
	w.Printf("Run this command once on the other machine or in the container. The first machine that runs it acts %s. The command expires at %s (%s).\n", as,
		w.At(orchestrator.ParseStamp(r.ExpiresAt), "15:04"), w.When(r.ExpiresAt))
}
