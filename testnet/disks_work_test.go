//go:build unix

package testnet_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
)

// workRound is a round in which tasks are real processes. Each writes its name (job.slot.attempt)
// to a file outside of every data folder as soon as it runs: what is there twice ran twice under
// one number.
type workRound struct {
	*diskRound
	ran  string // the file
	stay string // tasks that are to last do so while this file exists
	jobs []workJob
}

// workJob is a job that a round gave to its cluster.
type workJob struct {
	id    string
	count int
	once  bool // at most once
	stays bool // its tasks last until the round lets them go
}

func newWork(d *diskRound) *workRound {
	w := &workRound{diskRound: d, ran: filepath.Join(d.t.TempDir(), "ran"), stay: filepath.Join(d.t.TempDir(), "stay")}
	if err := os.WriteFile(w.stay, nil, 0o600); err != nil {
		d.t.Fatal(err)
	}
	return w
}

func withWork(play func(*workRound)) func(*diskRound) {
	return func(d *diskRound) {
		w := newWork(d)
		defer os.Remove(w.stay) // what still runs ends, also where its peer forgot it
		defer w.lastWords()
		play(w)
		w.ranOnce()
		if w.over {
			return
		}
		w.startAll()
		w.keepsAll()
		w.comesToAnEnd()
		w.ranOnce()
	}
}

// give has a job of processes accepted, on a peer if on is not 0.
func (w *workRound) give(j workJob, on int) workJob {
	w.t.Helper()
	line := fmt.Sprintf("echo $COVEY_TASK >>'%s'", w.ran)
	if j.stays {
		line += fmt.Sprintf("; while [ -e '%s' ]; do sleep 0.5; done", w.stay)
	}
	job := taskstate.Job{ID: taskstate.NewJobID(), Name: "work", Count: j.count, Resources: taskstate.Resources{MilliCPU: 50}}
	job.Run.Process = &taskstate.Process{Command: []string{line}, Shell: true}
	job.Unreachable.Wait = j.once
	if on > 0 {
		job.Constraints = []string{fmt.Sprintf("peer.name == p%d", on)}
	}
	jobfile.Defaults(&job)
	w.await("a job of processes is accepted", func() string {
		for k := 1; k <= w.net.N(); k++ {
			if !w.net.Running(k) {
				continue
			}
			if a, err := w.net.Client(k).Submit(w.t.Context(), api.Submit{Job: job}); err != nil {
				return err.Error()
			} else if !a.Held {
				return ""
			}
		}
		return "it is held"
	})
	j.id = string(job.ID)
	w.jobs, w.accepted = append(w.jobs, j), append(w.accepted, j.id)
	return j
}

// work gives every peer tasks that last, and some that end at once, of which half must not run
// twice, and waits until all have begun.
func (w *workRound) work() {
	w.t.Helper()
	w.give(workJob{count: 4, once: true, stays: true}, 0)
	w.give(workJob{count: 3, stays: true}, 0)
	w.give(workJob{count: 3, once: true}, 0)
	w.give(workJob{count: 2}, 0)
	w.await("everything has begun", func() string {
		runs := w.runs()
		for _, j := range w.jobs {
			for slot := 1; slot <= j.count; slot++ {
				if len(runs[j.slot(slot)]) == 0 {
					return "nobody has begun " + j.slot(slot)
				}
			}
		}
		return ""
	})
}

// busy gives one peer more of everything, and waits until it shows.
func (w *workRound) busy(k int) {
	w.t.Helper()
	kept := w.give(workJob{count: 2, once: true, stays: true}, k)
	over := w.give(workJob{count: 2, once: true}, k)
	w.runsAt(k, kept, "running")
	w.runsAt(k, over, "complete")
}

func (w *workRound) runsAt(k int, j workJob, state string) {
	w.t.Helper()
	w.await(fmt.Sprintf("what only peer %d may run is %s", k, state), func() string {
		for i := 1; i <= w.net.N(); i++ {
			if !w.net.Running(i) {
				continue
			}
			a, err := w.net.Client(i).Job(w.t.Context(), j.id)
			if err != nil {
				return err.Error()
			}
			if a.Job.Tasks[state] != j.count {
				return fmt.Sprintf("peer %d shows %v of %s, %s", i, a.Job.Tasks, j.id, a.Job.Waiting)
			}
		}
		return ""
	})
}

func (j workJob) slot(n int) string { return j.id + "." + strconv.Itoa(n) }

// runs lists by slot (job.slot) which attempts ran, as they wrote it.
func (w *workRound) runs() map[string][]string {
	w.t.Helper()
	b, err := os.ReadFile(w.ran)
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	out := map[string][]string{}
	for _, name := range strings.Fields(string(b)) {
		slot := name[:strings.LastIndexByte(name, '.')]
		out[slot] = append(out[slot], name)
	}
	return out
}

// ranOnce fails if anything ran twice that must not.
func (w *workRound) ranOnce() {
	w.t.Helper()
	runs := w.runs()
	for slot, names := range runs {
		slices.Sort(names)
		if len(slices.Compact(slices.Clone(names))) != len(names) {
			w.t.Errorf("an attempt ran twice: %v; hurt: %v", names, w.hurt)
		}
		if slices.ContainsFunc(w.jobs, func(j workJob) bool { return j.once && strings.HasPrefix(slot, j.id+".") }) && len(names) > 1 {
			w.t.Errorf("what must run at most once ran again: %v; hurt: %v", names, w.hurt)
		}
	}
}

// comesToAnEnd lets go what lasts, and wants every slot over: those that may be repeated complete,
// the others complete or ended for a reason. An at-most-once task whose peer forgot it is no
// exception: its peer says that it is over.
func (w *workRound) comesToAnEnd() {
	w.t.Helper()
	w.ranOnce()
	if err := os.Remove(w.stay); err != nil {
		w.t.Fatal(err)
	}
	w.await("every task comes to an end", func() string {
		for _, j := range w.jobs {
			a, err := w.net.Client(1).Job(w.t.Context(), j.id)
			if err != nil {
				return err.Error()
			}
			if a.Job.State == "complete" || j.once && a.Job.State == "failed" {
				continue
			}
			return fmt.Sprintf("job %s, at most once %v, is %s: %v %s", j.id, j.once, a.Job.State, a.Job.Tasks, a.Job.Waiting)
		}
		return ""
	})
}

// says waits until peer k itself tells of one of these troubles, and returns those that it tells
// of.
func (w *workRound) says(k int, codes ...string) (told []string) {
	w.t.Helper()
	w.await(fmt.Sprintf("peer %d says one of %v", k, codes), func() string {
		told = w.troubles(w.net.Client(k))
		if slices.ContainsFunc(told, func(c string) bool { return slices.Contains(codes, c) }) {
			return ""
		}
		return fmt.Sprintf("it says %v", told)
	})
	w.t.Logf("peer %d says %v", k, told)
	return told
}

func (d *diskRound) troubles(c *client.Client) (codes []string) {
	st, err := c.Status(d.t.Context())
	if err != nil {
		return []string{"no answer: " + err.Error()}
	}
	for _, x := range st.Troubles {
		codes = append(codes, x.Code)
	}
	return codes
}

// copyFolder copies a file or folder with everything about it, sockets and links included.
func (d *diskRound) copyFolder(from, to string) {
	d.t.Helper()
	if err := os.RemoveAll(to); err != nil {
		d.t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		d.t.Fatalf("copy %s: %v: %s", from, err, out)
	}
}

// lastWords keeps what the peers of a round that failed said.
func (w *workRound) lastWords() {
	if !w.t.Failed() {
		return
	}
	w.ranOnce()
	for k := 1; k <= w.net.N(); k++ {
		if st, err := w.net.Client(k).Status(context.Background()); err == nil {
			w.t.Logf("peer %d: coordinator %s, voters %v, troubles %+v, warnings %q", k, st.Coordinator, st.Voters, st.Troubles, st.Warnings)
		}
		b, err := os.ReadFile(filepath.Join(w.net.Data(k), "peer.log"))
		w.t.Logf("log of peer %d, %v:\n%s", k, err, b[max(0, len(b)-6<<10):])
	}
}
