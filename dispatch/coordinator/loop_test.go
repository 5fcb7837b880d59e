package coordinator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/membership/verdict"
	"github.com/coveyproject/covey/p2p/memnet"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/testnet/sim/memledger"
)

// bed is a Loop on an in-memory network and ledger, in a bubble.
type bed struct {
	t      *testing.T
	net    *memnet.Network
	memory *memledger.Ledger
	coord  *Loop
	probes atomic.Int64
	lead   func() (stop func())
}

func inBubble(t *testing.T, change func(*Config), f func(*testing.T, *bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bed{t: t, net: memnet.New()}
		b.memory = memledger.New("boss", time.Now)
		cfg := Config{
			Core: CoreConfig{Self: "boss"}, Ledger: b.memory,
			OpenEnvelope: func(_ string, envelope []byte) (batch taskstate.Batch, err error) {
				err = wire.Unmarshal(envelope, &batch)
				return batch, err
			},
			Probe: func(context.Context, taskstate.PeerID) error {
				b.probes.Add(1)
				return errors.New("no answer")
			},
		}
		if change != nil {
			change(&cfg)
		}
		b.coord = NewLoop(cfg)
		b.net.Host("boss").Handle(session.Protocol, b.coord.ServeSession)
		b.lead = func() func() {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			_, epoch, _ := b.memory.Coordinator()
			go func() {
				defer close(done)
				b.coord.Run(ctx, epoch)
			}()
			synctest.Wait()
			return func() { cancel(); <-done }
		}
		f(t, b)
		_ = b.net.Close()
	})
}

// fakeWorker is a worker's end of a stream, driven by hand.
type fakeWorker struct {
	t     *testing.T
	id    string
	conn  net.Conn
	w     *wire.Writer
	r     *wire.Reader
	batch uint64
}

// dial opens a stream without a word.
func (b *bed) dial(id string) *fakeWorker {
	b.t.Helper()
	conn, err := b.net.Host(id).Dial(b.t.Context(), "boss", session.Protocol)
	if err != nil {
		b.t.Fatal(err)
	}
	return &fakeWorker{t: b.t, id: id, conn: conn, w: wire.NewWriter(conn, 0), r: wire.NewReader(conn, 0)}
}

// hello opens a session of a worker with two cpus and nothing to report.
func (b *bed) hello(id string) *fakeWorker {
	f := b.dial(id)
	h := session.Hello{Incarnation: taskstate.Incarnation(id + "-1")}
	h.Offer.Resources.MilliCPU = 2000
	f.send(session.Up{Hello: &h})
	_ = f.w.Send(session.Up{Report: &session.Report{Done: true}}) // who is turned away may find the stream closed already, with the answer still to be read
	return f
}

func (f *fakeWorker) send(u session.Up) {
	f.t.Helper()
	if err := f.w.Send(u); err != nil {
		f.t.Fatal(err)
	}
}

// next reads the next frame; nil when the stream is over.
func (f *fakeWorker) next() *session.Down {
	_ = f.conn.SetReadDeadline(time.Now().Add(time.Minute))
	var d session.Down
	if err := f.r.Read(&d); err != nil {
		return nil
	}
	return &d
}

// until reads on to a frame that pick likes.
func (f *fakeWorker) until(pick func(*session.Down) bool) *session.Down {
	f.t.Helper()
	for {
		d := f.next()
		if d == nil {
			f.t.Fatal("the stream ended before what was waited for")
		}
		if pick(d) {
			return d
		}
	}
}

func granted(d *session.Down) bool { return d.Assignments != nil && len(d.Assignments.Grants) > 0 }

// end says that every task of a frame is complete.
func (f *fakeWorker) end(a *session.Assignments) {
	b := taskstate.Batch{Author: f.id, Incarnation: taskstate.Incarnation(f.id + "-1")}
	for _, g := range a.Grants {
		for _, run := range g.Slots {
			for n := range run.All() {
				b.Statuses = append(b.Statuses, taskstate.Status{Task: taskstate.Task(g.Job, n, run.Attempt), Seq: 1, State: taskstate.Complete, Index: g.Index})
			}
		}
	}
	f.batch++
	b.Number = f.batch
	env, err := wire.Marshal(b)
	if err != nil {
		f.t.Fatal(err)
	}
	f.send(session.Up{Batch: env})
}

func (b *bed) submit(id string, count int, change ...func(*taskstate.Job)) {
	b.t.Helper()
	j := taskstate.Job{ID: taskstate.JobID(id), Type: taskstate.BatchJob, Count: count}
	j.Run.Noop = &taskstate.Noop{}
	for _, f := range change {
		f(&j)
	}
	if _, res, err := b.memory.Propose(b.t.Context(), []ledger.Command{{Submit: &ledger.Submit{Job: j}}}); err != nil || res[0].Refused != "" {
		b.t.Fatal(res, err)
	}
}

func (b *bed) state(id string) (st taskstate.State) {
	b.memory.Replica().Read(func(s *ledger.State) {
		if j, ok := s.Job(taskstate.JobID(id)); ok {
			st = j.State()
		}
	})
	return st
}

func TestASessionCarriesAJobFromSubmissionToAcknowledgementWithoutATick(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bed) {
		b.memory.Join("w", "w-1")
		defer b.lead()()
		began := time.Now()
		w := b.hello("w")
		if d := w.next(); d == nil || d.Welcome == nil || d.Welcome.Beat != 1000 || d.Welcome.Grace != 3000 {
			t.Fatalf("first frame %+v", d)
		}
		b.submit("job", 5000)
		for done := 0; done < 5000; {
			d := w.until(granted)
			w.end(d.Assignments)
			for _, g := range d.Assignments.Grants {
				for _, run := range g.Slots {
					done += run.N
				}
			}
		}
		w.until(func(d *session.Down) bool { return d.Ack != nil && d.Ack.Batch == w.batch })
		if b.state("job") != taskstate.Complete {
			t.Errorf("job is %s", b.state("job"))
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v of virtual time: something waited", took)
		}
	})
}

func TestAPeerThatDoesNotCoordinateTurnsWorkersAwayWithAHint(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bed) {
		b.memory.Peer("other").Lead()
		w := b.hello("w")
		if d := w.next(); d == nil || d.Refuse == nil || d.Refuse.Code != session.RefuseNotCoordinator || d.Refuse.Coordinator != "other" {
			t.Errorf("answer %+v", d)
		}
		if d := w.next(); d != nil {
			t.Errorf("then %+v", d)
		}
	})
}

func TestAStreamWithoutHelloIsClosedAfterFiveSeconds(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bed) {
		defer b.lead()()
		w, began := b.dial("w"), time.Now()
		if d := w.next(); d != nil {
			t.Errorf("answer %+v", d)
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("closed after %v", took)
		}
		w = b.dial("w")
		w.send(session.Up{Beat: &session.Beat{N: 1}})
		if d := w.next(); d != nil {
			t.Errorf("a stream that begins with Beat was answered %+v", d)
		}
	})
}

func TestTheEndOfAnEpochEndsItsSessionsAndTheNextServesAgain(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bed) {
		b.memory.Join("w", "w-1")
		stop := b.lead()
		w := b.hello("w")
		b.submit("job", 1)
		w.until(granted)
		stop()
		if d := w.next(); d != nil {
			t.Errorf("after the epoch: %+v", d)
		}
		if standings(b.coord) != nil {
			t.Error("standings without coordinating")
		}
		if _, err := b.coord.Waiting(t.Context(), "job"); !errors.Is(err, ErrNotLeading) {
			t.Errorf("waiting: %v", err)
		}
		b.memory.Lead()
		defer b.lead()()
		w = b.hello("w")
		d := w.until(granted)
		if !d.Assignments.Complete || d.Assignments.Epoch.Term != 2 {
			t.Errorf("the new coordinator's set: %+v", d.Assignments)
		}
		w.end(d.Assignments)
		w.until(func(d *session.Down) bool { return d.Ack != nil })
		if b.state("job") != taskstate.Complete {
			t.Errorf("job is %s", b.state("job"))
		}
	})
}

func TestASilentWorkerLosesItsSessionAfterTheGrace(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bed) {
		b.memory.Join("w", "w-1")
		defer b.lead()()
		w := b.hello("w")
		synctest.Wait()
		if s := standings(b.coord)["w"]; s != Ready {
			t.Fatalf("standing %s", s)
		}
		time.Sleep(2 * time.Second)
		w.send(session.Up{Beat: &session.Beat{N: 4}})
		if d := w.until(func(d *session.Down) bool { return d.Beat != nil }); d.Beat.N != 4 || !d.Beat.Held {
			t.Errorf("beat answered %+v", d.Beat)
		}
		began := time.Now()
		for w.next() != nil {
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("session ended %v after the beat", took)
		}
		b.coord.Verdict(PeerVerdict{Peer: "w", Verdict: verdict.Alive, Since: time.Now()})
		synctest.Wait()
		if s := standings(b.coord)["w"]; s != Detached {
			t.Errorf("standing %s", s)
		}
	})
}

func TestAWorkerThatDoesNotReadLosesItsSessionAndHarmsNobody(t *testing.T) {
	inBubble(t, func(cfg *Config) { cfg.SendQueue = 4 }, func(t *testing.T, b *bed) {
		b.memory.Join("slow", "slow-1")
		b.memory.Join("w", "w-1")
		defer b.lead()()
		began := time.Now()
		b.hello("slow") // and never reads
		w := b.hello("w")
		synctest.Wait()
		for i := 0; standings(b.coord)["slow"] == Ready; i++ {
			if i == 100 {
				t.Fatal("a hundred large frames were queued for it")
			}
			id := fmt.Sprint("job", i)
			b.submit(id, 2, func(j *taskstate.Job) { j.Each = []string{strings.Repeat("x", 100_000), strings.Repeat("y", 100_000)} })
			w.end(w.until(granted).Assignments)
			w.until(func(d *session.Down) bool { return d.Ack != nil })
			synctest.Wait()
		}
		if standings(b.coord)["w"] != Ready {
			t.Errorf("the other worker is %s", standings(b.coord)["w"])
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v of virtual time: somebody waited for the slow one", took)
		}
	})
}

func TestAForgedBatchEndsTheSession(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bed) {
		b.memory.Join("w", "w-1")
		defer b.lead()()
		w := b.hello("w")
		w.send(session.Up{Batch: []byte("not an envelope")})
		for w.next() != nil {
		}
		synctest.Wait()
		if s := standings(b.coord)["w"]; s == Ready {
			t.Errorf("standing %s", s)
		}
	})
}

func TestVerdictsFromBeforeTheElectionCount(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bed) {
		b.memory.Join("gone", "gone-1")
		b.memory.Join("w", "w-1")
		stop := b.lead()
		gone := b.hello("gone")
		b.submit("job", 1)
		gone.until(granted)
		stop()
		_ = gone.conn.Close()
		b.coord.Verdict(PeerVerdict{Peer: "gone", Verdict: verdict.Dead, Since: time.Now()})
		b.memory.Lead()
		defer b.lead()()
		w := b.hello("w")
		d := w.until(granted)
		if d.Assignments.Grants[0].Slots[0].Attempt != 2 {
			t.Errorf("granted %+v", d.Assignments.Grants)
		}
		if b.probes.Load() != 1 {
			t.Errorf("%d probes", b.probes.Load())
		}
	})
}

// brokenLedger fails proposals while it is told to.
type brokenLedger struct {
	*memledger.Ledger
	broken atomic.Bool
}

func (l *brokenLedger) Propose(ctx context.Context, cmds []ledger.Command) (uint64, []ledger.Result, error) {
	if l.broken.Load() {
		return 0, nil, errors.New("disk full")
	}
	return l.Ledger.Propose(ctx, cmds)
}

func TestAProposalOfUnknownFateMakesTheCoordinatorStartOverFromTheLedger(t *testing.T) {
	broken := &brokenLedger{}
	inBubble(t, func(cfg *Config) {
		broken.Ledger = cfg.Ledger.(*memledger.Ledger)
		cfg.Ledger = broken
	}, func(t *testing.T, b *bed) {
		b.memory.Join("w", "w-1")
		defer b.lead()()
		w := b.hello("w")
		w.until(func(d *session.Down) bool { return d.Assignments != nil })
		broken.broken.Store(true)
		b.submit("job", 1)
		for w.next() != nil {
		}
		broken.broken.Store(false)
		time.Sleep(time.Second)
		w = b.hello("w")
		w.end(w.until(granted).Assignments)
		w.until(func(d *session.Down) bool { return d.Ack != nil })
		if b.state("job") != taskstate.Complete {
			t.Errorf("job is %s", b.state("job"))
		}
	})
}

func TestTheCoordinatorSaysWhyAJobWaitsAndWhatPeersCarry(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bed) {
		b.memory.Join("w", "w-1")
		defer b.lead()()
		b.hello("w")
		synctest.Wait()
		b.submit("big", 1, func(j *taskstate.Job) { j.Resources.MilliCPU = 64_000 })
		b.submit("small", 1, func(j *taskstate.Job) { j.Resources.MilliCPU = 500 })
		synctest.Wait()
		why, err := b.coord.Waiting(t.Context(), "big")
		if err != nil || why != "needs 64 cpus; the only peer here, w, offers 2" {
			t.Errorf("waits: %q, %v", why, err)
		}
		peers, err := b.coord.Peers(t.Context())
		if err != nil || len(peers) != 2 || peers[1].Peer != "w" || peers[1].Promised.MilliCPU != 500 || peers[1].Outstanding != 1 {
			t.Errorf("peers: %+v, %v", peers, err)
		}
	})
}

// The reader's own deadline follows, too: with 15 s between two beats a session must outlive twice
// the grace it began with.
func TestASessionOutlivesTheGraceItBeganWithWhenThatIsRaised(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bed) {
		b.memory.Join("w", "w-1")
		defer b.lead()()
		w := b.hello("w")
		synctest.Wait()
		if _, _, err := b.memory.Propose(t.Context(), []ledger.Command{{Set: &ledger.Set{Beat: 15_000, Grace: 45_000}}}); err != nil {
			t.Fatal(err)
		}
		if d := w.until(func(d *session.Down) bool { return d.Beat != nil }); d == nil || d.Beat.Beat != 15_000 || d.Beat.Grace != 45_000 || !d.Beat.Held {
			t.Fatalf("told %+v", d)
		}
		w.send(session.Up{Beat: &session.Beat{N: 1}})
		w.until(func(d *session.Down) bool { return d.Beat != nil })
		time.Sleep(15 * time.Second)
		w.send(session.Up{Beat: &session.Beat{N: 2}})
		if d := w.until(func(d *session.Down) bool { return d.Beat != nil && d.Beat.N == 2 }); d == nil || !d.Beat.Held {
			t.Fatalf("answered %+v", d)
		}
		began := time.Now()
		for w.next() != nil {
		}
		if took := time.Since(began); took != 45*time.Second {
			t.Errorf("the session ended %v after the last beat", took)
		}
	})
}

// standings is how a coordinator sees every member; nil while it does not coordinate.
func standings(c *Loop) map[taskstate.PeerID]Standing {
	peers, err := c.Peers(context.Background())
	if err != nil {
		return nil
	}
	out := map[taskstate.PeerID]Standing{}
	for _, p := range peers {
		out[p.Peer] = p.Standing
	}
	return out
}
