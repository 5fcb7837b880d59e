package testnet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
)

// HashFolder writes the SHA-256 of every file directly in dir, by name.
func HashFolder(w io.Writer, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		f, err := os.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		h := sha256.New()
		_, err = io.Copy(h, f)
		f.Close()
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s  %s\n", hex.EncodeToString(h.Sum(nil)), e.Name()); err != nil {
			return err
		}
	}
	return nil
}

// HashFolderInto writes what HashFolder does into a file, whose folder it makes: what one task of
// the demonstration does.
func HashFolderInto(dir, file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(HashFolder(f, dir), f.Close())
}

// packageFolders lists the folders of the installed Go toolchain's standard library that hold Go
// files.
func packageFolders(ctx context.Context) (root string, dirs []string, err error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	root = strings.TrimSpace(string(out))
	if err != nil || root == "" {
		return "", nil, api.Errorf(api.Failed, "the demonstration hashes the Go standard library and finds no Go toolchain (`go env GOROOT`: %v); install Go or put it on PATH", err)
	}
	root = filepath.Join(root, "src")
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "cmd" && filepath.Dir(path) == root) {
			return fs.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(path, ".go") {
			dir, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			if len(dirs) == 0 || dirs[len(dirs)-1] != dir {
				dirs = append(dirs, dir)
			}
		}
		return nil
	})
	slices.Sort(dirs)
	return root, slices.Compact(dirs), err
}

type demo struct {
	net   *Net
	talk  io.Writer
	out   io.Writer
	root  string
	dirs  []string
	want  []string // by slot-1: what the same work gives locally
	home  string   // where the cluster's files come to
	tasks []api.Task
}

const demoPeers = 5

// Demo shows, with explanations on talk and a table on out, that a cluster finishes a job and
// brings its files home although its coordinator, which makes some of them, is lost for good in the
// middle. It fails unless every file is there and right. They stay in a folder that it names.
func Demo(ctx context.Context, cfg Config, out io.Writer) error {
	d := &demo{talk: cfg.Talk, out: out}
	say := func(format string, args ...any) { fmt.Fprintf(d.talk, format+"\n", args...) }
	var err error
	if d.root, d.dirs, err = packageFolders(ctx); err != nil {
		return err
	}
	say("1. The work: SHA-256 of every file of %d packages of the Go standard library, one task and one file each (%s).", len(d.dirs), d.root)
	if err := d.workLocally(); err != nil {
		return err
	}
	say("   The same work is done right here first, to know the right answers.")
	say("2. Starting %d peers on this machine, each a process with its own key, port and data folder.", demoPeers)
	began := time.Now()
	cfg.N = demoPeers
	if d.net, err = Start(ctx, cfg); err != nil {
		return err
	}
	defer d.net.Stop()
	if err := d.net.AwaitReady(ctx); err != nil {
		return err
	}
	say("   All see each other after %s.", time.Since(began).Round(10*time.Millisecond))
	return d.act(ctx, say)
}

func (d *demo) workLocally() error {
	d.want = make([]string, len(d.dirs))
	for i, dir := range d.dirs {
		var b bytes.Buffer
		if err := HashFolder(&b, filepath.Join(d.root, dir)); err != nil {
			return fmt.Errorf("hash %s here: %w", dir, err)
		}
		d.want[i] = b.String()
	}
	return nil
}

// act is the play: submit through one peer, watch through another, lose the coordinator in the
// middle, bring the files home, compare.
func (d *demo) act(ctx context.Context, say func(string, ...any)) error {
	boss, err := d.net.Coordinator(ctx, 1)
	if err != nil {
		return err
	}
	entry, watcher := others(boss)
	say("3. p%d coordinates. Submitting through p%d, watching through p%d – neither is the coordinator.", boss, entry, watcher)
	sub, err := d.net.Client(entry).Submit(ctx, api.Submit{Job: d.job()})
	if err != nil {
		return err
	}
	var gap time.Duration
	lost := false
	var wg sync.WaitGroup
	defer wg.Wait()
	lostErr := make(chan error, 1)
	began := time.Now()
	err = d.net.Client(watcher).Follow(ctx, sub.ID, true, func(p api.Progress) error {
		done := p.Job.Tasks["complete"]
		if !lost && done >= len(d.dirs)/3 && !p.Job.Over() {
			lost = true
			say("4. %d of %d done: kill -9 of the coordinator, p%d, and its disk is gone, too: what it made is elsewhere, or made again.", done, len(d.dirs), boss)
			wg.Go(func() {
				var err error
				gap, err = d.loseCoordinator(ctx, boss, watcher)
				lostErr <- err
			})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("watching through p%d: %w", watcher, err)
	}
	took := time.Since(began)
	if !lost {
		return errors.New("the job ended before the kill could land in its middle; this machine is faster than the demonstration expects")
	}
	if err := <-lostErr; err != nil {
		return err
	}
	now, err := d.net.Coordinator(ctx, watcher)
	if err != nil {
		return err
	}
	say("   p%d went on. The cluster had no coordinator for %s; all tasks ended %s after the submission.", now, gap.Round(time.Millisecond), took.Round(10*time.Millisecond))
	if err := d.bringHome(ctx, say, watcher, sub.ID); err != nil {
		return err
	}
	return d.verdict(say, gap, took)
}

func others(k int) (a, b int) {
	var rest []int
	for i := 1; i <= demoPeers; i++ {
		if i != k {
			rest = append(rest, i)
		}
	}
	return rest[0], rest[1]
}

// ending is what the files of the demonstration end with.
const ending = ".sha256"

func (d *demo) job() taskstate.Job {
	j := taskstate.Job{Name: "hash-std", Count: len(d.dirs), Each: d.dirs}
	j.Run.Process = &taskstate.Process{Command: []string{d.net.cfg.Exe, "testnet", "hash", filepath.Join(d.root, "{}"), "{}" + ending}, Braces: true}
	j.Outputs = &taskstate.Outputs{Globs: []string{"**/*" + ending}}
	jobfile.Defaults(&j)
	j.Unreachable.ReplaceAfter = 1 // hashing twice does no harm
	return j
}

// loseCoordinator kills it for good and measures until another peer follows another coordinator.
func (d *demo) loseCoordinator(ctx context.Context, boss, witness int) (time.Duration, error) {
	old := d.net.ID(boss)
	dead := time.Now()
	if err := d.net.Lose(boss); err != nil {
		return 0, err
	}
	err := d.net.await(ctx, func() bool {
		st, err := d.net.Client(witness).Status(ctx)
		return err == nil && st.Coordinator != "" && st.Coordinator != old
	})
	return time.Since(dead), err
}

// bringHome has the files written to a folder, as anybody would.
func (d *demo) bringHome(ctx context.Context, say func(string, ...any), through int, job string) (err error) {
	if d.home, err = os.MkdirTemp("", "covey-demo-"); err != nil {
		return api.Errorf(api.Failed, "cannot make a folder for the files: %v", err)
	}
	ts, err := d.net.Client(through).Tasks(ctx, job)
	if err != nil {
		return err
	}
	d.tasks = ts.Tasks
	args := []string{"get", job, "--flat", "--to", d.home}
	say("5. Bringing the files home, through p%d:  peer %s", through, strings.Join(args, " "))
	get := exec.CommandContext(ctx, d.net.cfg.Exe, append([]string{"--data", d.net.Data(through)}, args...)...)
	said, err := get.CombinedOutput()
	fmt.Fprintf(d.talk, "   %s\n", strings.ReplaceAll(strings.TrimSpace(string(said)), "\n", "\n   "))
	if err != nil {
		return fmt.Errorf("peer get: %w", err)
	}
	return nil
}

// compare counts the files that are not there, and those that are not as they must be.
func (d *demo) compare() (lost, wrong int, err error) {
	for i, dir := range d.dirs {
		got, err := os.ReadFile(filepath.Join(d.home, dir+ending))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			lost++
		case err != nil:
			return lost, wrong, err
		case string(got) != d.want[i]:
			wrong++
		}
	}
	return lost, wrong, nil
}

// verdict compares every file with the local one and prints who made what.
func (d *demo) verdict(say func(string, ...any), gap, took time.Duration) error {
	lost, wrong, err := d.compare()
	if err != nil {
		return err
	}
	ran, again := map[string]int{}, map[string]int{}
	for _, t := range d.tasks {
		ran[t.PeerName]++
		if t.Attempt > 1 {
			again[t.PeerName]++
		}
	}
	fmt.Fprintf(d.out, "%-6s %6s %s\n", "PEER", "TASKS", "OF THEM REPLACED FROM A LOST PEER")
	for k := 1; k <= demoPeers; k++ {
		name := fmt.Sprintf("p%d", k)
		fmt.Fprintf(d.out, "%-6s %6d %d\n", name, ran[name], again[name])
	}
	fmt.Fprintf(d.out, "\nfiles %d of %d, wrong %d; without a coordinator for %s; %s from submit to end; %s, %d cpus\n",
		len(d.want)-lost, len(d.want), wrong, gap.Round(time.Millisecond), took.Round(10*time.Millisecond), runtime.GOOS, runtime.NumCPU())
	if wrong+lost > 0 {
		return fmt.Errorf("%d files are missing and %d are wrong in %s", lost, wrong, d.home)
	}
	say("6. Every file is here, and every byte as in the local ones. They stay in %s.", d.home)
	return nil
}
