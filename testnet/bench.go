package testnet

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/jobfile"
)

// BenchConfig says what to measure.
type BenchConfig struct {
	Peers   int // of the testnet that is started; 0: Client's cluster is measured as it is
	Client  *client.Client
	Exe     string
	Dir     string   // for testnets and the plain processes
	Quick   bool     // the smaller half: for a look, not for a record
	Rounds  int      // repetitions of each kill; 0: 3
	Latency int      // single tasks for the latency figures; 0: 200
	Only    []string // names of the parts to run; empty: all
	Talk    io.Writer
}

// Measure is one figure. Value is in Unit; N says over how many it was taken.
type Measure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	P99   float64 `json:"p99,omitempty"` // in Unit too; Value is then the median
	Max   float64 `json:"max,omitempty"`
	N     int     `json:"n"`
	Note  string  `json:"note,omitempty"`
}

// Report is what a benchmark measured and on what.
type Report struct {
	Measures []Measure `json:"measures"`
	OS       string    `json:"os"`
	Arch     string    `json:"arch"`
	CPUs     int       `json:"cpus"`
	Go       string    `json:"go"`
	Peers    int       `json:"peers"`
	AsOf     time.Time `json:"as_of"`
}

type bench struct {
	cfg    BenchConfig
	client *client.Client
	net    *Net // nil when a cluster of others is measured
	report Report
}

// Bench measures. What needs a testnet (kills, status spread, resources) is left out when an
// existing cluster is measured.
func Bench(ctx context.Context, cfg BenchConfig) (Report, error) {
	if cfg.Talk == nil {
		cfg.Talk = io.Discard
	}
	cfg.Rounds = cmp.Or(cfg.Rounds, 3)
	cfg.Latency = cmp.Or(cfg.Latency, 200)
	b := &bench{cfg: cfg, client: cfg.Client}
	b.report = Report{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version(), Peers: cfg.Peers}
	parts := []struct {
		name string
		net  bool
		run  func(context.Context) error
	}{
		{"idle", true, b.idle},
		{"latency", false, b.latency},
		{"noop", false, b.noops},
		{"processes", false, b.processes},
		{"files", true, b.files},
		{"kills", true, b.kills},
	}
	if cfg.Peers > 0 {
		if err := b.start(ctx, cfg.Peers); err != nil {
			return b.report, err
		}
	} else if ps, err := b.client.Peers(ctx); err == nil {
		b.report.Peers = len(ps.Peers)
	}
	for _, p := range parts {
		if b.wants(p.name) && (!p.net || b.net != nil) {
			if err := p.run(ctx); err != nil {
				b.stop()
				return b.report, fmt.Errorf("%s: %w", p.name, err)
			}
		}
	}
	b.stop()
	if cfg.Peers > 0 {
		if err := b.withOtherNets(ctx); err != nil {
			return b.report, err
		}
	}
	b.report.AsOf = time.Now().UTC()
	return b.report, nil
}

// withOtherNets measures what needs testnets of another size.
func (b *bench) withOtherNets(ctx context.Context) error {
	for _, x := range []struct {
		name  string
		peers int
		run   func(context.Context) error
	}{{"both", 5, b.killBoth}, {"spread", 10, b.spread}} {
		if !b.wants(x.name) {
			continue
		}
		if err := b.start(ctx, x.peers); err != nil {
			return err
		}
		err := x.run(ctx)
		b.stop()
		if err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
	}
	return nil
}

// BenchParts are the names that BenchConfig.Only knows, in the order in which they run.
func BenchParts() []string {
	return []string{"idle", "latency", "noop", "processes", "files", "kills", "both", "spread"}
}

func (b *bench) wants(name string) bool {
	return len(b.cfg.Only) == 0 || slices.Contains(b.cfg.Only, name)
}

func (b *bench) start(ctx context.Context, peers int) error {
	fmt.Fprintf(b.cfg.Talk, "starting %d peers …\n", peers)
	dir, err := os.MkdirTemp(b.cfg.Dir, "net-")
	if err != nil {
		return api.Errorf(api.Failed, "cannot make a folder for the testnet: %v", err)
	}
	if b.net, err = Start(ctx, Config{Dir: dir, N: peers, Exe: b.cfg.Exe}); err != nil {
		return err
	}
	b.client = b.net.Client(1)
	return b.net.AwaitReady(ctx)
}

func (b *bench) stop() {
	if b.net != nil {
		b.net.Quit()
		b.net = nil
	}
}

func (b *bench) add(m Measure) {
	b.report.Measures = append(b.report.Measures, m)
	line := fmt.Sprintf("%-46s %10.4g %s", m.Name, m.Value, m.Unit)
	if m.P99 > 0 {
		line += fmt.Sprintf("  p99 %.4g", m.P99)
	}
	if m.Max > 0 {
		line += fmt.Sprintf("  max %.4g", m.Max)
	}
	fmt.Fprintln(b.cfg.Talk, line)
}

func noopJob(count int) taskstate.Job {
	j := taskstate.Job{Name: "bench-noop", Count: count}
	j.Run.Noop = &taskstate.Noop{}
	jobfile.Defaults(&j)
	return j
}

func processJob(count int, command ...string) taskstate.Job {
	j := taskstate.Job{Name: "bench-process", Count: count}
	j.Run.Process = &taskstate.Process{Command: command}
	jobfile.Defaults(&j)
	return j
}

// runJob submits a job through c and waits for its end. The clock runs from before the submission
// to the news of the end.
func runJob(ctx context.Context, c *client.Client, j taskstate.Job) (time.Duration, error) {
	began := time.Now()
	sub, err := c.Submit(ctx, api.Submit{Job: j})
	if err != nil {
		return 0, err
	}
	var last api.Job
	if err := c.Follow(ctx, sub.ID, false, func(p api.Progress) error { last = p.Job; return nil }); err != nil {
		return 0, err
	}
	took := time.Since(began)
	if last.ExitCode == nil || *last.ExitCode != 0 {
		return took, fmt.Errorf("job %s ended as %s", sub.ID, last.State)
	}
	return took, nil
}

// noops: tasks that do nothing, by the thousand.
func (b *bench) noops(ctx context.Context) error {
	sizes := []int{1000, 10_000, 100_000}
	if b.cfg.Quick {
		sizes = sizes[:2]
	}
	for _, n := range sizes {
		took, err := repeat(b.cfg.Rounds, func() (time.Duration, error) { return runJob(ctx, b.client, noopJob(n)) })
		if err != nil {
			return err
		}
		mid := median(took)
		b.add(Measure{Name: fmt.Sprintf("no-op tasks per second, job of %d", n), Value: float64(n) / mid.Seconds(), Unit: "tasks/s", N: len(took)})
		if n == sizes[0] {
			b.add(Measure{Name: fmt.Sprintf("%d no-op tasks, submit to end", n), Value: ms(mid), Unit: "ms", N: len(took)})
		}
	}
	return nil
}

// processes: /bin/true through the cluster, beside a plain loop of the same at the same
// parallelism.
func (b *bench) processes(ctx context.Context) error {
	const n = 1000
	path, err := exec.LookPath("true")
	if err != nil {
		fmt.Fprintln(b.cfg.Talk, "no `true` on this machine: process rates left out")
		return nil
	}
	ps, err := b.client.Peers(ctx)
	if err != nil {
		return err
	}
	slots := 0
	for _, p := range ps.Peers {
		slots += int(p.CPUs)
	}
	var clustered, plain []time.Duration
	for range b.cfg.Rounds {
		d, err := runJob(ctx, b.client, processJob(n, path))
		if err != nil {
			return err
		}
		p, err := plainProcesses(b.cfg.Dir, path, n, max(slots, 1))
		if err != nil {
			return err
		}
		clustered, plain = append(clustered, d), append(plain, p)
	}
	f, p := n/median(clustered).Seconds(), n/median(plain).Seconds()
	b.add(Measure{Name: "/bin/true tasks per second, job of 1000", Value: f, Unit: "tasks/s", N: len(clustered)})
	b.add(Measure{Name: fmt.Sprintf("plain fork+exec, folder and two files, %d at once", slots), Value: p, Unit: "processes/s", N: len(plain)})
	b.add(Measure{Name: "of the plain rate", Value: 100 * f / p, Unit: "%", N: len(clustered)})
	return nil
}

// plainProcesses runs n processes, each in a fresh folder with two log files, so many at once: what
// any such system must at least do.
func plainProcesses(dir, path string, n, parallel int) (time.Duration, error) {
	root, err := os.MkdirTemp(dir, "plain-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(root)
	began := time.Now()
	work := make(chan int)
	errs := make(chan error, parallel)
	var wg sync.WaitGroup
	for range parallel {
		wg.Go(func() {
			for i := range work {
				if err := plainProcess(filepath.Join(root, strconv.Itoa(i)), path); err != nil {
					select {
					case errs <- err:
					default:
					}
				}
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	wg.Wait()
	select {
	case err := <-errs:
		return 0, err
	default:
		return time.Since(began), nil
	}
}

func plainProcess(dir, path string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(dir, "stdout"))
	if err != nil {
		return err
	}
	defer out.Close()
	errFile, err := os.Create(filepath.Join(dir, "stderr"))
	if err != nil {
		return err
	}
	defer errFile.Close()
	p, err := os.StartProcess(path, []string{path}, &os.ProcAttr{Dir: dir, Files: []*os.File{nil, out, errFile}})
	if err != nil {
		return err
	}
	_, err = p.Wait()
	return err
}

func (b *bench) latency(ctx context.Context) error {
	n := b.cfg.Latency
	if b.cfg.Quick {
		n = min(n, 30)
	}
	took, err := repeat(n, func() (time.Duration, error) { return runJob(ctx, b.client, noopJob(1)) })
	if err != nil {
		return err
	}
	b.add(spreadOf("one no-op, submit to done", took))
	path, err := exec.LookPath("true")
	if err != nil {
		return nil //nolint:nilerr // not every system has one
	}
	if took, err = repeat(n, func() (time.Duration, error) { return runJob(ctx, b.client, processJob(1, path)) }); err != nil {
		return err
	}
	b.add(spreadOf("one /bin/true, submit to done", took))
	return nil
}

// repeat measures n times, one after the other.
func repeat(n int, measure func() (time.Duration, error)) (took []time.Duration, err error) {
	for range n {
		d, err := measure()
		if err != nil {
			return nil, err
		}
		took = append(took, d)
	}
	return took, nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func median(d []time.Duration) time.Duration { return quantile(d, 0.5) }

// quantile is the nearest-rank quantile: the smallest value that at least q of all are not above.
func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(d))
	return s[max(0, int(math.Ceil(q*float64(len(s))))-1)]
}

// spreadOf is a median with its tail, in milliseconds.
func spreadOf(name string, d []time.Duration) Measure {
	return Measure{Name: name, Value: ms(median(d)), P99: ms(quantile(d, 0.99)), Max: ms(quantile(d, 1)), Unit: "ms", N: len(d)}
}
