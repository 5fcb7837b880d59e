package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// documented is what people read, and the files of ours that they use: all that README.md links to.
var documented = []string{
	"ARCHITECTURE.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "LICENSE", "README.md", "SECURITY.md",
	"clients/python", "clients/snakemake", "docs", "examples",
}

// documents are those files, by path. Of a checkout they are what git has, so that what lies about
// in a folder is not handed out.
func (r *release) documents() (all []entry, err error) {
	names, err := r.documentNames()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(r.source, filepath.FromSlash(name)))
		if err != nil {
			return nil, err
		}
		mode := fs.FileMode(0o644)
		if bytes.HasPrefix(text, []byte("#!")) {
			mode = 0o755
		}
		all = append(all, entry{name, mode, text})
	}
	return all, nil
}

func (r *release) documentNames() (names []string, err error) {
	if r.checkout() {
		list, err := r.git(append([]string{"ls-files", "-z", "--"}, documented...)...)
		names = strings.Split(strings.TrimRight(string(list), "\x00"), "\x00")
		slices.Sort(names)
		return names, err
	}
	for _, d := range documented {
		err := filepath.WalkDir(filepath.Join(r.source, filepath.FromSlash(d)), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && d.Name() == "__pycache__" {
				return fs.SkipDir
			}
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			name, err := filepath.Rel(r.source, path)
			names = append(names, filepath.ToSlash(name))
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(names)
	return names, nil
}
