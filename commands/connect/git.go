package connect

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// repository is a git repository, by its top folder.
type repository string

// repositoryOf returns the repository that a folder is in; "" for none, or where git is not installed.
func repositoryOf(ctx context.Context, folder string) repository {
	top, err := git(ctx, folder, "rev-parse", "--show-toplevel")
	if err != nil {
		return ""
	}
	return repository(top)
}

// exposed returns those of some files that a commit may carry: git tracks them, or does not ignore them.
func (r repository) exposed(ctx context.Context, files []string) (list []string) {
	for _, file := range files {
		if _, err := os.Stat(file); err != nil {
			continue
		}
		if _, err := git(ctx, string(r), "check-ignore", "--quiet", "--", file); err != nil {
			list = append(list, file)
		}
	}
	return list
}

// exclude has git ignore files in this copy of the repository, and in no other. It returns those that it then ignores:
// not what is tracked already.
func (r repository) exclude(ctx context.Context, files []string) (excluded []string, err error) {
	path, err := git(ctx, string(r), "rev-parse", "--git-path", "info/exclude")
	if err != nil {
		return nil, err
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(string(r), path)
	}
	text, err := os.ReadFile(path)
	if err != nil && !isGone(err) {
		return nil, err
	}
	if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
		text = append(text, '\n')
	}
	for _, file := range files {
		within, err := filepath.Rel(string(r), file)
		if err != nil || !filepath.IsLocal(within) {
			continue
		}
		if _, err := git(ctx, string(r), "ls-files", "--error-unmatch", "--", file); err == nil {
			continue
		}
		text = append(text, "/"+escapedForGit(filepath.ToSlash(within))+"\n"...)
		excluded = append(excluded, file)
	}
	if excluded == nil {
		return nil, nil
	}
	return excluded, store.ReplaceFile(path, text, 0o644)
}

// escapedForGit is a path as a pattern that matches it alone.
func escapedForGit(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// git runs git in a folder and returns what it prints, without the line end.
func git(ctx context.Context, folder string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", folder}, args...)...).Output()
	return strings.TrimSuffix(string(out), "\n"), err
}

// guard says which of the files that were written a commit may carry, with the paths of this machine in them, and
// excludes them if that is asked for.
func (r *Result) guard(ctx context.Context, at *place, exclude bool) error {
	if at.user {
		return nil
	}
	repo := repositoryOf(ctx, at.folder)
	if repo == "" {
		return nil
	}
	var files []string
	for i := range r.Files {
		files = append(files, r.Files[i].Path)
	}
	r.Exposed = repo.exposed(ctx, files)
	if !exclude || r.Exposed == nil {
		return nil
	}
	excluded, err := repo.exclude(ctx, r.Exposed)
	if err != nil {
		return orchestrator.Errorf(orchestrator.Unavailable, "%s is connected, but its files cannot be kept out of git: %v",
			r.Host, err)
	}
	r.Excluded, r.Exposed = excluded, repo.exposed(ctx, files)
	return nil
}
