// Command plugins writes Mailroom's plugins for agent hosts into a folder: plugins FOLDER VERSION.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"mailroom/commands/connect"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: plugins FOLDER VERSION")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// write writes the packages. Other files in the folder are kept.
func write(folder, version string) error {
	for name, text := range connect.Packages(version) {
		path := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
