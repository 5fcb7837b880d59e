package worker

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/dispatch/worker/journal"
	"github.com/coveyproject/covey/p2p/memnet"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// scriptedCoordinator answers sessions as a test tells it to.
type scriptedCoordinator struct {
	name   string
	term   uint64
	grants func(nth int) []session.Grant // of the Complete set
	refuse func(nth int) *session.Refuse // nil: welcome
	held   func(nth int, n uint64) bool  // answer to beat n; nil: yes
	mute   func(nth int) bool            // say nothing at all

	mu      sync.Mutex
	hellos  []session.Hello
	at      []time.Time // of hellos
	beats   []time.Time
	loads   []session.Load // that came with beats
	offers  []session.Offer
	reports int // that were complete
	ends    map[taskstate.TaskID]taskstate.Status
	last    uint64 // newest batch heard
	conn    net.Conn
	out     *wire.Writer
	set     uint64
	open    int // sessions being served
}

func (c *scriptedCoordinator) serve(_ string, conn net.Conn) {
	defer conn.Close()
	r, w := wire.NewReader(conn, 0), wire.NewWriter(conn, 0)
	var up session.Up
	if r.Read(&up) != nil || up.Hello == nil {
		return
	}
	c.mu.Lock()
	c.hellos, c.at = append(c.hellos, *up.Hello), append(c.at, time.Now())
	n := len(c.hellos)
	c.conn, c.out, c.set = conn, w, 0
	c.open++
	if c.ends == nil {
		c.ends = map[taskstate.TaskID]taskstate.Status{}
	}
	c.mu.Unlock()
	defer func() { c.mu.Lock(); c.open--; c.mu.Unlock() }()
	if c.refuse != nil {
		if no := c.refuse(n); no != nil {
			_ = w.Send(session.Down{Refuse: no})
			return
		}
	}
	if c.mute == nil || !c.mute(n) {
		c.say(welcomeIn(c.term))
	}
	for {
		up = session.Up{}
		if r.Read(&up) != nil {
			return
		}
		if c.mute == nil || !c.mute(n) {
			c.hear(n, up)
		}
	}
}

func (c *scriptedCoordinator) hear(nth int, up session.Up) {
	switch {
	case up.Report != nil && up.Report.Done:
		c.mu.Lock()
		c.reports++
		c.mu.Unlock()
		var gs []session.Grant
		if c.grants != nil {
			gs = c.grants(nth)
		}
		c.assign(true, gs...)
	case up.Beat != nil:
		c.mu.Lock()
		c.beats = append(c.beats, time.Now())
		if up.Beat.Load != nil {
			c.loads = append(c.loads, *up.Beat.Load)
		}
		c.mu.Unlock()
		c.say(session.Down{Beat: &session.BeatAnswer{N: up.Beat.N, Held: c.held == nil || c.held(nth, up.Beat.N)}})
	case up.Offer != nil:
		c.mu.Lock()
		c.offers = append(c.offers, *up.Offer)
		c.mu.Unlock()
	case up.Batch != nil:
		b, err := taskstate.DecodeBatch(up.Batch)
		if err != nil {
			panic(err)
		}
		c.mu.Lock()
		for _, s := range b.Statuses {
			if s.State.Final() {
				c.ends[s.Task] = s
			}
		}
		c.last = max(c.last, b.Number)
		c.mu.Unlock()
		c.say(session.Down{Ack: &session.Ack{Batch: b.Number}})
	}
}

func (c *scriptedCoordinator) say(d session.Down) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.conn.SetWriteDeadline(time.Now().Add(5 * time.Second))
	_ = c.out.Send(d)
}

// assign sends the next set of the open session.
func (c *scriptedCoordinator) assign(complete bool, grants ...session.Grant) {
	c.mu.Lock()
	from := c.set
	c.set++
	to := c.set
	c.mu.Unlock()
	c.say(setOf(complete, c.term, from, to, grants...))
}

func (c *scriptedCoordinator) ended() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.ends)
}

// handRunner ends no-ops at once and everything else when it is told to stop.
type handRunner struct {
	sink   func(taskstate.RunReport)
	mu     sync.Mutex
	starts []taskstate.TaskID

	stopped []taskstate.TaskID
	hang    chan struct{} // not nil: Stop does not return before it is closed
}

func (r *handRunner) Start(l taskstate.Launch) {
	if l.Job.ID == jobNoop {
		r.sink(taskstate.RunReport{Task: l.Task, State: taskstate.Complete})
		return
	}
	r.mu.Lock()
	r.starts = append(r.starts, l.Task)
	r.mu.Unlock()
	r.sink(taskstate.RunReport{Task: l.Task, State: taskstate.Running, Exit: taskstate.NoExit})
}

func (r *handRunner) Stop(id taskstate.TaskID, why taskstate.Reason) {
	r.mu.Lock()
	r.stopped = append(r.stopped, id)
	hang := r.hang
	r.mu.Unlock()
	if hang != nil {
		<-hang
	}
	r.sink(taskstate.RunReport{Task: id, State: taskstate.Shutdown, Reason: why, Exit: taskstate.NoExit})
}

func (r *handRunner) Adopt(tasks []taskstate.Launch) []taskstate.Loss { return allLost(tasks) }

func (r *handRunner) Kept([]taskstate.TaskID) {}

func allLost(tasks []taskstate.Launch) (lost []taskstate.Loss) {
	for _, l := range tasks {
		lost = append(lost, taskstate.Loss{Task: l.Task})
	}
	return lost
}

// shellRig is a worker with a network of scripted coordinators.
type shellRig struct {
	load   atomic.Pointer[session.Load]
	t      *testing.T
	net    *memnet.Network
	coords map[string]*scriptedCoordinator
	w      *Loop
	runner *handRunner
	ctx    context.Context
	ended  chan error

	mu   sync.Mutex
	whom target
}

// workerBubble runs a test in virtual time with a worker that is directed to the first coordinator.
func workerBubble(t *testing.T, test func(r *shellRig), coords ...*scriptedCoordinator) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := newShellRig(t, dir, nil, coords...)
		test(r)
		r.close()
	})
}

func openTestJournal(t *testing.T, dir string) (*journal.File, *journal.Image) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, journal.FileName)); err != nil {
		if err := journal.Create(dir, testHead()); err != nil {
			t.Fatal(err)
		}
	}
	j, img, err := journal.Open(t.Context(), dir, testOwner(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return j, img
}

func newShellRig(t *testing.T, dir string, store func(journal.Journal) journal.Journal, coords ...*scriptedCoordinator) *shellRig {
	t.Helper()
	j, img := openTestJournal(t, dir)
	var disk journal.Journal = j
	if store != nil {
		disk = store(j)
	}
	return rigOn(t, dir, img.Head, func(context.Context, journal.Owner) (journal.Journal, *journal.Image, error) { return disk, img, nil }, coords)
}

// slowShellRig is one whose journal is read when replay returns.
func slowShellRig(t *testing.T, dir string, replay func(context.Context) error, coords ...*scriptedCoordinator) *shellRig {
	t.Helper()
	head, err := journal.Peek(dir, benchPeer)
	if err != nil {
		if err := journal.Create(dir, testHead()); err != nil {
			t.Fatal(err)
		}
		head = testHead()
	}
	return rigOn(t, dir, head, func(ctx context.Context, owner journal.Owner) (journal.Journal, *journal.Image, error) {
		if err := replay(ctx); err != nil {
			return nil, nil, err
		}
		return journal.Open(ctx, dir, owner, 0)
	}, coords)
}

func rigOn(t *testing.T, dir string, head journal.Head, open journal.Opener, coords []*scriptedCoordinator) *shellRig {
	t.Helper()
	r := &shellRig{t: t, net: memnet.New(), coords: map[string]*scriptedCoordinator{}, runner: &handRunner{}, ended: make(chan error, 1)}
	for _, c := range coords {
		if c.term == 0 {
			c.term = 1
		}
		r.coords[c.name] = c
		r.net.Host(c.name).Handle(session.Protocol, c.serve)
	}
	r.whom = target{peer: coords[0].name, epoch: taskstate.At(1, coords[0].term)}
	r.w = newLoopOn(Config{
		Self: benchPeer, Incarnation: benchLife, Dir: dir, Offer: testOffer(), Net: r.net.Host(benchPeer), Runner: r.runner,
		Local: func(p string, c net.Conn) { r.coords[benchPeer].serve(p, c) },
		Coordinator: func() (taskstate.PeerID, taskstate.Epoch, bool) {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.whom.peer, r.whom.epoch, r.whom.peer != ""
		},
		Load:    r.load.Load,
		Seal:    func(_ taskstate.Incarnation, _ uint64, body []byte) ([]byte, error) { return body, nil },
		Publish: func(context.Context, []byte) error { return nil },
	}, head, open)
	r.runner.sink = r.w.Report
	ctx, cancel := context.WithCancel(context.Background())
	r.ctx = ctx
	t.Cleanup(cancel)
	go func() { r.ended <- r.w.Run(ctx) }()
	synctest.Wait()
	return r
}

func (r *shellRig) close() {
	r.t.Helper()
	r.pass(0)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := r.w.Stop(ctx); err != nil {
		r.t.Fatal(err)
	}
	if err := <-r.ended; err != nil {
		r.t.Fatal(err)
	}
	if err := r.net.Close(); err != nil {
		r.t.Fatal(err)
	}
}

// direct changes whom the worker believes to coordinate, and tells it.
func (r *shellRig) direct(peer string, term uint64) {
	r.mu.Lock()
	r.whom = target{peer: peer, epoch: taskstate.At(1, term)}
	r.mu.Unlock()
	r.w.News()
	r.pass(0)
}

// pass lets virtual time go by. What a test has read until now happened before what the
// coordinators write then.
func (r *shellRig) pass(d time.Duration) {
	for _, c := range r.coords {
		c.ended() // takes their lock
	}
	time.Sleep(d)
	synctest.Wait()
}

func TestTasksComeDownASessionAndTheirEndsGoUp(t *testing.T) {
	robin := &scriptedCoordinator{name: "robin", grants: func(int) []session.Grant { return []session.Grant{grantOf(jobNoop, 1, 5000)} }}
	workerBubble(t, func(r *shellRig) {
		for range 20 {
			robin.assign(false, grantOf(jobNoop, 5001+1000*int(robin.set), 1000))
		}
		r.pass(time.Second)
		if robin.ended() != 25_000 {
			t.Fatalf("%d tasks ended", robin.ended())
		}
	}, robin)
}

func TestAPeerKeepsASessionWithItself(t *testing.T) {
	self := &scriptedCoordinator{name: benchPeer, grants: func(int) []session.Grant { return []session.Grant{grantOf(jobNoop, 1, 10)} }}
	workerBubble(t, func(r *shellRig) {
		r.pass(10 * time.Second)
		if self.ended() != 10 || len(self.hellos) != 1 {
			t.Fatalf("%d tasks ended in %d sessions", self.ended(), len(self.hellos))
		}
	}, self)
}

func TestBeatsComeAboutEverySecondTheFirstAtOnce(t *testing.T) {
	robin := &scriptedCoordinator{name: "robin"}
	workerBubble(t, func(r *shellRig) {
		if len(robin.beats) != 1 || robin.beats[0] != robin.at[0] {
			t.Fatalf("beats %v, hello %v", robin.beats, robin.at)
		}
		r.pass(10 * time.Second)
		for i := range robin.beats[1:] {
			if d := robin.beats[i+1].Sub(robin.beats[i]); d < 900*time.Millisecond || d > 1100*time.Millisecond {
				t.Fatalf("beat %d after %v", i, d)
			}
		}
		if n := len(robin.beats); n < 9 || n > 12 {
			t.Fatalf("%d beats", n)
		}
	}, robin)
}

func TestASessionThatIsNotHeldIsRenewedAtOnce(t *testing.T) {
	robin := &scriptedCoordinator{name: "robin", held: func(nth int, n uint64) bool { return nth != 1 || n < 3 }}
	workerBubble(t, func(r *shellRig) {
		r.pass(2500 * time.Millisecond)
		if len(robin.hellos) != 2 || robin.hellos[1].Session != "s1" || robin.at[1].Sub(robin.beats[2]) != 0 {
			t.Fatalf("hellos at %v, beats at %v", robin.at, robin.beats)
		}
	}, robin)
}

func TestACoordinatorThatDoesNotWelcomeIsLeftAfterFiveSeconds(t *testing.T) {
	robin := &scriptedCoordinator{name: "robin", mute: func(nth int) bool { return nth == 1 }}
	workerBubble(t, func(r *shellRig) {
		r.pass(5200 * time.Millisecond)
		if len(robin.hellos) != 2 || robin.at[1].Sub(robin.at[0]) < welcomeLimit {
			t.Fatalf("hellos at %v", robin.at)
		}
	}, robin)
}

func TestASilentCoordinatorIsLeftAfterTheGrace(t *testing.T) {
	robin := &scriptedCoordinator{name: "robin"}
	workerBubble(t, func(r *shellRig) {
		r.net.Cut("robin", benchPeer)
		r.pass(5 * time.Second)
		r.net.Heal()
		r.pass(20 * time.Second)
		if len(robin.hellos) != 2 {
			t.Fatalf("hellos at %v", robin.at)
		}
	}, robin)
}

func TestARefusalNamesWhomToAskInstead(t *testing.T) {
	robin := &scriptedCoordinator{name: "robin", refuse: func(int) *session.Refuse {
		return &session.Refuse{Code: session.RefuseNotCoordinator, Coordinator: "finch"}
	}}
	finch := &scriptedCoordinator{name: "finch", term: 2}
	workerBubble(t, func(r *shellRig) {
		if len(robin.hellos) != 1 || len(finch.hellos) != 1 {
			t.Fatalf("robin was asked %d times, finch %d times", len(robin.hellos), len(finch.hellos))
		}
	}, robin, finch)
}

func TestTwoPeersThatPointAtEachOtherAreNotAskedInCircles(t *testing.T) {
	point := func(to string) func(int) *session.Refuse {
		return func(int) *session.Refuse { return &session.Refuse{Code: session.RefuseNotCoordinator, Coordinator: to} }
	}
	robin := &scriptedCoordinator{name: "robin", refuse: point("finch")}
	finch := &scriptedCoordinator{name: "finch", refuse: point("robin")}
	workerBubble(t, func(r *shellRig) {
		r.pass(60 * time.Second)
		if n := len(robin.hellos) + len(finch.hellos); n > 100 {
			t.Fatalf("asked %d times in a minute", n)
		}
	}, robin, finch)
}

func TestRetryAfterIsRespected(t *testing.T) {
	robin := &scriptedCoordinator{name: "robin", refuse: func(nth int) *session.Refuse {
		if nth == 1 {
			return &session.Refuse{Code: session.RefuseTooMany, RetryAfter: 7000}
		}
		return nil
	}}
	workerBubble(t, func(r *shellRig) {
		r.pass(8 * time.Second)
		if len(robin.at) != 2 || robin.at[1].Sub(robin.at[0]) < 7*time.Second {
			t.Fatalf("hellos at %v", robin.at)
		}
	}, robin)
}

func TestTheBackoffGrowsToEightSecondsAndIsCutShortByNews(t *testing.T) {
	var bounds []time.Duration
	for b := time.Duration(0); len(bounds) < 9; {
		b = nextBound(b)
		bounds = append(bounds, b)
	}
	want := []time.Duration{100, 300, 700, 1500, 3100, 6300, 8000, 8000, 8000}
	for i := range want {
		want[i] *= time.Millisecond
	}
	if !slices.Equal(bounds, want) {
		t.Fatalf("bounds %v, want %v", bounds, want)
	}
	robin, finch := &scriptedCoordinator{name: "robin"}, &scriptedCoordinator{name: "finch", term: 2}
	workerBubble(t, func(r *shellRig) {
		r.net.Kill("robin")
		r.pass(time.Minute)
		r.net.Revive("robin")
		r.w.Connected("wagtail") // somebody else
		r.w.News()               // nothing new
		r.pass(0)
		if len(robin.hellos) != 1 {
			t.Fatal("the backoff was cut short by nothing")
		}
		r.w.Connected("robin")
		r.pass(0)
		if len(robin.hellos) != 2 {
			t.Fatal("a connection to the coordinator did not cut the backoff short")
		}
		r.net.Kill("robin")
		r.pass(time.Minute)
		r.direct("finch", 2)
		if len(finch.hellos) != 1 {
			t.Fatal("news of another coordinator did not cut the backoff short")
		}
	}, robin, finch)
}

func TestNewsOfANewerCoordinatorEndsTheSession(t *testing.T) {
	robin, finch := &scriptedCoordinator{name: "robin", term: 3}, &scriptedCoordinator{name: "finch", term: 4}
	workerBubble(t, func(r *shellRig) {
		r.direct("finch", 2) // old news
		if len(finch.hellos) != 0 {
			t.Fatal("old news ended a session")
		}
		r.direct("finch", 4)
		if len(finch.hellos) != 1 || robin.open != 0 || finch.hellos[0].Fence != taskstate.At(1, 3) {
			t.Fatalf("finch heard %+v, robin serves %d", finch.hellos, robin.open)
		}
	}, robin, finch)
}

func TestAStopInterruptsWhatRunsAndWaitsUntilThatIsKnown(t *testing.T) {
	robin := &scriptedCoordinator{name: "robin", grants: func(int) []session.Grant { return []session.Grant{grantOf(jobWork, 1, 3)} }}
	workerBubble(t, func(r *shellRig) {
		r.close()
		for slot := 1; slot <= 3; slot++ {
			if s := robin.ends[wtask(jobWork, slot)]; s.Reason != taskstate.ReasonInterrupted {
				t.Errorf("slot %d: %+v", slot, s)
			}
		}
		r.ended <- nil
	}, robin)
}

func TestAStopDoesNotWaitForARunnerThatDoesNotReturn(t *testing.T) {
	robin := &scriptedCoordinator{name: "robin", grants: func(int) []session.Grant { return []session.Grant{grantOf(jobWork, 1, 1)} }}
	workerBubble(t, func(r *shellRig) {
		hung := make(chan struct{})
		r.runner.mu.Lock()
		r.runner.hang = hung
		r.runner.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		begin := time.Now()
		if err := r.w.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it stopped with %v", err)
		}
		if d := time.Since(begin); d != time.Second+lastWait {
			t.Errorf("it stopped after %v", d)
		}
		close(hung)
		if err := <-r.ended; err != nil {
			t.Error(err)
		}
		r.ended <- nil
	}, robin)
}

func TestAStopDoesNotWaitForACoordinatorThatIsNotThere(t *testing.T) {
	robin := &scriptedCoordinator{name: "robin", grants: func(int) []session.Grant { return []session.Grant{grantOf(jobWork, 1, 3)} }}
	workerBubble(t, func(r *shellRig) {
		r.net.Kill("robin")
		begin := time.Now()
		r.close()
		if d := time.Since(begin); d > ackWait {
			t.Errorf("waited %v", d)
		}
		r.ended <- nil
	}, robin)
}

// fullDisk is a journal whose disk is full while told so.
type fullDisk struct {
	journal.Journal
	mu   sync.Mutex
	full bool
}

func (f *fullDisk) Save(t *journal.Txn) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.full {
		return errors.New("no space left on device")
	}
	return f.Journal.Save(t)
}

func (f *fullDisk) set(full bool) { f.mu.Lock(); f.full = full; f.mu.Unlock() }

func TestAWorkerWithAFullDiskTakesNothingOnAndLosesNothing(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		robin := &scriptedCoordinator{name: "robin", grants: func(int) []session.Grant { return []session.Grant{grantOf(jobWork, 1, 1)} }}
		disk := &fullDisk{}
		r := newShellRig(t, dir, func(j journal.Journal) journal.Journal { disk.Journal = j; return disk }, robin)
		disk.set(true)
		robin.assign(false, grantOf(jobWork, 2, 1), grantOf(jobNoop, 1, 10))
		r.runner.sink(taskstate.RunReport{Task: wtask(jobWork, 1), State: taskstate.Complete})
		r.pass(10 * time.Second)
		if len(r.runner.starts) != 1 || robin.ended() != 0 || r.w.Health() == nil {
			t.Errorf("started %v, ended %d, health %v", r.runner.starts, robin.ended(), r.w.Health())
		}
		if n := len(robin.offers); n != 1 || robin.offers[0].Resources != (taskstate.Resources{}) {
			t.Errorf("offers %+v", robin.offers)
		}
		disk.set(false)
		r.pass(10 * time.Second)
		if robin.ended() != 11 || len(r.runner.starts) != 2 || r.w.Health() != nil || len(robin.offers) != 2 {
			t.Errorf("ended %d, started %v, health %v, offers %+v", robin.ended(), r.runner.starts, r.w.Health(), robin.offers)
		}
		r.close()
	})
}

// stuckDisk is a journal whose writes wait while told so.
type stuckDisk struct {
	journal.Journal
	mu   sync.Mutex
	hold chan struct{}
}

func (d *stuckDisk) Save(t *journal.Txn) error {
	d.mu.Lock()
	hold := d.hold
	d.mu.Unlock()
	if hold != nil {
		<-hold
	}
	return d.Journal.Save(t)
}

func (d *stuckDisk) hang() (thaw func()) {
	hold := make(chan struct{})
	d.mu.Lock()
	d.hold = hold
	d.mu.Unlock()
	return func() {
		d.mu.Lock()
		d.hold = nil
		d.mu.Unlock()
		close(hold)
	}
}

func TestAWorkerWhoseDiskIsStuckSaysSoKeepsItsSessionAndGoesOnAfterwards(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		robin := &scriptedCoordinator{name: "robin", grants: func(int) []session.Grant { return []session.Grant{grantOf(jobWork, 1, 1)} }}
		disk := &stuckDisk{}
		r := newShellRig(t, dir, func(j journal.Journal) journal.Journal { disk.Journal = j; return disk }, robin)
		thaw := disk.hang()
		robin.assign(false, grantOf(jobWork, 2, 1))
		r.runner.sink(taskstate.RunReport{Task: wtask(jobWork, 1), State: taskstate.Complete})
		r.pass(time.Minute)
		if len(robin.hellos) != 1 || len(robin.beats) < 50 {
			t.Errorf("%d sessions, %d beats in a minute: a stuck disk must not end the session", len(robin.hellos), len(robin.beats))
		}
		if n := len(robin.offers); n != 1 || robin.offers[0].Resources != (taskstate.Resources{}) || !strings.Contains(robin.offers[0].Trouble, "stuck") {
			t.Errorf("offers %+v; want one of nothing that names the trouble", robin.offers)
		}
		if len(r.runner.starts) != 1 || robin.ended() != 0 {
			t.Errorf("started %v, ended %d: nothing may be taken on or said that is not on disk", r.runner.starts, robin.ended())
		}
		thaw()
		r.pass(10 * time.Second)
		if n := len(robin.offers); n != 2 || robin.offers[1].Trouble != "" || r.w.Health() != nil || robin.ended() != 1 || len(r.runner.starts) != 2 {
			t.Errorf("afterwards: offers %+v, health %v, ended %d, started %v", robin.offers, r.w.Health(), robin.ended(), r.runner.starts)
		}
		r.runner.sink(taskstate.RunReport{Task: wtask(jobWork, 2), State: taskstate.Complete})
		r.close()
	})
}

func TestAWorkerWhoseDiskIsStuckEndsAllTheSame(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		robin := &scriptedCoordinator{name: "robin", grants: func(int) []session.Grant { return []session.Grant{grantOf(jobWork, 1, 1)} }}
		disk := &stuckDisk{}
		r := newShellRig(t, dir, func(j journal.Journal) journal.Journal { disk.Journal = j; return disk }, robin)
		thaw := disk.hang()
		r.runner.sink(taskstate.RunReport{Task: wtask(jobWork, 1), State: taskstate.Complete})
		r.pass(time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if r.w.Stop(ctx) == nil {
			t.Error("it stopped as if all had been said")
		}
		if err := <-r.ended; err == nil || !strings.Contains(err.Error(), "stuck") {
			t.Errorf("it ended with %v; want to be told that the disk is stuck", err)
		}
		thaw()
		r.pass(time.Second)
		if err := disk.Close(); err != nil {
			t.Error(err)
		}
		if err := r.net.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
