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

	"covey/node/api"
	"covey/taskstate"
	"covey/taskstate/jobfile"
)

// HashFolder writes the SHA-256 of every file directly in dir, by name: what one task of the
// demonstration does.
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
	net  *Net
	talk io.Writer
	out  io.Writer
	root string
	dirs []string
	want []string // by slot-1: what the same work gives locally

	mu      sync.Mutex
	got     []string // by slot-1: what the flock gave
	have    []bool
	trouble error // the last one with fetching an output
	tasks   []api.Task
}

const demoPeers = 5

// Demo shows, with explanations on talk and a table on out, that a flock finishes a job although
// its coordinator is killed in the middle. It fails unless every result is there and right.
func Demo(ctx context.Context, cfg Config, out io.Writer) error {
	d := &demo{talk: cfg.Talk, out: out}
	say := func(format string, args ...any) { fmt.Fprintf(d.talk, format+"\n", args...) }
	var err error
	if d.root, d.dirs, err = packageFolders(ctx); err != nil {
		return err
	}
	say("1. The work: SHA-256 of every file of %d packages of the Go standard library, one task each (%s).", len(d.dirs), d.root)
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
	d.want, d.got, d.have = make([]string, len(d.dirs)), make([]string, len(d.dirs)), make([]bool, len(d.dirs))
	for i, dir := range d.dirs {
		var b bytes.Buffer
		if err := HashFolder(&b, filepath.Join(d.root, dir)); err != nil {
			return fmt.Errorf("hash %s here: %w", dir, err)
		}
		d.want[i] = b.String()
	}
	return nil
}

// act is the play: submit through one peer, watch through another, kill the coordinator in the
// middle, collect, compare.
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
	killed := false
	var wg sync.WaitGroup
	defer wg.Wait()
	killErr := make(chan error, 1)
	began := time.Now()
	err = d.net.Client(watcher).Follow(ctx, sub.ID, true, func(p api.Progress) error {
		d.collect(ctx, watcher, p.Tasks)
		done := p.Job.Tasks["complete"]
		if !killed && done >= len(d.dirs)/3 && !p.Job.Over() {
			killed = true
			say("4. %d of %d done: kill -9 of the coordinator, p%d.", done, len(d.dirs), boss)
			wg.Go(func() {
				var err error
				gap, err = d.killCoordinator(ctx, boss, watcher)
				killErr <- err
			})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("watching through p%d: %w", watcher, err)
	}
	took := time.Since(began)
	if !killed {
		return errors.New("the job ended before the kill could land in its middle; this machine is faster than the demonstration expects")
	}
	if err := <-killErr; err != nil {
		return err
	}
	now, err := d.net.Coordinator(ctx, watcher)
	if err != nil {
		return err
	}
	say("   p%d went on. The flock had no coordinator for %s; all tasks ended %s after the submission.", now, gap.Round(time.Millisecond), took.Round(10*time.Millisecond))
	if err := d.bringBack(ctx, say, boss, watcher, sub.ID); err != nil {
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

func (d *demo) job() taskstate.Job {
	j := taskstate.Job{Name: "hash-std", Count: len(d.dirs), Each: d.dirs}
	j.Run.Process = &taskstate.Process{Command: []string{d.net.cfg.Exe, "testnet", "hash", filepath.Join(d.root, "{}")}, Braces: true}
	jobfile.Defaults(&j)
	j.Unreachable.ReplaceAfter = 1 // hashing twice does no harm
	return j
}

// collect fetches the output of tasks that ended, from whichever peer has it.
func (d *demo) collect(ctx context.Context, through int, tasks []api.Task) {
	for _, t := range tasks {
		if t.State != "complete" || d.has(t.Slot) {
			continue
		}
		var b bytes.Buffer
		whole := false
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := d.net.Client(through).Logs(ctx, t.Job, api.LogQuery{Task: t.ID, Stream: "stdout"}, func(c api.LogChunk) error {
			b.Write(c.Data)
			whole = c.EOF && c.Error == nil
			if c.Error != nil {
				return c.Error
			}
			return nil
		})
		cancel()
		if err != nil {
			d.mu.Lock()
			d.trouble = fmt.Errorf("output of %s on %s: %w", t.ID, t.PeerName, err)
			d.mu.Unlock()
		}
		if err == nil && whole {
			d.mu.Lock()
			d.got[t.Slot-1], d.have[t.Slot-1] = b.String(), true
			d.mu.Unlock()
		}
	}
}

func (d *demo) has(slot int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.have[slot-1]
}

// killCoordinator kills it and measures until another peer follows another coordinator.
func (d *demo) killCoordinator(ctx context.Context, boss, witness int) (time.Duration, error) {
	old := d.net.ID(boss)
	dead := time.Now()
	if err := d.net.Kill(boss); err != nil {
		return 0, err
	}
	err := d.net.await(ctx, func() bool {
		st, err := d.net.Client(witness).Status(ctx)
		return err == nil && st.Coordinator != "" && st.Coordinator != old
	})
	return time.Since(dead), err
}

// bringBack restarts the dead peer: results that only its disk has are fetched, and it is a peer
// like the others again.
func (d *demo) bringBack(ctx context.Context, say func(string, ...any), boss, through int, job string) error {
	began := time.Now()
	if err := d.net.Restart(ctx, boss); err != nil {
		return err
	}
	if err := d.net.AwaitReady(ctx); err != nil {
		return err
	}
	say("5. p%d started again, on another port: ready in every peer's eyes after %s.", boss, time.Since(began).Round(10*time.Millisecond))
	ts, err := d.net.Client(through).Tasks(ctx, job)
	if err != nil {
		return err
	}
	d.tasks = ts.Tasks
	missing := 0
	for i := range d.have {
		if !d.have[i] {
			missing++
		}
	}
	d.collect(ctx, through, ts.Tasks)
	if missing > 0 {
		say("   %d outputs were on its disk only, or not fetched yet; they are here now.", missing)
	}
	return nil
}

// verdict compares every result with the local one and prints who ran what.
func (d *demo) verdict(say func(string, ...any), gap, took time.Duration) error {
	wrong, lost := 0, 0
	for i := range d.want {
		switch {
		case !d.have[i]:
			lost++
		case d.got[i] != d.want[i]:
			wrong++
		}
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
	fmt.Fprintf(d.out, "\nresults %d of %d, wrong %d; without a coordinator for %s; %s from submit to end; %s, %d cpus\n",
		len(d.want)-lost, len(d.want), wrong, gap.Round(time.Millisecond), took.Round(10*time.Millisecond), runtime.GOOS, runtime.NumCPU())
	if wrong+lost > 0 {
		return fmt.Errorf("%d results are missing and %d are wrong (last trouble: %w)", lost, wrong, d.trouble)
	}
	say("6. Every result is here, and every one equals the local one.")
	return nil
}
