package view

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/keep"
	"github.com/coveyproject/covey/node/logreplica"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/taskstate"
)

const (
	drainShown = 20 // tasks that a line about a drain lists
	drainPause = 250 * time.Millisecond
	drainTick  = 2 * time.Second // looks again though nothing was heard: what keeps a task may be the peer
)

// Peer implements api.PeerKeeper.
func (v *View) Peer(ctx context.Context, peer string) (api.PeerAnswer, error) {
	id, err := v.Who.MeantPeer(peer)
	if err != nil {
		return api.PeerAnswer{}, err
	}
	return v.PeerNow(ctx, id)
}

// PeerNow is the row of one peer as it is now.
func (v *View) PeerNow(ctx context.Context, id taskstate.PeerID) (api.PeerAnswer, error) {
	all, err := v.Peers(ctx)
	if err != nil {
		return api.PeerAnswer{}, err
	}
	for _, p := range all.Peers {
		if p.ID == id {
			return api.PeerAnswer{Peer: p, AsOf: all.AsOf}, nil
		}
	}
	return api.PeerAnswer{}, api.Errorf(api.NotFound, "no peer %s; see `peer peers`", id)
}

// Draining implements api.PeerKeeper. The ledger refuses every assignment that is decided after the
// drain, so that what is open there can only become less; a task is open until its last status was
// settled, which is what acknowledging it means. Nothing open is therefore all there is to wait
// for: nobody else has to be asked, and it stays true.
func (v *View) Draining(ctx context.Context, peer string, send func(api.Draining) error) error {
	id, err := v.Who.MeantPeer(peer)
	if err != nil {
		return err
	}
	tick := time.NewTicker(drainTick)
	defer tick.Stop()
	told := ""
	for {
		more := v.Events.Next()
		line, err := v.drainNow(id)
		if err != nil {
			return err
		}
		stuck := v.soleAt(ctx, &line)
		if now := fmt.Sprintf("%+v", line.Tasks) + line.Note + fmt.Sprint(line.Only, line.Sole); now != told || line.empty() {
			told = now
			if err := send(line.Draining); err != nil || line.empty() {
				return err
			}
		}
		if stuck != nil {
			return stuck
		}
		select {
		case <-more:
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := pause.For(ctx, drainPause); err != nil { // one line says what many events changed
			return err
		}
	}
}

// draining is how far a drain is.
type draining struct {
	api.Draining
	unsure bool // whether it has output that no other peer has
}

// empty tells whether nothing is lost if the peer is switched off.
func (d draining) empty() bool { return d.Left == 0 && d.Only == 0 && d.Sole == 0 && !d.unsure }

func (v *View) drainNow(id taskstate.PeerID) (draining, error) {
	out := draining{Draining: api.Draining{Peer: id, Name: v.Who.Called(id), Only: v.onlyAt(id)}}
	var open []taskstate.TaskID
	var m ledger.Member
	var batch bool
	v.cfg.Replica.Read(func(s *ledger.State) {
		m, _ = s.Member(id)
		for t := range s.OpenOn(id) {
			if out.Left++; len(open) < drainShown {
				open = append(open, t)
			}
			if j, ok := s.Job(t.Job); ok && !j.Job().Type.Lasts() {
				batch = true
			}
		}
	})
	if m.In() && m.Availability != ledger.AvailDrain {
		return out, api.Errorf(api.Conflict, "%s is not drained; `peer drain %s` drains it", out.Name, out.Name)
	}
	for _, t := range open {
		rows, err := v.taskRows(t.Job, []int{t.Slot})
		if err == nil && len(rows) == 1 && rows[0].Attempt == t.Attempt {
			out.Tasks = append(out.Tasks, rows[0])
		}
	}
	if end := m.AvailSince + m.Grace; batch && m.Grace > 0 && end > v.now() {
		out.Until = new(stamp(end))
	}
	if out.Left > 0 {
		out.Note = v.whyLeft(id)
	}
	return out, nil
}

// onlyAt is how many tasks left files of which a peer has the only copy among those that are here
// and stay.
func (v *View) onlyAt(id taskstate.PeerID) (n int) {
	seen := v.cfg.Members()
	v.cfg.Replica.Read(func(s *ledger.State) {
		stays := map[taskstate.PeerID]bool{}
		for m := range s.Members() {
			at, met := seen.Get(m.Entry.Peer)
			stays[m.Entry.Peer] = m.In() && m.Availability != ledger.AvailDrain && met && at.Verdict != membership.Dead
		}
		for j := range s.Jobs() {
			for _, k := range j.Saved() {
				if slices.Contains(k.Keepers, id) && !slices.ContainsFunc(k.Keepers, func(p taskstate.PeerID) bool { return p != id && stays[p] }) {
					n++
				}
			}
		}
	})
	return n
}

// soleAt finds out what tasks printed that only a peer has which is drained and has no tasks any
// more. The error is that no other peer takes it.
func (v *View) soleAt(ctx context.Context, d *draining) error {
	if d.Left > 0 {
		return nil
	}
	asking, cancel := context.WithTimeout(ctx, soleLimit)
	defer cancel()
	s, err := v.cfg.Copies().SoleAt(asking, d.Peer, "", true)
	switch {
	case errors.Is(err, keep.ErrHungUp): // a version before 0.3 hands nothing over
		return nil
	case err != nil:
		if d.Sole = v.printedOn(d.Peer); d.Sole > 0 {
			d.Note = fmt.Sprintf("it cannot be asked whether another peer has what its tasks printed (%s)", p2p.Why(err))
		}
		return nil
	}
	d.unsure, d.Sole = s.Unsure, s.Tasks()
	for _, j := range s.Jobs {
		d.Jobs = append(d.Jobs, j.Job)
	}
	if s.Unsure || d.Sole == 0 || d.Only > 0 {
		return nil
	}
	return api.Errorf(api.Conflict, "%s is not empty: %s. Read it first (`peer logs JOB`), or let another peer join; `peer drain %s --wait --drop-output` goes on without it",
		d.Name, logreplica.SoleText(&s), d.Name)
}

// soleLimit bounds how long a peer is asked what it alone has.
const soleLimit = 5 * time.Second

// printedOn is how many tasks ended on a peer that may have printed what is to be kept twice.
func (v *View) printedOn(id taskstate.PeerID) (n int) {
	v.cfg.Replica.Read(func(s *ledger.State) {
		for j := range s.Jobs() {
			if !j.Job().PrintsTwice() {
				continue
			}
			for slot := 1; slot <= j.Slots(); slot++ {
				if r := j.Slot(slot); r.Peer == id && r.Final != nil {
					n++
				}
			}
		}
	})
	return n
}

// soleOf is what is kept once of what tasks of a job printed, as the peers say that ran some.
func (v *View) soleOf(ctx context.Context, job taskstate.JobID) (out []api.SoleOutput) {
	ran := map[taskstate.PeerID]bool{}
	v.cfg.Replica.Read(func(s *ledger.State) {
		j, ok := s.Job(job)
		if !ok || !j.Job().PrintsTwice() {
			return
		}
		for slot := 1; slot <= j.Slots(); slot++ {
			if r := j.Slot(slot); r.Final != nil && r.Peer != "" {
				ran[r.Peer] = true
			}
		}
	})
	ctx, cancel := context.WithTimeout(ctx, soleLimit)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for peer := range ran {
		if m, met := v.cfg.Members().Get(peer); !met || m.Verdict == membership.Dead {
			continue
		}
		wg.Go(func() {
			s, err := v.cfg.Copies().SoleAt(ctx, peer, job, false)
			if err != nil || len(s.Jobs) == 0 {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			out = append(out, api.SoleOutput{Peer: peer, PeerName: v.Who.Name(peer), Tasks: s.Tasks(), Bytes: s.Jobs[0].Bytes, Why: s.Jobs[0].Why})
		})
	}
	wg.Wait()
	slices.SortFunc(out, func(a, b api.SoleOutput) int { return cmp.Compare(a.Peer, b.Peer) })
	return out
}

// whyLeft says what keeps the tasks of a drained peer where it is not they themselves.
func (v *View) whyLeft(id taskstate.PeerID) string {
	if _, _, ok := v.cfg.Ledger.Coordinator(); !ok {
		if w := v.Deciders.WaitingFor(); w != "" {
			return "no coordinator: waiting for " + w
		}
		return "no coordinator yet: one is being elected"
	}
	if got, ok := v.cfg.Members().Get(id); !ok || got.Verdict == membership.Dead {
		return "the peer is away: its tasks go elsewhere as their jobs allow, or are stopped when it is back"
	}
	return ""
}

func (v *View) showAvailability(p *api.Peer, m ledger.Member) {
	p.Availability = api.Active
	if m.Takes() {
		return
	}
	p.Availability, p.AvailabilityReason = string(m.Availability), m.AvailReason
	if m.Availability == ledger.AvailDrain {
		left := 0
		v.cfg.Replica.Read(func(s *ledger.State) {
			for range s.OpenOn(p.ID) {
				left++
			}
		})
		p.TasksLeft = &left
	}
}
