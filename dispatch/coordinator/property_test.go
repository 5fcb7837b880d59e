package coordinator

import (
	"fmt"
	"testing"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/membership/verdict"
	"github.com/coveyproject/covey/taskstate"

	"pgregory.net/rapid"
)

// TestWhateverHappensTheCoreAgreesWithTheLedgerAndEveryJobEnds lets a small cluster live through
// random trouble. At every moment what the core followed equals what the ledger holds, nobody is
// granted what is not his, nothing is given up before its time, and work that must not run twice
// does not (I4, I6, I10). Once everybody behaves, every job ends (I1).
func TestWhateverHappensTheCoreAgreesWithTheLedgerAndEveryJobEnds(t *testing.T) {
	long.Cases(t, 25)
	rapid.Check(t, func(rt *rapid.T) {
		cfg := CoreConfig{MaxAhead: 3, FrameBudget: rapid.SampledFrom([]int{200, 1000, 512 << 10}).Draw(rt, "budget")}
		r := newRig(t, cfg)
		m := newModel(r, func(f string, args ...any) { rt.Fatalf(f+"\n%s", append(args, tail(r.out.String()))...) })
		for range rapid.IntRange(5, 120).Draw(rt, "steps") {
			m.randomStep(rt, cfg)
			if r.over != "" {
				rt.Fatalf("started over: %s\n%s", r.over, tail(r.out.String()))
			}
			if err := r.check(); err != nil {
				rt.Fatalf("%v\n%s", err, tail(r.out.String()))
			}
			m.checkPromises()
		}
		m.heal()
		for _, j := range m.jobs {
			rec, _ := m.state.Job(j.ID)
			if _, ended := rec.Ended(); !ended {
				rt.Fatalf("job %s has not ended: %+v\n%s\n%s", j.ID, rec.Counts(), m.stuck(), tail(r.out.String()))
			}
		}
	})
}

// stuck tells all about what is still open.
func (m *model) stuck() string {
	s := fmt.Sprintf("%d proposals under way\n", m.core.outbox.inflight)
	for _, p := range m.core.peers.list() {
		for _, h := range p.holds {
			for n, r := range h.slots {
				t := taskstate.Task(h.job.id, n, int(r.attempt))
				s += fmt.Sprintf("%s on %s: %+v, standing %s, ends %+v", t, p.id, r, p.standing, p.ends)
				if p.session != nil {
					s += fmt.Sprintf(", acks %+v", p.session.acks)
				}
				for _, w := range m.workers {
					if w.id == p.id {
						s += fmt.Sprintf(", worker has %+v (connected %t, tombstone %t)", w.tasks[t], w.conn != 0, w.tombs[t])
					}
				}
				s += "\n"
			}
		}
	}
	return s
}

func tail(s string) string { return s[max(0, len(s)-6000):] }

// randomStep is one thing that can happen.
func (m *model) randomStep(rt *rapid.T, cfg CoreConfig) {
	w := m.workers[rapid.IntRange(0, len(m.workers)-1).Draw(rt, "worker")]
	what := rapid.IntRange(0, 99).Draw(rt, "what")
	fmt.Fprintf(&m.out, "-- %s %d at %v\n", w.id, what, m.now.UnixMilli())
	switch {
	case what < 8:
		m.submit(rt)
	case what < 10 && len(m.jobs) > 0:
		m.apply(ledger.Command{Cancel: &ledger.Cancel{Job: m.jobs[rapid.IntRange(0, len(m.jobs)-1).Draw(rt, "job")].ID}})
	case what < 30:
		w.connect()
	case what < 32:
		m.returnLate(rt, w)
	case what < 50:
		for range 1 + what%4 {
			w.receive()
		}
	case what < 62:
		w.work(what % 4)
		w.cut()
	case what < 65:
		w.cutOff(what%2 == 0)
	case what < 67:
		w.crash(what%2 == 0)
	case what < 70:
		w.up = true
	case what < 71:
		w.loseDisk()
	case what < 74:
		w.silent = !w.silent
	case what < 80:
		m.verdict(w.id, rapid.SampledFrom([]verdict.Verdict{verdict.Alive, verdict.Suspect, verdict.Dead}).Draw(rt, "verdict"))
	case what == 80:
		m.step(Thaw{})
	case what < 82:
		m.step(PeerProbed{Peer: w.id, Failed: what%2 == 0})
	case what < 86:
		m.hold = !m.hold
		m.step()
	case what < 87:
		m.elect(cfg)
	case what < 88 && len(w.down) > 0:
		w.down = append(w.down, w.down[0]) // said twice
	case what < 90:
		m.apply(ledger.Command{Depart: &ledger.Depart{Peer: w.id}})
	default:
		m.beat()
		m.advance(time.Duration(rapid.IntRange(1, 4000).Draw(rt, "ms")) * time.Millisecond)
	}
}

// returnLate lets a worker be thought dead for a while, in which it finishes what it can, and come
// back with that.
func (m *model) returnLate(rt *rapid.T, w *modelWorker) {
	if !w.up || w.silent {
		return
	}
	for len(w.down) > 0 {
		w.receive()
	}
	w.work(0)
	w.cutOff(true)
	m.verdict(w.id, verdict.Dead)
	m.advance(time.Duration(rapid.IntRange(0, 11_000).Draw(rt, "away")) * time.Millisecond)
	w.work(rapid.IntRange(0, 3).Draw(rt, "finished"))
	w.cut()
	if rapid.Bool().Draw(rt, "verdict first") {
		m.verdict(w.id, verdict.Alive)
	}
	w.connect()
}

func (m *model) submit(rt *rapid.T) {
	j := taskstate.Job{ID: taskstate.JobID(fmt.Sprintf("j%d", len(m.jobs))), Type: taskstate.BatchJob, Count: rapid.IntRange(1, 12).Draw(rt, "count")}
	j.Run.Noop = &taskstate.Noop{}
	j.Resources.MilliCPU = rapid.SampledFrom([]int64{0, 500, 1000, 2000}).Draw(rt, "need")
	j.Parallel = rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(rt, "parallel")
	j.MaxPerPeer = rapid.SampledFrom([]int{0, 0, 0, 2}).Draw(rt, "perPeer")
	if rapid.Bool().Draw(rt, "items") {
		for i := range j.Count {
			j.Each = append(j.Each, fmt.Sprint("item ", i))
		}
	}
	if rapid.IntRange(0, 2).Draw(rt, "saves") == 0 {
		j.Outputs = &taskstate.Outputs{Globs: []string{"*"}}
	}
	j.Unreachable.Wait = rapid.IntRange(0, 3).Draw(rt, "wait") == 0
	if !j.Unreachable.Wait {
		j.Unreachable.ReplaceAfter = rapid.SampledFrom([]int64{0, 1000, 10_000}).Draw(rt, "replaceAfter")
	}
	m.jobs = append(m.jobs, j)
	m.apply(ledger.Command{Submit: &ledger.Submit{Job: j}})
}

// elect begins a new epoch: what was under way is lost, or decided by the one before.
func (m *model) elect(cfg CoreConfig) {
	for i, cmds := range m.pending {
		if i%2 == 0 {
			m.state.Apply(ledger.Entry{Index: m.state.Index() + 1, Epoch: m.epoch, Stamp: m.now.UnixMilli(), Commands: cmds})
		}
	}
	for _, w := range m.workers {
		w.cutOff(false)
	}
	m.epoch.Term++
	m.build(cfg)
	for _, v := range m.verdicts {
		m.step(v)
	}
}

func (m *model) allEnded() bool {
	return len(m.core.jobs.all) == 0
}

// heal makes everybody behave and lets time pass.
func (m *model) heal() {
	m.hold = false
	m.step()
	for _, w := range m.workers {
		w.up = true
		if p := m.core.peers.of(w.id); w.silent || p.member.Left {
			w.silent = false // one that left starts anew, and registers
			w.cutOff(true)
		}
		m.verdict(w.id, verdict.Alive)
	}
	for range 400 {
		if m.allEnded() {
			return
		}
		for _, w := range m.workers {
			w.connect()
			for len(w.down) > 0 {
				w.receive()
			}
			w.work(100)
			w.cut()
		}
		m.beat()
		m.advance(100 * time.Millisecond)
	}
}
