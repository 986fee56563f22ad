package connect

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agenthost"
	"mailroom/orchestrator/store"
)

// repository is the top folder of a git repository.
type repository string

// repositoryOf returns the repository that contains a folder, or "" if there is none or git is not installed.
func repositoryOf(ctx context.Context, folder string) repository {
	top, err := git(ctx, folder, "rev-parse", "--show-toplevel")
	if err != nil {
		return ""
	}
	return repository(top)
}

// exposed returns the files that could be committed, because git tracks them or does not ignore them.
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

// exclude makes git ignore files in this clone of the repository only. It returns the files that git ignores from now
// on, without those that are already tracked.
func (r repository) exclude(ctx context.Context, files []string) (excluded []string, err error) {
	path, text, err := r.excludes(ctx)
	if err != nil {
		return nil, err
	}
	if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
		text = append(text, '\n')
	}
	for _, file := range files {
		line := r.excluding(file)
		if line == "" {
			continue
		}
		if _, err := git(ctx, string(r), "ls-files", "--error-unmatch", "--", file); err == nil {
			continue
		}
		text = append(text, line...)
		excluded = append(excluded, file)
	}
	if excluded == nil {
		return nil, nil
	}
	return excluded, store.ReplaceFile(path, text, 0o644)
}

// unexclude removes the lines that exclude wrote for files.
func (r repository) unexclude(ctx context.Context, files []string) error {
	path, text, err := r.excludes(ctx)
	if err != nil {
		return err
	}
	left := string(text)
	for _, file := range files {
		if line := r.excluding(file); line != "" {
			left = strings.ReplaceAll(left, line, "")
		}
	}
	if left == string(text) {
		return nil
	}
	return store.ReplaceFile(path, []byte(left), 0o644)
}

// excludes returns the path and the text of the file that lists what git ignores in this clone only.
func (r repository) excludes(ctx context.Context) (path string, text []byte, err error) {
	if path, err = git(ctx, string(r), "rev-parse", "--git-path", "info/exclude"); err != nil {
		return "", nil, err
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(string(r), path)
	}
	if text, err = os.ReadFile(path); isGone(err) {
		err = nil
	}
	return path, text, err
}

// excluding returns the lines that exclude writes for a file: a comment that identifies them, and a pattern. It
// returns "" for a file outside the repository.
func (r repository) excluding(file string) string {
	within, err := filepath.Rel(string(r), file)
	if err != nil || !filepath.IsLocal(within) {
		return ""
	}
	return "# of mailroom connect\n/" + escapedForGit(filepath.ToSlash(within)) + "\n"
}

// escapedForGit returns a git pattern that matches only this path.
func escapedForGit(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// git runs git in a folder and returns its output without the line end. It disables the fsmonitor program that a
// repository may configure, and ignores the GIT_ variables, which could select another repository.
func git(ctx context.Context, folder string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", folder, "-c", "core.fsmonitor=false"}, args...)...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "GIT_") })
	out, err := cmd.Output()
	return strings.TrimSuffix(string(out), "\n"), err
}

// guard records which written files could be committed with the paths of this machine, and excludes them if exclude
// is true.
func (r *Result) guard(ctx context.Context, at *agenthost.Place, exclude bool) error {
	repo, files := r.inGit(ctx, at)
	if repo == "" && exclude {
		return orchestrator.InvalidParam("exclude", "%s is connected, but its folder is not in a git repository", r.Host)
	}
	if repo == "" {
		return nil
	}
	r.Exposed = repo.exposed(ctx, files)
	if !exclude || r.Exposed == nil {
		return nil
	}
	excluded, err := repo.exclude(ctx, r.Exposed)
	if err != nil {
		return orchestrator.Errorf(orchestrator.Unavailable, "%s is connected, but Mailroom cannot make git ignore its files: %v",
			r.Host, err)
	}
	r.Excluded, r.Exposed = excluded, repo.exposed(ctx, files)
	return nil
}

// unguard removes what guard wrote about the files.
func (r *Result) unguard(ctx context.Context, at *agenthost.Place) error {
	repo, files := r.inGit(ctx, at)
	if repo == "" {
		return nil
	}
	return repo.unexclude(ctx, slices.DeleteFunc(files, func(path string) bool {
		text, _, err := read(path)
		return err == nil && carried().Match(text) // another host still uses the file
	}))
}

// inGit returns the repository of a project and the files of the result, or "" if the project is in no repository.
func (r *Result) inGit(ctx context.Context, at *agenthost.Place) (repo repository, files []string) {
	if at.User {
		return "", nil
	}
	for i := range r.Files {
		files = append(files, r.Files[i].Path)
	}
	return repositoryOf(ctx, at.Folder), files
}
