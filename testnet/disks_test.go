//go:build unix

package testnet_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
	"github.com/coveyproject/covey/testnet"
)

// Rounds of damaged disks with real processes, real files and SIGKILL. 200 of them are what a
// change to ledger, journal or identity on disk is held against:
//
//	go test ./testnet -run TestDamagedDisks -rounds 200 -disk-seed 1 -timeout 3h
var (
	rounds   = flag.Int("rounds", 0, "rounds of TestDamagedDisks, the first of which play each scene once; 0: 13 with -tags long, else none")
	diskSeed = flag.Uint64("disk-seed", 1, "seed of the first round")
	diskPlay = flag.String("disk-scene", "", "play only the scenes whose name this regular expression matches")
)

// diskScene is what happens to a cluster of three voters in one round. What a scene promises it
// checks by itself; that no accepted job is lost while a majority of the disks is whole is checked
// at the end of every round.
type diskScene struct {
	name string
	play func(*diskRound)
}

// diskScenes are drawn from; another kind of damage adds its scenes here, from a file of its own.
func diskScenes() []diskScene {
	return slices.Concat(lostLogScenes(), journalScenes(), copiedScenes(), rotScenes(), staleScenes())
}

// diskRound is one cluster, and what was done to it.
type diskRound struct {
	t        *testing.T
	r        *rand.Rand
	net      *testnet.Net
	accepted []string       // ids of jobs
	hurt     map[int]string // peers whose disk is not whole, and why
	over     bool           // the round ended where nobody can decide, and the scene has checked that
}

func TestDamagedDisksLoseNoAcceptedJobWhileAMajorityIsWhole(t *testing.T) {
	n := *rounds
	if n == 0 {
		long.Test(t)
		n = 13
	}
	want := regexp.MustCompile(*diskPlay)
	scenes := slices.DeleteFunc(diskScenes(), func(s diskScene) bool { return !want.MatchString(s.name) })
	if len(scenes) == 0 {
		t.Fatalf("no scene is called %q", *diskPlay)
	}
	for i := range n {
		seed := *diskSeed + uint64(i)
		r := rand.New(rand.NewPCG(seed, 8))
		scene := scenes[r.IntN(len(scenes))]
		if i < len(scenes) {
			scene = scenes[i] // each once, first
		}
		t.Run(fmt.Sprintf("%d %s", seed, scene.name), func(t *testing.T) { playDisks(t, r, scene) })
	}
}

// crashed finds in a log what the runtime of Go says when it ends a program.
var crashed = regexp.MustCompile(`(?m)^(panic: |fatal error: |unexpected fault address|SIGSEGV)`)

func playDisks(t *testing.T, r *rand.Rand, scene diskScene) {
	net, err := testnet.Start(t.Context(), testnet.Config{Dir: t.TempDir(), N: 3, Exe: exe(t), Keep: true})
	if err != nil {
		t.Fatal(err)
	}
	defer net.Quit()
	defer func() {
		for k := 1; k <= net.N(); k++ {
			log, _ := os.ReadFile(filepath.Join(net.Data(k), "peer.log"))
			if at := crashed.FindIndex(log); at != nil {
				t.Errorf("peer %d crashed:\n%s", k, log[at[0]:min(len(log), at[0]+3000)])
			}
		}
		for k := 1; t.Failed() && k <= net.N(); k++ {
			log, _ := os.ReadFile(filepath.Join(net.Data(k), "peer.log"))
			t.Logf("what peer %d said last:\n%s", k, log[max(0, len(log)-4000):])
		}
	}()
	d := &diskRound{t: t, r: r, net: net, hurt: map[int]string{}}
	d.await("three voters", func() string {
		st, err := net.Client(1).Status(t.Context())
		if err != nil || len(st.Voters) != 3 {
			return fmt.Sprint(st.Voters, err)
		}
		return ""
	})
	// One that is killed seconds after it came does not know where to find a voter that came then.
	d.await("each has written down where the others are", func() string {
		ps, err := net.Client(1).Peers(t.Context())
		for k := 1; k <= net.N() && err == nil; k++ {
			var book []byte
			book, err = os.ReadFile(filepath.Join(net.Data(k), "book"))
			for _, p := range ps.Peers {
				if own := fmt.Sprintf("p%d", k) == p.Name; !own && !strings.Contains(string(book), p.ID) {
					return fmt.Sprintf("p%d does not know %s", k, p.Name)
				}
			}
		}
		if err != nil {
			return err.Error()
		}
		return ""
	})
	for range 1 + r.IntN(3) {
		d.submit(1 + r.IntN(3))
	}
	scene.play(d)
	if d.over || t.Failed() {
		return
	}
	d.startAll()
	d.keepsAll()
	d.submit(1 + r.IntN(3)) // it decides
}

// await polls until nothing is missing any more.
func (d *diskRound) await(what string, missing func() string) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 90*time.Second)
	defer cancel()
	for {
		why := missing()
		if why == "" {
			return
		}
		if pause.For(ctx, 50*time.Millisecond) != nil {
			d.t.Fatalf("waited in vain: %s: %s\nhurt: %v", what, why, d.hurt)
		}
	}
}

// submit has a job accepted through a peer.
func (d *diskRound) submit(k int) {
	d.t.Helper()
	j := taskstate.Job{ID: taskstate.NewJobID(), Name: "noop", Count: 1}
	j.Run.Noop = &taskstate.Noop{}
	jobfile.Defaults(&j)
	d.await("a job is accepted", func() string {
		a, err := d.net.Client(k).Submit(d.t.Context(), api.Submit{Job: j})
		if err != nil {
			return err.Error()
		}
		if a.Held {
			return a.Note
		}
		return ""
	})
	d.accepted = append(d.accepted, string(j.ID))
}

// kill ends peers as a power cut would.
func (d *diskRound) kill(peers ...int) {
	d.t.Helper()
	for _, k := range peers {
		if err := d.net.Kill(k); err != nil {
			d.t.Fatal(err)
		}
	}
}

// start starts peers that were killed.
func (d *diskRound) start(peers ...int) {
	d.t.Helper()
	for _, k := range peers {
		if err := d.net.Revive(d.t.Context(), k); err != nil {
			d.t.Fatal(err)
		}
	}
}

func (d *diskRound) startAll() {
	d.t.Helper()
	for k := 1; k <= d.net.N(); k++ {
		if !d.net.Running(k) {
			d.start(k)
		}
	}
}

// lacks names what accepted jobs peer k does not know.
func (d *diskRound) lacks(k int) string {
	jobs, err := d.net.Client(k).Jobs(d.t.Context())
	if err != nil {
		return err.Error()
	}
	for _, id := range d.accepted {
		if !slices.ContainsFunc(jobs.Jobs, func(j api.Job) bool { return j.ID == id && j.State != "held" }) {
			return fmt.Sprintf("peer %d does not know job %s", k, id)
		}
	}
	return ""
}

// keepsAll waits until every peer knows every accepted job, and a coordinator.
func (d *diskRound) keepsAll() {
	d.t.Helper()
	d.await("a coordinator, and all accepted jobs on every peer", func() string {
		for k := 1; k <= d.net.N(); k++ {
			st, err := d.net.Client(k).Status(d.t.Context())
			if err != nil || st.Coordinator == "" {
				return fmt.Sprintf("peer %d knows no coordinator: %v %v", k, st.Warnings, err)
			}
			if why := d.lacks(k); why != "" {
				return why
			}
		}
		return ""
	})
}

// leaderLacksNothing fails if, within a while, anybody leads who does not know every accepted job.
func (d *diskRound) leaderLacksNothing(while time.Duration) (led bool) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), while)
	defer cancel()
	for pause.For(ctx, 100*time.Millisecond) == nil {
		for k := 1; k <= d.net.N(); k++ {
			if !d.net.Running(k) {
				continue
			}
			st, err := d.net.Client(k).Status(d.t.Context())
			if err != nil || st.Coordinator != d.net.ID(k) {
				continue
			}
			led = true
			if why := d.lacks(k); why != "" {
				d.t.Fatalf("peer %d leads, and what was accepted is lost: %s; hurt: %v", k, why, d.hurt)
			}
		}
	}
	return led
}

// stuck checks what is said where the disks of a majority are hurt: nobody leads, the peers that
// lost something are named, and what to type.
func (d *diskRound) stuck() {
	d.t.Helper()
	if d.leaderLacksNothing(3 * time.Second) {
		d.t.Fatalf("somebody leads, and the disks of a majority are hurt: %v", d.hurt)
	}
	d.await("every peer says who lost what", func() string {
		for k := 1; k <= d.net.N(); k++ {
			st, err := d.net.Client(k).Status(d.t.Context())
			if err != nil {
				return err.Error()
			}
			text := strings.Join(st.Warnings, "\n")
			if why := d.namesLosses(text); why != "" {
				return fmt.Sprintf("peer %d does not say %s: %s", k, why, text)
			}
			if !strings.Contains(text, "peer recover") {
				return fmt.Sprintf("peer %d does not say what to type: %s", k, text)
			}
		}
		return ""
	})
	d.await("`peer recover` names the same before it asks", func() string {
		k := 1 + d.r.IntN(d.net.N())
		cmd := exec.CommandContext(d.t.Context(), exe(d.t), "--data", d.net.Data(k), "recover")
		out, err := cmd.CombinedOutput() // there is nobody to ask, so that it fails
		if why := d.namesLosses(string(out)); why != "" {
			return fmt.Sprintf("at peer %d (%v) it does not say %s: %s", k, err, why, out)
		}
		if strings.Contains(string(out), "do not answer") {
			return fmt.Sprintf("at peer %d it says that peers do not answer which run: %s", k, out)
		}
		d.t.Logf("peer %d: %s", k, out)
		return ""
	})
	d.over = true
}

// namesLosses says what a text lacks: whose disks are hurt, and up to which entry each had
// acknowledged. Who lost only its own mark may not know that.
func (d *diskRound) namesLosses(text string) string {
	for j, how := range d.hurt {
		who := fmt.Sprintf(`\bp%d gives no vote: `, j)
		if how != "mark gone" {
			who += `[^.]*had acknowledged entry [1-9]`
		}
		if !regexp.MustCompile(who).MatchString(text) {
			return who
		}
	}
	return ""
}

// lostLogScenes: a voter's log is emptied, gone, garbage, cut off or turned back.
func lostLogScenes() []diskScene {
	return []diskScene{
		{"the log of one who had acknowledged is lost, and another was away", withTasks(func(d *diskRound) {
			order := d.r.Perm(3)
			away, liar, third := order[0]+1, order[1]+1, order[2]+1
			d.kill(away)
			d.submit(third)
			d.kill(liar, third)
			d.damage(liar)
			d.start(away, liar)
			if d.leaderLacksNothing(4 * time.Second) {
				d.t.Error("somebody leads without the only disk that has what was decided")
			}
		})},
		{"one log is lost while the others go on", withTasks(func(d *diskRound) {
			k := 1 + d.r.IntN(3)
			d.kill(k)
			d.damage(k)
			d.submit(1 + k%3)
			d.start(k)
			d.leaderLacksNothing(time.Second)
		})},
		{"the logs of a majority are lost", withTasks(func(d *diskRound) {
			order := d.r.Perm(3)
			d.kill(1, 2, 3)
			d.damage(order[0] + 1)
			d.damage(order[1] + 1)
			d.startAll()
			d.stuck()
		})},
		{"only the memo is gone, of all", withTasks(func(d *diskRound) {
			d.kill(1, 2, 3)
			for k := 1; k <= 3; k++ {
				if err := os.Remove(filepath.Join(d.net.Data(k), "ledger", "memo")); err != nil {
					d.t.Fatal(err)
				}
			}
		})},
		{"the ledger's folder is turned back", withTasks(func(d *diskRound) {
			order := d.r.Perm(3)
			away, back, third := order[0]+1, order[1]+1, order[2]+1
			d.kill(back)
			old := filepath.Join(d.t.TempDir(), "ledger")
			if err := os.CopyFS(old, os.DirFS(filepath.Join(d.net.Data(back), "ledger"))); err != nil {
				d.t.Fatal(err)
			}
			d.start(back)
			d.await("it follows", func() string { return d.lacks(back) })
			d.kill(away)
			d.submit(third)
			d.kill(back, third)
			ledger := filepath.Join(d.net.Data(back), "ledger")
			if err := errors.Join(os.RemoveAll(ledger), os.CopyFS(ledger, os.DirFS(old))); err != nil {
				d.t.Fatal(err)
			}
			d.hurt[back] = "turned back"
			d.start(away, back)
			if d.leaderLacksNothing(4 * time.Second) {
				d.t.Error("somebody leads without the only disk that has what was decided")
			}
		})},
		{"a whole data folder is turned back, and others have seen more of it", withTasks(func(d *diskRound) {
			order := d.r.Perm(3)
			back, third := order[0]+1, order[1]+1
			d.kill(back)
			old := filepath.Join(d.t.TempDir(), "data")
			if err := copyFolder(old, d.net.Data(back)); err != nil {
				d.t.Fatal(err)
			}
			d.start(back)
			d.submit(third)
			d.keepsAll()
			d.kill(1, 2, 3)
			if err := errors.Join(os.RemoveAll(d.net.Data(back)), copyFolder(d.net.Data(back), old)); err != nil {
				d.t.Fatal(err)
			}
			d.hurt[back] = "turned back with all of its data folder"
			d.startAll()
			d.leaderLacksNothing(2 * time.Second)
		})},
	}
}

// withTasks plays a scene while tasks run, of which nothing may run twice.
func withTasks(play func(*diskRound)) func(*diskRound) {
	return withWork(func(w *workRound) {
		w.work()
		play(w.diskRound)
	})
}

// damage hurts the log of a peer that does not run.
func (d *diskRound) damage(k int) {
	d.t.Helper()
	dir := filepath.Join(d.net.Data(k), "ledger")
	files, err := filepath.Glob(filepath.Join(dir, "raft-*", "*.wal"))
	if err != nil || len(files) == 0 {
		d.t.Fatal(files, err)
	}
	wal := files[len(files)-1]
	kinds := map[string]func() error{
		"emptied":      func() error { return os.WriteFile(wal, nil, 0o600) },
		"deleted":      func() error { return os.Remove(wal) },
		"garbage":      func() error { return os.WriteFile(wal, []byte(strings.Repeat("garbage ", 1<<10)), 0o600) },
		"cut":          func() error { return d.cut(wal) },
		"all wal gone": func() error { return errors.Join(os.RemoveAll(filepath.Dir(wal)), os.Mkdir(filepath.Dir(wal), 0o700)) },
		"folder gone":  func() error { return os.RemoveAll(filepath.Dir(wal)) },
		"mark gone":    func() error { return os.Remove(filepath.Join(d.net.Data(k), "voter.mark")) },
	}
	names := make([]string, 0, len(kinds))
	for name := range kinds {
		names = append(names, name)
	}
	slices.Sort(names)
	d.hurt[k] = names[d.r.IntN(len(names))]
	d.t.Logf("peer %d: %s", k, d.hurt[k])
	if err := kinds[d.hurt[k]](); err != nil {
		d.t.Fatal(err)
	}
}

// cut ends a file of the log in the first half of what was written: behind that is room for what is
// to come. (The last batch may be one that was never acknowledged, because the kill came first: who
// loses no more than that has lost nothing.)
func (d *diskRound) cut(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	used := len(b)
	for used > 0 && b[used-1] == 0 {
		used--
	}
	if used < 512 {
		return fmt.Errorf("%w: %s has %d bytes", fs.ErrInvalid, path, used)
	}
	at := int64(128 + d.r.IntN(used/2-128))
	d.t.Logf("%s is cut to %d of %d bytes", filepath.Base(path), at, used)
	return os.Truncate(path, at)
}

// copyFolder copies a folder with the modes of its files: a key that others may read is refused.
func copyFolder(to, from string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		info, err := e.Info()
		switch {
		case err != nil:
			return err
		case e.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), info.Mode().Perm())
		case !info.Mode().IsRegular():
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), b, info.Mode().Perm())
	})
}
