package view

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/node/api"
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
		stuck := soleOutput{&v.cfg, v.Who}.left(ctx, &line)
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
