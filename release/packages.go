package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// packages makes the deb and the rpm of a Linux program.
func (r *release) packages(program, arch string) error {
	contents, err := r.installed(program)
	if err != nil {
		return err
	}
	for _, format := range []string{"deb", "rpm"} {
		users := "passwd"
		if format == "rpm" {
			users = "shadow-utils"
		}
		info := nfpm.WithDefaults(&nfpm.Info{
			Name: "covey", Arch: arch, Platform: "linux", Version: r.version, Section: "net", Priority: "optional", MTime: r.time,
			Maintainer: "The Covey maintainers <covey@localhost>", License: "Apache-2.0", Vendor: "Covey",
			Description: "Run commands on whichever of your machines are up\n" +
				"One program, peer, on every machine: any peer takes a job, any peer answers. Output, exit codes and files come home.",
			Overridables: nfpm.Overridables{
				Depends: []string{users}, Contents: contents,
				Scripts: nfpm.Scripts{PostInstall: r.script("postinst"), PreRemove: r.script("prerm"), PostRemove: r.script("postrm")},
				Deb:     nfpm.Deb{Compression: "gzip"},
				RPM:     nfpm.RPM{BuildHost: "covey", Compression: "gzip", Summary: "Run commands on whichever of your machines are up"},
			},
		})
		maker, err := nfpm.Get(format)
		if err != nil {
			return err
		}
		var b bytes.Buffer
		if err := maker.Package(info, &b); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(r.out, maker.ConventionalFileName(info)), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) script(name string) string {
	return filepath.Join(r.source, "release", "files", name)
}

// installed is where a package puts what.
func (r *release) installed(program string) (all files.Contents, err error) {
	add := func(from, to string, mode os.FileMode) {
		all = append(all, &files.Content{Source: from, Destination: to, FileInfo: &files.ContentFileInfo{Mode: mode, MTime: r.time, Owner: "root", Group: "root"}})
	}
	add(program, "/usr/bin/peer", 0o755)
	add(filepath.Join(r.extra, "covey.service"), "/usr/lib/systemd/system/covey.service", 0o644)
	add(filepath.Join(r.source, "LICENSE"), "/usr/share/doc/covey/copyright", 0o644)
	documents, err := r.documents()
	if err != nil {
		return nil, err
	}
	for _, d := range documents {
		add(filepath.Join(r.source, filepath.FromSlash(d.name)), "/usr/share/doc/covey/"+d.name, d.mode)
	}
	for name, to := range map[string]string{
		"peer.bash": "/usr/share/bash-completion/completions/peer", "_peer": "/usr/share/zsh/vendor-completions/_peer",
		"peer.fish": "/usr/share/fish/vendor_completions.d/peer.fish",
	} {
		add(filepath.Join(r.extra, "completions", name), to, 0o644)
	}
	pages, err := os.ReadDir(filepath.Join(r.extra, "man"))
	if err != nil {
		return nil, err
	}
	for _, p := range pages {
		path, err := r.compressed(p.Name())
		if err != nil {
			return nil, err
		}
		add(path, "/usr/share/man/man1/"+filepath.Base(path), 0o644)
	}
	return all, nil
}

// compressed is a man page as packages have it.
func (r *release) compressed(page string) (path string, err error) {
	text, err := os.ReadFile(filepath.Join(r.extra, "man", page))
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	if err := gzipped(&b, func(w io.Writer) error { _, err := w.Write(text); return err }); err != nil {
		return "", err
	}
	path = filepath.Join(r.tmp, page+".gz")
	return path, os.WriteFile(path, b.Bytes(), 0o644)
}
