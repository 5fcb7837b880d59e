package node

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"covey/dispatch/ledger"
	"covey/membership"
	"covey/node/api"
	"covey/node/calls"
	"covey/node/care"
	"covey/node/view"
	"covey/taskstate"
)

// openCare makes what looks after the files that are kept here.
func (f *jobFiles) openCare() {
	f.care = care.New(care.Config{
		Self: f.self, Store: f.store, Net: f.host, Replica: f.replica, Current: f.level, Peers: f.keepers,
		Tell: func(ctx context.Context, k ledger.Kept) error {
			r, err := f.line().Decide(ctx, calls.Call{Kept: &k})
			if err == nil && k.Not && !slices.Contains(k.Lost, k.Peer) && r.Partly > 0 {
				return errors.New("its copy is needed")
			}
			return err
		},
		Held: func() (jobs []*taskstate.Job) {
			for _, h := range f.held() {
				jobs = append(jobs, &h.Job)
			}
			return jobs
		},
		Full: f.storeChanged, Now: f.now, Log: f.log,
	})
}

// keepers are the members, as far as they may keep files for jobs.
func (f *jobFiles) keepers() map[taskstate.PeerID]care.Peer {
	out := map[taskstate.PeerID]care.Peer{}
	seen := f.members.View()
	for _, e := range f.roster.All() {
		if !f.roster.Admitted(e.Peer) {
			continue
		}
		m, met := seen.Get(e.Peer)
		out[e.Peer] = care.Peer{Here: e.Peer == f.self || met && m.Verdict != membership.Dead, Since: m.Since, Blind: !f.readers.All(e.Peer)}
	}
	f.replica.Read(func(s *ledger.State) {
		for id, p := range out {
			if m, ok := s.Member(id); ok && m.Availability == ledger.AvailDrain {
				p.Drained = true
				out[id] = p
			}
		}
	})
	return out
}

// storeChanged has this peer take no tasks while what is left to keep here has no room, and says so.
func (f *jobFiles) storeChanged(err error) {
	f.worker().Refrain(api.TroubleStoreFull, err)
	if err == nil {
		f.wrong.Clear(f.self, api.TroubleStoreFull)
		return
	}
	text := err.Error() + ": it stays until its jobs are forgotten, and this peer takes no tasks meanwhile; give it more with `peer up --store SIZE`, or delete jobs"
	if f.wrong.Set(f.self, api.TroubleStoreFull, text) {
		f.log.Error("no room for what tasks leave", "err", err)
	}
}

// ofJobs says how it stands with what tasks left here.
func (f *jobFiles) ofJobs(ctx context.Context) (out []api.JobFiles, err error) {
	kept, err := f.care.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	for _, k := range kept {
		x := api.JobFiles{
			Job: string(k.Job), Home: k.Home, Tasks: k.Tasks, Bytes: k.Bytes, Coming: k.Coming, Copies: k.Copies, Keep: k.Keep, Only: k.Sole,
		}
		f.replica.Read(func(s *ledger.State) {
			if j, ok := s.Job(k.Job); ok {
				x.Name = j.Job().Name
			}
		})
		if k.Copies < k.Keep {
			x.Why = f.whyFew(k)
		}
		out = append(out, x)
	}
	return out, nil
}

// whyFew says why there are fewer copies of something than there are to be.
func (f *jobFiles) whyFew(k care.Kept) string {
	switch {
	case k.Coming > 0:
		return "not all of it is here yet"
	case k.Alone:
		return "nobody else is here who may read and so keep it"
	case len(k.Not) > 0:
		return view.Enumerate(f.who.Sorted(k.Not)) + " cannot keep it: no room, or no storage for others"
	}
	return "another copy is under way"
}

// handOver has others keep what only this peer has, before it leaves.
func (f *jobFiles) handOver(ctx context.Context) error {
	left, err := f.care.HandOver(ctx)
	if err != nil {
		return err
	}
	if len(left) == 0 {
		return nil
	}
	const few = 5
	var jobs []string
	var tasks int
	var bytes int64
	for _, k := range left {
		tasks, bytes = tasks+k.Sole, bytes+k.Bytes
		if len(jobs) < few {
			jobs = append(jobs, string(k.Job))
		}
	}
	if more := len(left) - len(jobs); more > 0 {
		jobs = append(jobs, fmt.Sprintf("%d more", more))
	}
	return api.Errorf(api.Conflict, "this peer did not leave: it has the only copy of what %d of the tasks of %s left (%d MiB), and %s. Bring that to you first with `peer get JOB`, or let another peer join; "+
		"to lose it, type `peer down` here and `peer remove %s` at another peer", tasks, view.Enumerate(jobs), (bytes+1<<20-1)>>20, f.whyFew(left[0]), f.who.Name(f.self))
}
