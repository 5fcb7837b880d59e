package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// targets are the systems a version is built for.
const targets = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64"

// release is one run.
type release struct {
	source  string    // the tree
	out     string    // the folder that is made
	version string    // as in 0.2.0 or 0.2.0-rc.1
	time    time.Time // of all files
	extra   string    // a folder with what packages carry beside the program, see `peer reference`
	tmp     string
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

// semver is what a version may be: packages and image tags take no more.
var semver = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.]+)?$`)

func run(args []string) (err error) {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	version := flags.String("version", "", "the `VERSION`, as in 0.2.0")
	out := flags.String("out", "", "the `FOLDER` to make; it must not be there")
	source := flags.String("source", ".", "the tree to build, a `FOLDER`")
	only := flags.String("targets", targets, "what to build for, a `LIST` with commas")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if !semver.MatchString(*version) {
		return fmt.Errorf("--version %q: expected one like 0.2.0 or 0.2.0-rc.1", *version)
	}
	if *out == "" {
		return errors.New("say with --out which folder to make")
	}
	if _, err := os.Stat(*out); err == nil {
		return fmt.Errorf("%s is there already: remove it, or name another folder", *out)
	}
	r := release{version: *version}
	if r.source, err = filepath.Abs(*source); err != nil {
		return err
	}
	if r.time, err = r.sourceTime(); err != nil {
		return err
	}
	if r.tmp, err = os.MkdirTemp("", "release-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.tmp)
	r.out, r.extra = filepath.Join(r.tmp, "out"), filepath.Join(r.tmp, "extra")
	if err := errors.Join(os.Mkdir(r.out, 0o755), os.Mkdir(r.extra, 0o755)); err != nil {
		return err
	}
	if err := r.make(strings.Split(*only, ",")); err != nil {
		return err
	}
	return os.CopyFS(*out, os.DirFS(r.out)) // whole or, so far as that can be known, not at all
}

// sourceTime is SOURCE_DATE_EPOCH, or when the tree was committed.
func (r *release) sourceTime() (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		b, err := r.git("log", "-1", "--format=%ct")
		if err != nil {
			return time.Time{}, fmt.Errorf("when was this tree made? Set SOURCE_DATE_EPOCH to seconds since 1970 (git does not say: %w)", err)
		}
		text = strings.TrimSpace(string(b))
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

func (r *release) make(targets []string) error {
	if err := r.reference(); err != nil {
		return err
	}
	var images []image
	for _, t := range targets {
		system, arch, _ := strings.Cut(t, "/")
		program, err := r.build(system, arch)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "release: packing %s\n", t)
		if err := errors.Join(r.archive(program, system, arch), r.sbom(program, system, arch)); err != nil {
			return err
		}
		if system == "linux" {
			if err := r.packages(program, arch); err != nil {
				return err
			}
			images = append(images, image{program, arch})
		}
	}
	if err := errors.Join(r.layout(images), r.copies(), r.proxy()); err != nil {
		return err
	}
	return r.sums()
}

// build makes the program for a system. Nothing of this machine gets into it: neither paths nor the
// state of a checkout nor flags from the environment.
func (r *release) build(system, arch string) (path string, err error) {
	path = filepath.Join(r.tmp, "peer-"+system+"-"+arch)
	if _, err := os.Stat(path); err == nil {
		return path, nil // this machine's, made for reference
	}
	fmt.Fprintf(os.Stderr, "release: building for %s/%s\n", system, arch)
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.release="+r.version, "-o", path, "./cmd/peer")
	cmd.Dir, cmd.Stderr = r.source, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch, "GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=", "GOFIPS140=off",
		"GOAMD64=v1", "GOARM64=v8.0")
	return path, cmd.Run()
}

// reference has the program itself write its man pages, completions and service files.
func (r *release) reference() error {
	host, err := exec.Command("go", "env", "GOHOSTOS", "GOHOSTARCH").Output()
	if err != nil {
		return err
	}
	words := strings.Fields(string(host))
	program, err := r.build(words[0], words[1])
	if err != nil {
		return err
	}
	cmd := exec.Command(program, "reference", r.extra)
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

// copies are files that are handed out as they are.
func (r *release) copies() error {
	for _, name := range []string{"install.sh", "Dockerfile"} {
		text, err := os.ReadFile(filepath.Join(r.source, "release", "files", name))
		if err != nil {
			return err
		}
		mode := os.FileMode(0o644)
		if name == "install.sh" {
			mode = 0o755
		}
		err = os.WriteFile(filepath.Join(r.out, name), []byte(strings.ReplaceAll(string(text), "@VERSION@", r.version)), mode)
		if err != nil {
			return err
		}
	}
	return nil
}

// sums writes SHA256SUMS, as sha256sum(1) checks it.
func (r *release) sums() error {
	var list strings.Builder
	err := filepath.WalkDir(r.out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(r.out, path)
		fmt.Fprintf(&list, "%x  %s\n", sha256.Sum256(text), filepath.ToSlash(name))
		return err
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(list.String()), 0o644)
}
