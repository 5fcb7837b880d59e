package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// entry is a file of an archive.
type entry struct {
	name string // with slashes
	mode fs.FileMode
	text []byte
}

// archive is what people unpack: a tar.gz, for Windows a zip.
func (r *release) archive(program, system, arch string) error {
	name := strings.Join([]string{"covey", r.version, system, arch}, "-")
	all, err := r.contents(program, system)
	if err != nil {
		return err
	}
	for i := range all {
		all[i].name = name + "/" + all[i].name
	}
	var b bytes.Buffer
	if system == "windows" {
		name, err = name+".zip", zipped(&b, all, r.time)
	} else {
		name, err = name+".tar.gz", gzipped(&b, func(w io.Writer) error { return tarred(w, all, r.time) })
	}
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, name), b.Bytes(), 0o644)
}

// contents are the files of an archive, in order.
func (r *release) contents(program, system string) (all []entry, err error) {
	all, err = r.documents()
	if err != nil {
		return nil, err
	}
	add := func(path, name string, mode fs.FileMode) {
		text, wrong := os.ReadFile(path)
		if wrong != nil {
			err = wrong
		}
		all = append(all, entry{name, mode, text})
	}
	exe := "peer"
	if system == "windows" {
		exe = "peer.exe"
	}
	add(program, exe, 0o755)
	walked := filepath.WalkDir(r.extra, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(r.extra, path)
		add(path, filepath.ToSlash(rel), 0o644)
		return err
	})
	if err == nil {
		err = walked
	}
	slices.SortFunc(all, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return all, err
}

func tarred(w io.Writer, all []entry, at time.Time) error {
	t := tar.NewWriter(w)
	for _, e := range all {
		h := &tar.Header{Name: e.name, Mode: int64(e.mode), Size: int64(len(e.text)), ModTime: at, Format: tar.FormatUSTAR}
		if e.mode.IsDir() {
			h.Typeflag, h.Mode = tar.TypeDir, int64(e.mode.Perm())
		}
		if e.mode&fs.ModeSticky != 0 {
			h.Mode |= 0o1000
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(e.text); err != nil {
			return err
		}
	}
	return t.Close()
}

// gzipped is without a name and a time of its own.
func gzipped(w io.Writer, write func(io.Writer) error) error {
	z := gzip.NewWriter(w)
	if err := write(z); err != nil {
		return err
	}
	return z.Close()
}

func zipped(w io.Writer, all []entry, at time.Time) error {
	z := zip.NewWriter(w)
	for _, e := range all {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: at}
		h.SetMode(e.mode)
		f, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := f.Write(e.text); err != nil {
			return err
		}
	}
	return z.Close()
}
