package dispatch_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/dispatch/coordinator"
	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/dispatch/worker"
	"github.com/coveyproject/covey/dispatch/worker/journal"
	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/membership/verdict"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/p2p/memnet"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/testnet/sim/memledger"
)

// The tests of this file put both loops together: real workers with real journals, the real
// coordinator, an in-memory network and ledger, a runner that only waits.

// cluster is a few peers in a bubble. Each could coordinate; one does.
type cluster struct {
	t     testing.TB
	net   *memnet.Network
	peers []*clusterPeer
	mu    sync.Mutex
	boss  *clusterPeer
	epoch taskstate.Epoch
	ran   map[taskstate.TaskID]int
}

type clusterPeer struct {
	f      *cluster
	id     string
	dir    string
	ledger *memledger.Ledger
	coord  *coordinator.Loop
	worker *worker.Loop
	runner *idleRunner
	resign func()
	stop   func()
	runs   worker.Runner // in place of runner; nil: that
	within time.Duration // for StartWithin

	replay  func(context.Context) error // before its journal is read
	survive bool                        // its runner outlives it
	disk    *fullUp                     // holds its journal
}

// farLedger takes its time over a proposal, and a different one over each.
type farLedger struct{ *memledger.Ledger }

func (l farLedger) Propose(ctx context.Context, cmds []ledger.Command) (uint64, []ledger.Result, error) {
	_ = pause.For(ctx, time.Duration(rand.N(4_000))*time.Microsecond)
	return l.Ledger.Propose(ctx, cmds)
}

// idleRunner ends every task after a while, as asked of a no-op, successfully. It places the inputs
// of a task for placingTakes before. Where files are to be kept, it says after that while that the
// process has ended, and saves for savingTakes.
type idleRunner struct {
	f      *cluster
	sink   func(taskstate.RunReport)
	mu     sync.Mutex
	timers map[taskstate.TaskID]*time.Timer
	jitter *rand.Rand
	dead   bool

	survive bool // it outlived the worker before
}

const placingTakes = 90 * time.Second

func (r *idleRunner) Start(l taskstate.Launch) {
	if len(l.Job.Inputs) == 0 {
		r.begin(l)
		return
	}
	r.report(taskstate.RunReport{Task: l.Task, State: taskstate.Starting, Exit: taskstate.NoExit, Message: "placing its inputs"})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timers[l.Task] = time.AfterFunc(placingTakes, func() { r.begin(l) })
}

// begin begins a task whose inputs are placed.
func (r *idleRunner) begin(l taskstate.Launch) {
	r.f.mu.Lock()
	r.f.ran[l.Task]++
	r.f.mu.Unlock()
	d := time.Duration(l.Job.Run.Noop.Duration) * time.Millisecond
	if d == 0 {
		r.report(taskstate.RunReport{Task: l.Task, State: taskstate.Complete})
		return
	}
	r.report(taskstate.RunReport{Task: l.Task, State: taskstate.Running, Exit: taskstate.NoExit})
	r.mu.Lock()
	defer r.mu.Unlock()
	d += time.Duration(r.jitter.Int64N(int64(d)/4 + 1))
	r.timers[l.Task] = time.AfterFunc(d, func() {
		if !l.Job.Saves() {
			r.over(l.Task, taskstate.RunReport{Task: l.Task, State: taskstate.Complete})
			return
		}
		r.report(taskstate.RunReport{Task: l.Task, State: taskstate.Saving, Took: d.Milliseconds()})
		r.save(l.Task, d.Milliseconds())
	})
}

const savingTakes = 20 * time.Second

// save ends a task of which the process took so long, once its files are kept.
func (r *idleRunner) save(t taskstate.TaskID, took int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timers[t] = time.AfterFunc(savingTakes, func() {
		r.over(t, taskstate.RunReport{
			Task: t, State: taskstate.Complete, Took: took,
			Saved: &taskstate.Saved{Root: piece.Root{1, byte(t.Slot)}, Bytes: 9, Files: 1, Keepers: []taskstate.PeerID{"p0"}, Keep: 1},
		})
	})
}

func (r *idleRunner) over(t taskstate.TaskID, rep taskstate.RunReport) {
	r.mu.Lock()
	timer, ok := r.timers[t]
	delete(r.timers, t)
	r.mu.Unlock()
	if ok {
		timer.Stop()
		r.report(rep)
	}
}

func (r *idleRunner) report(rep taskstate.RunReport) {
	r.mu.Lock()
	dead, sink := r.dead, r.sink
	r.mu.Unlock()
	if !dead {
		sink(rep)
	}
}

func (r *idleRunner) Stop(t taskstate.TaskID, why taskstate.Reason) {
	r.over(t, taskstate.RunReport{Task: t, State: taskstate.Shutdown, Exit: taskstate.NoExit, Reason: why})
}

func (r *idleRunner) Adopt(tasks []taskstate.Launch) []taskstate.Loss {
	if r.survive {
		return nil
	}
	var lost []taskstate.Loss
	for _, l := range tasks {
		if l.Ended != nil {
			r.save(l.Task, l.Ended.Took)
			continue
		}
		r.f.mu.Lock()
		never := r.f.ran[l.Task] == 0
		r.f.mu.Unlock()
		lost = append(lost, taskstate.Loss{Task: l.Task, Never: never && len(l.Job.Inputs) > 0})
	}
	return lost
}

func (r *idleRunner) Kept([]taskstate.TaskID) {}

// fullUp is a journal that takes nothing while it is full.
type fullUp struct {
	journal.Journal
	full atomic.Bool
}

func (d *fullUp) Save(t *journal.Txn) error {
	if d.full.Load() {
		return syscall.ENOSPC
	}
	return d.Journal.Save(t)
}

// die is what a power cut does to running tasks.
func (r *idleRunner) die() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dead = true
	for _, t := range r.timers {
		t.Stop()
	}
}

func inCluster(t *testing.T, n int, test func(*testing.T, *cluster), with ...func(*clusterPeer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newCluster(t, n, with...)
		test(t, f)
		f.close()
	})
}

// newCluster starts n peers, each as with says; the first one coordinates.
func newCluster(t testing.TB, n int, with ...func(*clusterPeer)) *cluster {
	f := &cluster{t: t, net: memnet.New(), ran: map[taskstate.TaskID]int{}}
	first := memledger.New("p0", time.Now)
	for i := range n {
		p := &clusterPeer{f: f, id: fmt.Sprintf("p%d", i), dir: t.TempDir()}
		p.ledger = first.Peer(p.id)
		first.Join(p.id, taskstate.Incarnation(p.id+"-1"))
		f.peers = append(f.peers, p)
	}
	for _, p := range f.peers {
		for _, w := range with {
			w(p)
		}
		p.disk = &fullUp{}
		p.start()
	}
	f.elect(f.peers[0])
	return f
}

func (f *cluster) close() {
	f.mu.Lock()
	f.boss = nil
	f.mu.Unlock()
	for _, p := range f.peers {
		p.end()
	}
	_ = f.net.Close()
}

func (p *clusterPeer) start() {
	f := p.f
	host := f.net.Host(p.id)
	p.coord = coordinator.NewLoop(coordinator.Config{
		Core: coordinator.CoreConfig{Self: p.id, StartWithin: p.within}, Ledger: farLedger{p.ledger},
		OpenEnvelope: func(_ string, env []byte) (b taskstate.Batch, err error) {
			err = wire.Unmarshal(env, &b)
			return b, err
		},
		Probe: func(ctx context.Context, peer taskstate.PeerID) error {
			c, err := host.Dial(ctx, peer, session.Protocol)
			if err == nil {
				_ = c.Close()
			}
			return err
		},
	})
	host.Handle(session.Protocol, p.coord.ServeSession)
	if !p.survive {
		p.runner = &idleRunner{f: f, timers: map[taskstate.TaskID]*time.Timer{}, jitter: rand.New(rand.NewPCG(1, uint64(len(p.id))))}
	}
	p.runner.survive = p.survive
	offer := session.Offer{Resources: taskstate.Resources{MilliCPU: 4000}}
	store := func(open journal.Opener) journal.Opener {
		return func(ctx context.Context, owner journal.Owner) (journal.Journal, *journal.Image, error) {
			if p.replay != nil {
				if err := p.replay(ctx); err != nil {
					return nil, nil, err
				}
			}
			j, img, err := open(ctx, owner)
			p.disk.Journal = j
			return p.disk, img, err
		}
	}
	var runner worker.Runner = p.runner
	if p.runs != nil {
		runner = p.runs
	}
	var err error
	p.worker, err = worker.NewLoop(worker.Config{
		Self: p.id, Incarnation: taskstate.Incarnation(p.id + "-1"), Dir: p.dir, Offer: offer, Net: host, Journal: store, Local: p.coord.ServeSession, Runner: runner,
		Coordinator: f.coordinator,
		Seal:        func(_ taskstate.Incarnation, _ uint64, body []byte) ([]byte, error) { return body, nil },
		Publish:     func(context.Context, []byte) error { return nil },
	})
	if err != nil {
		f.t.Fatal(err)
	}
	p.runner.mu.Lock()
	p.runner.sink = p.worker.Report
	p.runner.mu.Unlock()
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := p.worker.Run(ctx); err != nil && ctx.Err() == nil {
			f.t.Errorf("%s: %v", p.id, err)
		}
	}()
	p.stop = func() { cancel(); <-done }
}

func (f *cluster) coordinator() (taskstate.PeerID, taskstate.Epoch, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.boss == nil {
		return "", taskstate.Epoch{}, false
	}
	return f.boss.id, f.epoch, true
}

// elect makes p the coordinator, and tells everybody.
func (f *cluster) elect(p *clusterPeer) {
	if f.boss != nil && f.boss.resign != nil {
		f.boss.resign()
	}
	epoch := p.ledger.Lead()
	f.mu.Lock()
	f.boss, f.epoch = p, epoch
	f.mu.Unlock()
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.coord.Run(ctx, epoch)
	}()
	p.resign = func() { cancel(); <-done; p.resign = nil }
	for _, q := range f.peers {
		q.worker.News()
	}
}

// end ends a peer without a goodbye.
func (p *clusterPeer) end() {
	if p.stop == nil {
		return
	}
	p.runner.die()
	if p.resign != nil {
		p.resign()
	}
	p.stop()
	p.stop = nil
}

// kill ends a peer as a power cut would; everybody's gossip notices a second later.
func (p *clusterPeer) kill() {
	p.f.net.Kill(p.id)
	p.end()
	time.AfterFunc(time.Second, func() { p.verdict(verdict.Dead) })
}

func (p *clusterPeer) verdict(v verdict.Verdict) {
	for _, q := range p.f.peers {
		q.coord.Verdict(coordinator.PeerVerdict{Peer: p.id, Verdict: v, Since: time.Now()})
	}
}

// restart brings it back with its data folder.
func (p *clusterPeer) restart() {
	p.f.net.Revive(p.id)
	p.start()
	p.verdict(verdict.Alive)
}

func (f *cluster) submit(id string, count int, noop time.Duration, change ...func(*taskstate.Job)) {
	f.t.Helper()
	j := taskstate.Job{ID: taskstate.JobID(id), Type: taskstate.BatchJob, Count: count}
	j.Run.Noop = &taskstate.Noop{Duration: noop.Milliseconds()}
	for _, c := range change {
		c(&j)
	}
	if _, res, err := f.boss.ledger.Propose(f.t.Context(), []ledger.Command{{Submit: &ledger.Submit{Job: j}}}); err != nil || res[0].Refused != "" {
		f.t.Fatal(res, err)
	}
}

func oneCPU(j *taskstate.Job) { j.Resources.MilliCPU = 1000 }

func (f *cluster) counts(id string) (c ledger.Counts, over bool) {
	f.boss.ledger.Replica().Read(func(s *ledger.State) {
		j, ok := s.Job(taskstate.JobID(id))
		if ok {
			_, over = j.Ended()
			c = j.Counts()
		}
	})
	return c, over
}

// finish waits until a job has ended, and fails after limit of virtual time.
func (f *cluster) finish(id string, limit time.Duration) ledger.Counts {
	f.t.Helper()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		synctest.Wait()
		c, over := f.counts(id)
		if over {
			return c
		}
		if time.Since(began) > limit {
			why, err := f.boss.coord.Waiting(f.t.Context(), taskstate.JobID(id))
			f.t.Fatalf("job %s has not ended after %v: %+v, waiting %q %v, standings %v", id, limit, c, why, err, standings(f.boss.coord))
		}
	}
}

func TestAClusterRunsAThousandTasksOnce(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, f *cluster) {
		f.submit("noops", 10_000, 0)
		if c := f.finish("noops", 30*time.Second); c.Complete != 10_000 {
			t.Errorf("%+v", c)
		}
		f.submit("busy", 300, 50*time.Millisecond, oneCPU)
		if c := f.finish("busy", 30*time.Second); c.Complete != 300 {
			t.Errorf("%+v", c)
		}
		for task, n := range f.ran {
			if n != 1 {
				t.Errorf("%s started %d times", task, n)
			}
		}
	})
}

func TestAClusterGoesOnWithAnotherCoordinatorAndRunsNothingTwice(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, f *cluster) {
		f.submit("job", 200, 200*time.Millisecond, oneCPU)
		for i := range 6 {
			time.Sleep(500 * time.Millisecond)
			f.elect(f.peers[(i+1)%3])
		}
		if c := f.finish("job", time.Minute); c.Complete != 200 {
			t.Errorf("%+v", c)
		}
		starts := map[taskstate.TaskID]int{}
		for task, n := range f.ran {
			starts[taskstate.Task(task.Job, task.Slot, 0)] += n
		}
		for slot, n := range starts {
			if n != 1 {
				t.Errorf("slot %d started %d times, though nobody was ever lost", slot.Slot, n)
			}
		}
	})
}

func TestTasksOfAKilledPeerRunElsewhere(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, f *cluster) {
		f.submit("job", 60, time.Second, oneCPU)
		time.Sleep(1500 * time.Millisecond)
		f.peers[2].kill()
		if c := f.finish("job", time.Minute); c.Complete != 60 {
			t.Errorf("%+v", c)
		}
		f.peers[2].restart()
		time.Sleep(3 * time.Second)
		if s := standings(f.boss.coord)["p2"]; s != coordinator.Ready {
			t.Errorf("three seconds after its restart p2 is %s", s)
		}
		f.submit("next", 30, 0, oneCPU)
		f.finish("next", 5*time.Second)
	})
}

func TestTheCoordinatorAndAWorkerKilledTogetherLoseNothing(t *testing.T) {
	inCluster(t, 5, func(t *testing.T, f *cluster) {
		f.submit("job", 100, time.Second, oneCPU)
		time.Sleep(1500 * time.Millisecond)
		f.peers[0].kill()
		f.peers[1].kill()
		time.Sleep(time.Second)
		f.elect(f.peers[2])
		began := time.Now()
		if c := f.finish("job", time.Minute); c.Complete != 100 {
			t.Errorf("%+v", c)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestACancelledJobHasNoRunningTaskWithinABeatAlsoWhereTheCoordinatorChanges(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, f *cluster) {
		f.submit("long", 20, time.Hour, oneCPU)
		time.Sleep(time.Second)
		f.elect(f.peers[1])
		if _, _, err := f.boss.ledger.Propose(t.Context(), []ledger.Command{{Cancel: &ledger.Cancel{Job: "long"}}}); err != nil {
			t.Fatal(err)
		}
		if c := f.finish("long", 2*time.Second); c.Shutdown != 20 {
			t.Errorf("%+v", c)
		}
	})
}

func TestAPeerThatStopsGivesItsTasksBack(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, f *cluster) {
		f.submit("long", 9, 20*time.Second, oneCPU)
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := f.peers[2].worker.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
		f.peers[2].verdict(verdict.Dead)
		began := time.Now()
		if c := f.finish("long", time.Minute); c.Complete != 9 {
			t.Errorf("%+v", c)
		}
		if took := time.Since(began); took > 52*time.Second {
			t.Errorf("it took %v after the peer had stopped", took)
		}
	})
}

// runAll submits a job and returns when its last end is settled.
func (f *cluster) runAll(id string, count int, noop time.Duration, change ...func(*taskstate.Job)) {
	over := make(chan struct{})
	left := count
	cancel := f.boss.ledger.Replica().Observe(func(ev ledger.Event) {
		for _, c := range ev.Entry.Commands {
			if c.Settle != nil && c.Settle.Statuses[0].Task.Job == taskstate.JobID(id) {
				if left -= len(c.Settle.Statuses); left == 0 {
					close(over)
				}
			}
		}
	})
	defer cancel()
	f.submit(id, count, noop, change...)
	<-over
}

// standings is how a coordinator sees every member.
func standings(c *coordinator.Loop) map[taskstate.PeerID]coordinator.Standing {
	peers, _ := c.Peers(context.Background())
	out := map[taskstate.PeerID]coordinator.Standing{}
	for _, p := range peers {
		out[p.Peer] = p.Standing
	}
	return out
}

func (f *cluster) awaitReady() {
	for _, p := range f.peers {
		for standings(f.boss.coord)[p.id] != coordinator.Ready {
			time.Sleep(time.Millisecond)
		}
	}
}

// BenchmarkClusterNoops is no-op tasks through both loops, with three journals on this disk: what
// is left out is raft, signatures, gossip and the real network.
func BenchmarkClusterNoops(b *testing.B) {
	f := newCluster(b, 3)
	defer f.close()
	f.awaitReady()
	b.ReportAllocs()
	b.ResetTimer()
	f.runAll("noops", b.N, 0)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}

// BenchmarkClusterOneTask is one no-op task from its submission to its settled end.
func BenchmarkClusterOneTask(b *testing.B) {
	f := newCluster(b, 3)
	defer f.close()
	f.awaitReady()
	n := 0
	for b.Loop() {
		n++
		f.runAll(fmt.Sprint("one", n), 1, 0)
	}
}

// BenchmarkClusterShortTasks is a thousand tasks of two milliseconds, one cpu each, on three peers
// of four cpus: at best they take 188 ms. What is more is time in which a cpu waited for its next
// task.
func BenchmarkClusterShortTasks(b *testing.B) {
	f := newCluster(b, 3)
	defer f.close()
	f.awaitReady()
	n := 0
	for b.Loop() {
		n++
		f.runAll(fmt.Sprint("short", n), 1000, 2*time.Millisecond, oneCPU)
	}
}

// A coordinator's own worker stops before it does. Whatever was decided for it meanwhile is in the
// next one's hands, not left with a peer that is gone.
func TestACoordinatorThatStopsInOrderLeavesNothingAssignedToItself(t *testing.T) {
	for after := range 10 {
		inCluster(t, 3, func(t *testing.T, f *cluster) {
			f.awaitReady()
			f.submit("short", 400, time.Millisecond, oneCPU, func(j *taskstate.Job) { j.Unreachable.ReplaceAfter = time.Hour.Milliseconds() })
			time.Sleep(time.Duration(after) * 777 * time.Microsecond)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if err := f.peers[0].worker.Stop(ctx); err != nil {
				t.Error(err)
			}
			f.elect(f.peers[1])
			f.peers[0].verdict(verdict.Dead)
			if left := f.openOn("p0", "short"); len(left) > 0 {
				t.Errorf("after %d steps of time: still assigned to the peer that stopped: %v", after, left)
			}
			if c := f.finish("short", 20*time.Second); c.Complete != 400 {
				t.Errorf("%+v", c)
			}
		})
	}
}

// openOn lists what the ledger has assigned to a peer.
func (f *cluster) openOn(peer, job string) (open []string) {
	f.boss.ledger.Replica().Read(func(s *ledger.State) {
		j, _ := s.Job(taskstate.JobID(job))
		for o := range j.OpenSlots() {
			if string(o.Peer) == peer {
				open = append(open, fmt.Sprintf("%d.%d", o.Slot, o.Attempt))
			}
		}
	})
	return open
}

func TestNothingOfAPeerThatReadsItsJournalIsJudgedLost(t *testing.T) {
	inCluster(t, 3, func(t *testing.T, f *cluster) {
		f.submit("long", 12, 3*time.Minute, oneCPU, func(j *taskstate.Job) { j.Unreachable.ReplaceAfter = 0 })
		time.Sleep(2 * time.Second)
		p := f.peers[2]
		p.stop() // as when it is killed: its processes go on
		over := make(chan struct{})
		p.survive, p.replay = true, func(ctx context.Context) error {
			select {
			case <-over:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		p.start()
		time.Sleep(5 * time.Second)
		f.elect(f.peers[1])     // who has not heard from it how far its tasks are
		time.Sleep(time.Minute) // far longer than beats, grace, and the patience with peers in trouble
		synctest.Wait()
		if s := standings(f.boss.coord)["p2"]; s != coordinator.Ready {
			t.Errorf("after a minute of reading p2 is %s; it answers every beat", s)
		}
		f.submit("more", 6, time.Second)
		if c := f.finish("more", 5*time.Second); c.Complete != 6 {
			t.Errorf("others do not get what it cannot take: %+v", c)
		}
		close(over)
		if c := f.finish("long", 4*time.Minute); c.Complete != 12 {
			t.Errorf("%+v", c)
		}
		starts := map[int]int{}
		for task, n := range f.ran {
			if task.Job == "long" {
				starts[task.Slot] += n
			}
		}
		for slot, n := range starts {
			if n != 1 {
				t.Errorf("slot %d started %d times: nothing was lost", slot, n)
			}
		}
	})
}

// startsOf counts how often each slot of a job was started, in whatever attempt.
func (f *cluster) startsOf(job string) map[int]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	starts := map[int]int{}
	for task, n := range f.ran {
		if task.Job == taskstate.JobID(job) {
			starts[task.Slot] += n
		}
	}
	return starts
}

// on counts a job's open tasks on a peer.
func (f *cluster) on(job, peer string) (n int) {
	f.boss.ledger.Replica().Read(func(s *ledger.State) {
		if j, ok := s.Job(taskstate.JobID(job)); ok {
			for o := range j.OpenSlots() {
				if o.Peer == peer {
					n++
				}
			}
		}
	})
	return n
}

// takes says whether a peer is given tasks.
func (f *cluster) takes(peer string, takes bool) {
	f.t.Helper()
	a := ledger.AvailActive
	if !takes {
		a = ledger.AvailPause
	}
	if _, res, err := f.boss.ledger.Propose(f.t.Context(), []ledger.Command{{Avail: &ledger.SetAvailability{Peer: peer, Availability: a}}}); err != nil || res[0].Refused != "" {
		f.t.Fatal(res, err)
	}
}

// A peer whose disk takes nothing any more has eight tasks, of which four run. The others go where
// there is room, in bounded time, and none is started twice, whether the job allows that or not,
// and the coordinator.
func TestWhatAPeerWithAFullDiskHasNotBegunGoesElsewhere(t *testing.T) {
	long.Test(t)
	for name, change := range map[string]func(*taskstate.Job){
		"may run twice":      func(*taskstate.Job) {},
		"must not run twice": func(j *taskstate.Job) { j.Unreachable.Wait = true },
	} {
		for _, elect := range []bool{false, true} {
			if elect && name == "must not run twice" {
				continue // waits for the disk: it cannot know about the new epoch
			}
			t.Run(name, func(t *testing.T) {
				inCluster(t, 3, func(t *testing.T, f *cluster) {
					f.takes("p0", false)
					f.takes("p2", false)
					f.submit("long", 8, time.Hour, oneCPU, change)
					time.Sleep(2 * time.Second)
					if n := f.on("long", "p1"); n != 8 {
						t.Fatalf("p1 has %d of 8 tasks", n)
					}
					f.peers[1].disk.full.Store(true)
					f.takes("p0", true)
					if elect {
						f.elect(f.peers[2])
					}
					time.Sleep(time.Minute)
					synctest.Wait()
					if p0, p1 := f.on("long", "p0"), f.on("long", "p1"); p0 != 4 || p1 != 4 {
						t.Errorf("a minute later p0 has %d and p1 has %d of the 8 tasks; want 4 each", p0, p1)
					}
					f.peers[1].disk.full.Store(false)
					if c := f.finish("long", 3*time.Hour); c.Complete != 8 {
						t.Errorf("%+v", c)
					}
					for slot, n := range f.startsOf("long") {
						if n != 1 {
							t.Errorf("slot %d was started %d times", slot, n)
						}
					}
				})
			})
		}
	}
}
