package coordinator

import (
	"fmt"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// benchCluster is n workers that end every task as soon as it is granted, around one core.
type benchCluster struct {
	core    *Core
	state   *ledger.State
	now     time.Time
	batches map[ConnID]uint64
	events  []Event
	done    int
	assigns int // Assign commands
	ledger  time.Duration
}

func newBenchCluster(n int) *benchCluster {
	f := &benchCluster{state: ledger.NewState(), now: time.UnixMilli(1_000_000), batches: map[ConnID]uint64{}}
	founder := admission.Entry{Cluster: "c", Peer: "founder", Roles: admission.AllRoles(), By: "founder"}
	f.state.Apply(ledger.Entry{Index: 1, Epoch: taskstate.At(1, 1), Commands: []ledger.Command{{Found: &ledger.Found{Cluster: "c", Generation: 1, Founder: founder}}}})
	f.core = NewCore(CoreConfig{}, taskstate.At(1, 1), f.state, f.now)
	for i := range n {
		peer := fmt.Sprintf("12D3KooWpeer%03d", i)
		f.apply([]ledger.Command{
			{Admit: &ledger.Admit{Entry: admission.Entry{Cluster: "c", Peer: peer, Roles: admission.AllRoles()}}},
			{Register: &ledger.Register{Peer: peer, Incarnation: "i"}},
		})
		conn := ConnID(i + 1)
		h := session.Hello{Incarnation: "i"}
		h.Offer.Resources.MilliCPU = 4000
		f.events = append(f.events, SessionOpened{Conn: conn, Peer: peer, Hello: h}, SessionFrame{Conn: conn, Frame: session.Up{Report: &session.Report{Done: true}}})
	}
	f.run()
	return f
}

func (f *benchCluster) apply(cmds []ledger.Command) {
	e := ledger.Entry{Index: f.state.Index() + 1, Epoch: taskstate.At(1, 1), Stamp: f.now.UnixMilli(), Commands: cmds}
	start := time.Now()
	res := f.state.Apply(e)
	f.ledger += time.Since(start)
	f.events = append(f.events, LedgerApplied{Entry: e, Results: res})
}

// run plays until nothing happens any more.
func (f *benchCluster) run() {
	for len(f.events) > 0 {
		f.now = f.now.Add(time.Millisecond)
		evs := f.events
		f.events = nil
		for _, ef := range f.core.Step(evs, f.now) {
			switch ef := ef.(type) {
			case ProposeCommands:
				for _, c := range ef.Commands {
					if c.Assign != nil {
						f.assigns++
					}
				}
				f.apply(ef.Commands)
				f.events = append(f.events, ProposalDone{})
			case SendDown:
				if a := ef.Frame.Assignments; a != nil {
					f.finish(ef.Conn, a)
				}
			case StartOver:
				panic(ef.Why)
			}
		}
	}
}

// finish answers grants with batches of their ends, a thousand statuses each.
func (f *benchCluster) finish(conn ConnID, a *session.Assignments) {
	var sts []taskstate.Status
	flush := func() {
		if len(sts) > 0 {
			f.batches[conn]++
			s := f.core.sessions.of(conn)
			f.events = append(f.events, SessionBatch{Conn: conn, Batch: taskstate.Batch{Author: s.p.id, Incarnation: "i", Number: f.batches[conn], Statuses: sts}})
			sts = nil
		}
	}
	for _, g := range a.Grants {
		for _, run := range g.Slots {
			for n := range run.All() {
				sts = append(sts, taskstate.Status{Task: taskstate.Task(g.Job, n, run.Attempt), Seq: 1, State: taskstate.Complete, Index: g.Index})
				f.done++
				if len(sts) == 1000 {
					flush()
				}
			}
		}
	}
	flush()
}

// BenchmarkNoopTasks is what one no-op task costs the coordinator from its place in the job to its
// acknowledged end: Assign, grant, batch, Settle, Ack. The ledger's own Apply runs too; its share
// is reported beside.
func BenchmarkNoopTasks(b *testing.B) {
	for _, peers := range []int{3, 100} {
		b.Run(fmt.Sprintf("%dpeers", peers), func(b *testing.B) {
			f := newBenchCluster(peers)
			j := taskstate.Job{ID: "benchjob01", Type: taskstate.BatchJob, Count: b.N}
			j.Run.Noop = &taskstate.Noop{}
			b.ReportAllocs()
			b.ResetTimer()
			f.ledger, f.done, f.assigns = 0, 0, 0
			f.apply([]ledger.Command{{Submit: &ledger.Submit{Job: j}}})
			f.run()
			if f.done != b.N {
				b.Fatalf("%d of %d tasks done", f.done, b.N)
			}
			b.ReportMetric(float64(f.ledger.Nanoseconds())/float64(b.N), "ledger-ns/op")
			b.ReportMetric(float64(b.N)/float64(max(1, f.assigns)), "slots/assign")
		})
	}
}
