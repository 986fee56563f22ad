package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"os/exec"
	"strings"
	"text/template"
)

// formula is the Homebrew formula, which builds the program from the source archive.
//
//go:embed brew/mailroom.rb
var formula string

// installer is install.sh.
//
//go:embed install/install.sh
var installer string

// source returns an archive of the commit, and a Homebrew formula that builds it.
func (p *program) source(ctx context.Context, url string) ([]file, error) {
	name := "mailroom_" + p.version
	tar, err := output(exec.CommandContext(ctx, "git", "-C", top, "archive", "--format=tar", "--prefix="+name+"/", "HEAD"))
	if err != nil {
		return nil, err
	}
	data, err := gzipped([]byte(tar))
	if err != nil {
		return nil, err
	}
	made := file{path: name + "_source.tar.gz", data: data}
	text, err := filled(formula, map[string]string{
		"URL": cmp.Or(url, "file://#{__dir__}") + "/" + made.path, "Version": p.version, "Sum": fmt.Sprintf("%x", sha256.Sum256(data))})
	return []file{made, {path: "mailroom.rb", data: text}}, err
}

// sign writes install.sh, and a signature of the SHA256SUMS of all files.
func (w *writer) sign(ctx context.Context, version string, o options) error {
	public, err := output(exec.CommandContext(ctx, "ssh-keygen", "-y", "-f", o.key))
	if err != nil {
		return err
	}
	words := strings.Fields(public) // the third word is a comment, which may contain a person's name
	text, err := filled(installer, map[string]string{"Version": version, "URL": o.url, "Key": strings.Join(words[:2], " ")})
	if err == nil {
		err = w.write(file{path: "install.sh", data: text})
	}
	if err != nil {
		return err
	}
	sign := exec.CommandContext(ctx, "ssh-keygen", "-q", "-Y", "sign", "-f", o.key, "-n", "mailroom")
	sign.Stdin = strings.NewReader(w.sums.String())
	signature, err := output(sign)
	if err != nil {
		return err
	}
	return w.put("SHA256SUMS.sig", []byte(signature))
}

func filled(text string, values map[string]string) ([]byte, error) {
	t, err := template.New("").Delims("<<", ">>").Option("missingkey=error").Parse(text)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	err = t.Execute(&b, values)
	return []byte(b.String()), err
}
