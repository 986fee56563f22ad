package postgrestest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// unpacked is the name of the folder for the programs of another version, in the folder of its server.
const unpacked = "programs"

// installed returns the folder where npm has installed a version.
func installed(version int) string {
	_, here, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(here), "..", "testdata", "servers", "node_modules",
		fmt.Sprint("postgres-", version), "native")
}

// unpack copies the programs of a version into a server's folder, since the server's user may not be able to enter
// the folder where they were installed. It also creates the links between the libraries, which the package only
// lists.
func unpack(version int, folder string) error {
	from, to := installed(version), filepath.Join(folder, unpacked)
	if !isThere(from) {
		return fmt.Errorf("%w, or version %d of it: `make servers`", ErrMissing, version)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(from, "pg-symlinks.json"))
	if err != nil {
		return err
	}
	var links []struct{ Source, Target string } // in the form native/lib/NAME, both in one folder
	if err := json.Unmarshal(text, &links); err != nil {
		return err
	}
	for _, link := range links {
		inside, err := filepath.Rel("native", link.Target)
		if err != nil {
			return err
		}
		if err := os.Symlink(filepath.Base(link.Source), filepath.Join(to, inside)); err != nil && !os.IsExist(err) {
			return err
		}
	}
	return nil
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
