package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// packed is a release of this tree with a program that is none, and what it is.
func packed(t *testing.T) (r *release, program string) {
	t.Helper()
	dir := t.TempDir()
	r = &release{source: "..", out: dir, version: "0.2.0", time: time.Unix(1795477546, 0).UTC(), extra: filepath.Join(dir, "extra"), tmp: dir}
	program = filepath.Join(dir, "program")
	for name, text := range map[string]string{
		"program": "no program", "extra/covey.service": "[Unit]\n", "extra/man/peer.1": ".TH PEER 1\n",
		"extra/completions/peer.bash": "#\n", "extra/completions/_peer": "#\n", "extra/completions/peer.fish": "#\n",
	} {
		to := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return r, program
}

// untarred are a tar's files and folders, by path.
func untarred(t *testing.T, from io.Reader) map[string]entry {
	t.Helper()
	all := map[string]entry{}
	tr := tar.NewReader(from)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		all[h.Name] = entry{h.Name, h.FileInfo().Mode(), text}
	}
}

func unzipped(t *testing.T, text []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	text, err = io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func file(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestAnArchiveIsTheSameToTheBitForSystemsThatBuildNothingElse(t *testing.T) {
	r, program := packed(t)
	for system, ends := range map[string]string{"darwin": ".tar.gz", "windows": ".zip"} {
		name := filepath.Join(r.out, "covey-0.2.0-"+system+"-arm64"+ends)
		var before []byte
		for range 2 {
			if err := r.archive(program, system, "arm64"); err != nil {
				t.Fatal(err)
			}
			text := file(t, name)
			if before != nil && !bytes.Equal(before, text) {
				t.Errorf("%s: other bytes the second time", system)
			}
			before = text
			if err := errors.Join(os.Remove(name), os.Chtimes(program, time.Unix(0, 0), time.Unix(0, 0))); err != nil {
				t.Fatal(err)
			}
		}
		if system == "windows" {
			z, err := zip.NewReader(bytes.NewReader(before), int64(len(before)))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(z.File, func(f *zip.File) bool { return f.Name == "covey-0.2.0-windows-arm64/peer.exe" }) {
				t.Error("there is no peer.exe in it")
			}
		} else if _, ok := untarred(t, bytes.NewReader(unzipped(t, before)))["covey-0.2.0-darwin-arm64/peer"]; !ok {
			t.Error("there is no peer in it")
		}
	}
}

// documentsAreIn checks that what README.md links to lies beside it.
func documentsAreIn(t *testing.T, where string, has func(name string) bool) {
	t.Helper()
	for _, name := range []string{
		"README.md", "LICENSE", "SECURITY.md", "CONTRIBUTING.md", "docs/files.md", "docs/page.png", "docs/adr/README.md", "docs/monitoring/alerts.yaml",
		"examples/sweep.yaml", "clients/python/covey/__init__.py", "clients/python/pyproject.toml", "clients/snakemake/covey-job", "clients/snakemake/profile/config.yaml",
	} {
		if !has(name) {
			t.Errorf("%s: %s is missing", where, name)
		}
	}
	links := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`).FindAllStringSubmatch(string(file(t, "../README.md")), -1)
	if len(links) < 20 {
		t.Errorf("README.md has %d links", len(links))
	}
	for _, l := range links {
		if !has(path.Clean(l[1])) {
			t.Errorf("%s: README.md links to %s, which is missing", where, l[1])
		}
	}
}

func TestArchivesAndPackagesHaveTheDocumentsThatTheReadmeLinksTo(t *testing.T) {
	r, program := packed(t)
	all, err := r.contents(program, "darwin")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.IsSortedFunc(all, func(a, b entry) int { return strings.Compare(a.name, b.name) }) {
		t.Error("an archive's files are in no order")
	}
	documentsAreIn(t, "archive", func(name string) bool {
		return slices.ContainsFunc(all, func(e entry) bool { return e.name == name || strings.HasPrefix(e.name, name+"/") })
	})
	for _, e := range all {
		if run := e.mode&0o111 != 0; run != (e.name == "peer" || bytes.HasPrefix(e.text, []byte("#!"))) {
			t.Errorf("%s: %v", e.name, e.mode)
		}
		if strings.HasSuffix(e.name, ".go") || strings.Contains(e.name, "__pycache__") {
			t.Errorf("%s is nothing for readers", e.name)
		}
	}

	installed, err := r.installed(program)
	if err != nil {
		t.Fatal(err)
	}
	const docs = "/usr/share/doc/covey/"
	have := map[string]bool{}
	for _, c := range installed {
		if have[c.Destination] {
			t.Errorf("%s is there twice", c.Destination)
		}
		have[c.Destination] = true
		for dir := path.Dir(c.Destination); dir != "/"; dir = path.Dir(dir) {
			have[dir] = true
		}
		if !c.FileInfo.MTime.Equal(r.time) {
			t.Errorf("%s is of %v", c.Destination, c.FileInfo.MTime)
		}
	}
	documentsAreIn(t, "package", func(name string) bool { return have[docs+name] })
	if !have[docs+"copyright"] {
		t.Error("Debian looks for copyright")
	}
}

func TestPackagesAreTheSameToTheBitAndHaveTheirFilesWhereSystemsLookForThem(t *testing.T) {
	r, program := packed(t)
	want := map[string]string{}
	for range 2 {
		if err := r.packages(program, "amd64"); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"covey_0.2.0_amd64.deb", "covey-0.2.0-1.x86_64.rpm"} {
			text := string(file(t, filepath.Join(r.out, name)))
			if want[name] != "" && text != want[name] {
				t.Errorf("%s: other bytes the second time", name)
			}
			want[name] = text
		}
		if err := os.Chtimes(program, time.Unix(0, 0), time.Unix(0, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("there is no dpkg-deb here")
	}
	out, err := exec.Command("dpkg-deb", "--contents", filepath.Join(r.out, "covey_0.2.0_amd64.deb")).Output()
	for _, name := range []string{"usr/bin/peer", "usr/share/man/man1/peer.1.gz", "usr/lib/systemd/system/covey.service", "usr/share/doc/covey/copyright", "usr/share/doc/covey/docs/page.png"} {
		if err != nil || !bytes.Contains(out, []byte(" ./"+name+"\n")) && !bytes.Contains(out, []byte(" /"+name+"\n")) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// Another tree may lie below one that is somebody's checkout, or come as an archive.
func TestATreeWithoutGitHandsOutTheSameDocuments(t *testing.T) {
	r, _ := packed(t)
	if !r.checkout() {
		t.Skip("this tree is no checkout")
	}
	want, err := r.documents()
	if err != nil {
		t.Fatal(err)
	}
	other := *r
	other.source = t.TempDir()
	t.Setenv("GIT_CEILING_DIRECTORIES", other.source)
	for _, e := range append(want, entry{"clients/python/covey/__pycache__/x.pyc", 0o644, nil}) {
		to := filepath.Join(other.source, filepath.FromSlash(e.name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, e.text, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if other.checkout() {
		t.Fatal("a temporary folder is a checkout")
	}
	got, err := other.documents()
	if err != nil || !slices.EqualFunc(want, got, func(a, b entry) bool { return a.name == b.name && a.mode == b.mode && bytes.Equal(a.text, b.text) }) {
		t.Errorf("%d documents, without git %d: %v", len(want), len(got), err)
	}
}

func TestTheImageLayoutLeadsFromItsIndexToAProgramThatIsStarted(t *testing.T) {
	r, program := packed(t)
	if err := r.layout([]image{{program, "amd64"}, {program, "arm64"}}); err != nil {
		t.Fatal(err)
	}
	layout := untarred(t, bytes.NewReader(file(t, filepath.Join(r.out, "covey-0.2.0-oci.tar"))))
	if got := string(layout["oci-layout"].text); got != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("oci-layout: %s", got)
	}
	followed := map[string]bool{"oci-layout": true, "index.json": true}
	follow := func(d descriptor, kind string, v any) []byte {
		t.Helper()
		name := "blobs/" + strings.ReplaceAll(d.Digest, ":", "/")
		text := layout[name].text
		followed[name] = true
		if d.MediaType != "application/vnd.oci.image."+kind || d.Size != len(text) || d.Digest != fmt.Sprintf("sha256:%x", sha256.Sum256(text)) {
			t.Fatalf("%+v of %d bytes is no %s", d, len(text), kind)
		}
		if v != nil {
			if err := json.Unmarshal(text, v); err != nil {
				t.Fatal(err)
			}
		}
		return text
	}
	type index struct {
		SchemaVersion int
		Manifests     []descriptor
	}
	var top, images index
	if err := json.Unmarshal(layout["index.json"].text, &top); err != nil || top.SchemaVersion != 2 || len(top.Manifests) != 1 {
		t.Fatalf("index.json: %v: %+v", err, top)
	}
	if name := top.Manifests[0].Annotations["org.opencontainers.image.ref.name"]; name != "covey:0.2.0" {
		t.Errorf("it is called %q", name)
	}
	follow(top.Manifests[0], "index.v1+json", &images)
	var archs []string
	for _, m := range images.Manifests {
		archs = append(archs, m.Platform["os"]+"/"+m.Platform["architecture"])
		var manifest struct {
			Config descriptor
			Layers []descriptor
		}
		follow(m, "manifest.v1+json", &manifest)
		var config struct {
			Architecture, OS string
			Config           struct{ Entrypoint, Cmd, Env []string }
			RootFS           struct {
				Type    string
				DiffIDs []string `json:"diff_ids"`
			}
		}
		follow(manifest.Config, "config.v1+json", &config)
		if config.OS+"/"+config.Architecture != archs[len(archs)-1] || len(manifest.Layers) != 1 || config.RootFS.Type != "layers" {
			t.Fatalf("%+v, %+v", manifest, config)
		}
		layer := unzipped(t, follow(manifest.Layers[0], "layer.v1.tar+gzip", nil))
		if want := []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}; !slices.Equal(config.RootFS.DiffIDs, want) {
			t.Errorf("its layer unpacked is %s, the configuration says %s", want, config.RootFS.DiffIDs)
		}
		root := untarred(t, bytes.NewReader(layer))
		if words := append(config.Config.Entrypoint, config.Config.Cmd...); !slices.Equal(words, []string{"/usr/bin/peer", "up"}) {
			t.Errorf("it starts %q", words)
		}
		started := root[strings.TrimPrefix(config.Config.Entrypoint[0], "/")]
		if string(started.text) != "no program" || started.mode.Perm() != 0o755 {
			t.Errorf("what it starts is %q, %v", started.text, started.mode)
		}
		if data := root["var/lib/covey/"]; !slices.Contains(config.Config.Env, "PEER_DATA=/var/lib/covey") || data.mode != fs.ModeDir|0o700 {
			t.Errorf("its data are in %q, which is %v", config.Config.Env, data.mode)
		}
	}
	if !slices.Equal(archs, []string{"linux/amd64", "linux/arm64"}) {
		t.Errorf("images for %q", archs)
	}
	for name := range layout {
		if !followed[name] {
			t.Errorf("nothing leads to %s", name)
		}
	}
}
