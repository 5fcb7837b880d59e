package coordinator

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// An admitted peer may be broken, or in bad hands. Whatever it says on its session, what others
// have and do stays as it is.

// bystander is an honest worker with one running task, and evil an admitted peer beside it.
func bystander(t *testing.T, f func(t *testing.T, b *bed, w *fakeWorker, task *session.Assignments)) {
	t.Helper()
	inBubble(t, nil, func(t *testing.T, b *bed) {
		b.memory.Join("w", "w-1")
		b.memory.Join("evil", "evil-1")
		defer b.lead()()
		w := b.hello("w")
		b.submit("job", 1)
		f(t, b, w, w.until(granted).Assignments)
	})
}

// unharmed ends the honest worker's task and wants that to count.
func (b *bed) unharmed(w *fakeWorker, task *session.Assignments) {
	b.t.Helper()
	synctest.Wait()
	if st := b.state("job"); st.Final() {
		b.t.Fatalf("the job is %s before its worker said so", st)
	}
	w.end(task)
	w.until(func(d *session.Down) bool { return d.Ack != nil && d.Ack.Batch == w.batch })
	if st := b.state("job"); st != taskstate.Complete {
		b.t.Errorf("the job is %s", st)
	}
	if s := standings(b.coord)["w"]; s != Ready {
		b.t.Errorf("the honest worker is %s", s)
	}
}

func (f *fakeWorker) batchOf(author, inc string, number uint64, statuses ...taskstate.Status) {
	f.t.Helper()
	env, err := wire.Marshal(taskstate.Batch{Author: author, Incarnation: taskstate.Incarnation(inc), Number: number, Statuses: statuses})
	if err != nil {
		f.t.Fatal(err)
	}
	f.send(session.Up{Batch: env})
}

// gone reads until the stream ends.
func (f *fakeWorker) gone() {
	for f.next() != nil {
	}
}

func endOf(a *session.Assignments, state taskstate.State) taskstate.Status {
	g := a.Grants[0]
	return taskstate.Status{Task: taskstate.Task(g.Job, g.Slots[0].First, g.Slots[0].Attempt), Seq: 1, State: state, Index: g.Index}
}

func TestAForgedAuthorEndsTheForgersSessionAndNothingElse(t *testing.T) {
	bystander(t, func(t *testing.T, b *bed, w *fakeWorker, task *session.Assignments) {
		for _, forged := range [][2]string{{"w", "w-1"}, {"w", "evil-1"}, {"evil", "w-1"}} {
			evil := b.hello("evil")
			evil.until(func(d *session.Down) bool { return d.Welcome != nil })
			evil.batchOf(forged[0], forged[1], 1, endOf(task, taskstate.Failed))
			evil.gone()
			for range RegistrationPeriod / time.Second { // or the next is refused for being the fourth
				time.Sleep(time.Second)
				w.send(session.Up{Beat: &session.Beat{}})
			}
		}
		b.unharmed(w, task)
	})
}

func TestWordsAboutForeignTasksChangeNothing(t *testing.T) {
	bystander(t, func(t *testing.T, b *bed, w *fakeWorker, task *session.Assignments) {
		foreign := endOf(task, taskstate.Failed)
		evil := b.hello("evil")
		evil.batchOf("evil", "evil-1", 1, foreign)
		evil.send(session.Up{Report: &session.Report{Tasks: []taskstate.Status{foreign}}})
		evil.send(session.Up{Dropped: &session.Dropped{Tasks: []taskstate.TaskID{foreign.Task, {}, taskstate.Task("none", -1, -1)}}})
		evil.until(func(d *session.Down) bool { return d.Ack != nil && d.Ack.Batch == 1 }) // retired, for all it is to this author
		b.unharmed(w, task)
	})
}

func TestAReplayedBatchIsAcknowledgedAgainAndCountsOnce(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *bed) {
		b.memory.Join("w", "w-1")
		defer b.lead()()
		w := b.hello("w")
		b.submit("job", 1)
		task := w.until(granted).Assignments
		for range 3 {
			w.batchOf("w", "w-1", 1, endOf(task, taskstate.Complete))
			w.until(func(d *session.Down) bool { return d.Ack != nil && d.Ack.Batch == 1 })
		}
		w.batchOf("w", "w-1", 2, endOf(task, taskstate.Failed)) // and no second end
		w.until(func(d *session.Down) bool { return d.Ack != nil && d.Ack.Batch == 2 })
		if st := b.state("job"); st != taskstate.Complete {
			t.Errorf("the job is %s", st)
		}
	})
}

func TestAHelloThatNoPeerMakesIsRefusedAndStaysOutOfTheLedger(t *testing.T) {
	long := strings.Repeat("x", session.MaxWord+1)
	many := map[string]string{}
	for i := range session.MaxLabels + 1 {
		many[fmt.Sprint(i)] = ""
	}
	for what, hello := range map[string]session.Hello{
		"no incarnation":     {},
		"a long incarnation": {Incarnation: taskstate.Incarnation(long)},
		"a long name":        {Incarnation: "evil-2", Offer: session.Offer{Name: long}},
		"a long label":       {Incarnation: "evil-2", Offer: session.Offer{Labels: map[string]string{"k": long}}},
		"a label of nothing": {Incarnation: "evil-2", Offer: session.Offer{Labels: map[string]string{"": ""}}},
		"many labels":        {Incarnation: "evil-2", Offer: session.Offer{Labels: many}},
		"a long system":      {Incarnation: "evil-2", Offer: session.Offer{OS: long}},
		"negative cpus":      {Incarnation: "evil-2", Offer: session.Offer{Resources: taskstate.Resources{MilliCPU: -1}}},
		"negative disk":      {Incarnation: "evil-2", Offer: session.Offer{Resources: taskstate.Resources{Disk: -1}}},
		"endless memory":     {Incarnation: "evil-2", Offer: session.Offer{Resources: taskstate.Resources{Memory: 1 << 62}}},
	} {
		t.Run(what, func(t *testing.T) {
			bystander(t, func(t *testing.T, b *bed, w *fakeWorker, task *session.Assignments) {
				evil := b.dial("evil")
				evil.send(session.Up{Hello: &hello})
				if d := evil.next(); d == nil || d.Refuse == nil || d.Refuse.Code != session.RefuseMalformed {
					t.Errorf("answer %+v", d)
				}
				b.memory.Replica().Read(func(s *ledger.State) {
					if m, _ := s.Member("evil"); m.Incarnation != "evil-1" || m.Name == long {
						t.Errorf("the ledger has incarnation %q, name %q", m.Incarnation, m.Name)
					}
				})
				b.unharmed(w, task)
			})
		})
	}
}

func TestAnOfferThatNoPeerMakesEndsTheSession(t *testing.T) {
	bystander(t, func(t *testing.T, b *bed, w *fakeWorker, task *session.Assignments) {
		evil := b.hello("evil")
		evil.until(func(d *session.Down) bool { return d.Welcome != nil })
		evil.send(session.Up{Offer: &session.Offer{Resources: taskstate.Resources{MilliCPU: 1 << 62}}})
		evil.gone()
		b.unharmed(w, task)
	})
}

func TestAFloodOfSessionsIsTurnedAwayAndOthersDoNotNotice(t *testing.T) {
	bystander(t, func(t *testing.T, b *bed, w *fakeWorker, task *session.Assignments) {
		refused, began := 0, time.Now()
		for range 500 {
			evil := b.dial("evil")
			evil.send(session.Up{Hello: &session.Hello{Incarnation: taskstate.Incarnation(fmt.Sprint("evil-", rand.Uint64()))}})
			if d := evil.next(); d != nil && d.Refuse != nil && d.Refuse.Code == session.RefuseTooMany {
				refused++
			}
		}
		if refused != 500-RegistrationLimit {
			t.Errorf("%d of 500 were refused", refused)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v of virtual time", took)
		}
		b.unharmed(w, task)
	})
}

func TestAFloodOfFramesOnASessionDoesNotHoldOthersUp(t *testing.T) {
	bystander(t, func(t *testing.T, b *bed, w *fakeWorker, task *session.Assignments) {
		evil := b.hello("evil")
		began := time.Now()
		go func() { // reads, so that its session is not ended for that
			var d session.Down
			for evil.r.Read(&d) == nil {
				d = session.Down{}
			}
		}()
		for i := range 5000 {
			evil.send(session.Up{Beat: &session.Beat{N: uint64(i)}})
			evil.send(session.Up{Resync: &session.Resync{Have: uint64(i)}})
			evil.send(session.Up{Dropped: &session.Dropped{Tasks: []taskstate.TaskID{endOf(task, taskstate.Failed).Task}}})
			if i%50 == 0 {
				synctest.Wait() // its reader keeps up: what is tested is not the slow reader
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v of virtual time", took)
		}
		b.unharmed(w, task)
	})
}

func TestGarbageOnASessionEndsItAndNothingElse(t *testing.T) {
	bystander(t, func(t *testing.T, b *bed, w *fakeWorker, task *session.Assignments) {
		r := rand.New(rand.NewPCG(1, 2))
		for i := range 100 {
			evil := b.dial("evil")
			if i%2 == 0 {
				evil.send(session.Up{Hello: &session.Hello{Incarnation: "evil-1"}})
			}
			junk := make([]byte, 1+r.IntN(1000))
			for j := range junk {
				junk[j] = byte(r.Uint32())
			}
			_, _ = evil.conn.Write(junk)
			_ = evil.conn.Close()
		}
		b.unharmed(w, task)
	})
}
