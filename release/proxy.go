package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// proxy writes the tree's Go module as a module proxy serves it, so that `go install` can be tried
// before anything is published. It has what the last commit has, as a tag would; a tree without git
// gets none.
func (r *release) proxy() error {
	if !r.checkout() {
		fmt.Fprintln(os.Stderr, "release: no proxy: this tree is no checkout of git, and a Go module is made of a commit")
		return nil
	}
	files, err := r.committed()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(files, func(f zip.File) bool { return f.Path() == "go.mod" })
	if i < 0 {
		return errors.New("the last commit has no go.mod")
	}
	mod := files[i].(committedFile).text
	m := module.Version{Path: modfile.ModulePath(mod), Version: "v" + r.version}
	var packed bytes.Buffer
	if err := zip.Create(&packed, m, files); err != nil {
		return err
	}
	info, err := json.Marshal(map[string]string{"Version": m.Version, "Time": r.time.Format(time.RFC3339)})
	if err != nil {
		return err
	}
	path, err := module.EscapePath(m.Path)
	if err != nil {
		return err
	}
	dir := filepath.Join(r.out, "proxy", filepath.FromSlash(path), "@v")
	err = os.MkdirAll(dir, 0o755)
	for name, text := range map[string][]byte{
		"list": []byte(m.Version + "\n"), m.Version + ".info": info, m.Version + ".mod": mod, m.Version + ".zip": packed.Bytes(),
	} {
		err = cmp.Or(err, os.WriteFile(filepath.Join(dir, name), text, 0o644))
	}
	return err
}

// committed are the files of the last commit, by path. It says so if those on disk are others: the
// programs are built of these.
func (r *release) committed() (files []zip.File, err error) {
	changed, err := r.git("status", "--porcelain", "--untracked-files=no")
	if err != nil {
		return nil, err
	}
	if len(changed) > 0 {
		fmt.Fprintf(os.Stderr, "release: changes that are not committed are in the programs and not in the proxy:\n%s", changed)
	}
	packed, err := r.git("-c", "core.autocrlf=false", "archive", "--format=tar", "HEAD")
	if err != nil {
		return nil, err
	}
	t := tar.NewReader(bytes.NewReader(packed))
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		text, err := io.ReadAll(t)
		if err != nil {
			return nil, err
		}
		files = append(files, committedFile{h.Name, h.FileInfo(), text})
	}
	slices.SortFunc(files, func(a, b zip.File) int { return strings.Compare(a.Path(), b.Path()) })
	return files, nil
}

// checkout tells whether the tree is one of git, and not only below one.
func (r *release) checkout() bool {
	up, err := exec.Command("git", "-c", "safe.directory=*", "-C", r.source, "rev-parse", "--show-cdup").Output() // that it is none is no fault
	return err == nil && len(bytes.TrimSpace(up)) == 0
}

// git asks the tree's repository, whoever it belongs to.
func (r *release) git(args ...string) ([]byte, error) {
	cmd := exec.Command("git", append([]string{"-c", "safe.directory=*", "-C", r.source}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}

// committedFile is a file of a commit.
type committedFile struct {
	path string
	info fs.FileInfo
	text []byte
}

func (f committedFile) Path() string                { return f.path }
func (f committedFile) Lstat() (fs.FileInfo, error) { return f.info, nil }
func (f committedFile) Open() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(f.text)), nil
}
