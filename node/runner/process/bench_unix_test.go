//go:build unix

package process

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/coveyproject/covey/node/runner/supervise"
	"github.com/coveyproject/covey/taskstate"
)

// parallelism of both loops: about what three peers with two CPUs each have under way.
const parallelism = 6

// BenchmarkTrue runs /bin/true by a plain loop – a fresh folder, two log files, fork, exec, wait –
// and through the runner, with processes of its own and with a supervisor. cpu-µs/task is what all
// of it takes, children included, and does not depend on who else uses the machine. Folders are
// removed at the very end only: on ext4, removing makes the next creations slow (see doc.go).
//
//	go test ./node/runner/process -run xxx -bench True -benchtime 500x
func BenchmarkTrue(b *testing.B) {
	root := b.TempDir()
	n := 0
	fresh := func() string { n++; return filepath.Join(root, fmt.Sprint(n)) }
	for range 5 { // in turns: what else the machine does falls on both
		b.Run("plain", func(b *testing.B) { benchPlain(b, fresh()) })
		b.Run("inside", func(b *testing.B) { benchRunner(b, fresh(), true, nil, nil) })
		b.Run("supervised", func(b *testing.B) { benchRunner(b, fresh(), false, nil, nil) })
		for how, self := range map[string]bool{"hidden": true, "hidden-user": false} { // the data folder is, and the task is another user
			b.Run(how, func(b *testing.B) {
				data := fresh()
				benchRunner(b, filepath.Join(data, "tasks"), false, &Sandbox{Hide: []string{data}, Users: data + ".users", Self: self}, nil)
			})
		}
		for _, isolate := range []string{taskstate.IsolateFS, taskstate.IsolateStrong} {
			b.Run(isolate, func(b *testing.B) {
				data := fresh()
				held := &taskstate.Confinement{As: taskstate.AsSelf, Isolate: isolate, Net: taskstate.NetNone}
				benchRunner(b, filepath.Join(data, "tasks"), false, &Sandbox{Hide: []string{data}, Users: data + ".users", Self: true}, held)
			})
		}
	}
}

// measured runs f over b.N tasks and adds the CPU time used.
func measured(b *testing.B, f func()) {
	before := cpuMicros()
	b.ResetTimer()
	f()
	b.StopTimer()
	b.ReportMetric(float64(cpuMicros()-before)/float64(b.N), "cpu-µs/task")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}

func cpuMicros() (sum int64) {
	for _, who := range []int{syscall.RUSAGE_SELF, -1 /* children */} {
		var u syscall.Rusage
		_ = syscall.Getrusage(who, &u)
		sum += (u.Utime.Nano() + u.Stime.Nano()) / 1000
	}
	return sum + supervisorMicros()
}

// supervisorMicros is what living children of this process have used, and their children that have
// ended.
func supervisorMicros() (sum int64) {
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, l := range lists {
		text, _ := os.ReadFile(l)
		for _, pid := range strings.Fields(string(text)) {
			stat, _ := os.ReadFile("/proc/" + pid + "/stat")
			f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
			for _, ticks := range f[11:15] {
				n, _ := strconv.ParseInt(ticks, 10, 64)
				sum += n * 10_000
			}
		}
	}
	return sum
}

func benchPlain(b *testing.B, root string) {
	if err := os.MkdirAll(root, 0o700); err != nil {
		b.Fatal(err)
	}
	next := make(chan int)
	var all sync.WaitGroup
	measured(b, func() {
		for range parallelism {
			all.Go(func() {
				for i := range next {
					if err := plainTask(filepath.Join(root, fmt.Sprint(i))); err != nil {
						b.Error(err)
					}
				}
			})
		}
		for i := range b.N {
			next <- i
		}
		close(next)
		all.Wait()
	})
}

func plainTask(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(dir, "stdout"))
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	errs, err := os.Create(filepath.Join(dir, "stderr"))
	if err != nil {
		return err
	}
	defer func() { _ = errs.Close() }()
	c := exec.Command("/bin/true")
	c.Dir, c.Stdout, c.Stderr = dir, out, errs
	return c.Run()
}

func benchRunner(b *testing.B, root string, inside bool, box *Sandbox, held *taskstate.Confinement) {
	b.Helper()
	job := process(taskstate.Process{Command: []string{"/bin/true"}})
	free := make(chan struct{}, parallelism)
	var r *Executor
	var err error
	report, _ := queued(func(rep taskstate.RunReport) {
		if rep.State.Final() {
			if rep.State != taskstate.Complete {
				b.Errorf("%+v", rep)
			}
			r.Kept([]taskstate.TaskID{rep.Task})
			<-free
		}
	})
	r, err = New(Config{Dir: root, InProcess: inside, Report: report, Sandbox: box})
	if err != nil {
		b.Fatal(err)
	}
	measured(b, func() {
		for i := range b.N {
			free <- struct{}{}
			l := launch(job, i+1)
			l.Confinement = held
			r.Start(l)
		}
		for range parallelism {
			free <- struct{}{}
		}
	})
	_ = r.Close()
	_ = supervise.EndAll(root)
}
