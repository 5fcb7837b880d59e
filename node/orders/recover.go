package orders

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/quorum"
	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/spell"
)

// recoverTimeout bounds one recovery: the largest copy over a slow link, and the first election of
// the new ledger.
const recoverTimeout = 2 * time.Minute

// survey is what the reachable peers say about their copies of the ledger.
type survey struct {
	copies []surveyed // newest first, this peer's own before equal ones; those that did not answer last
	voters []quorum.Voter
}

type surveyed struct {
	peer taskstate.PeerID
	copy quorum.Copy
	err  error
}

// PlanRecover implements api.AdminBackend.
func (o *Orders) PlanRecover(ctx context.Context) (api.RecoverPlan, error) {
	jobs := o.asideJobs()
	if len(jobs) > 0 && o.awaitCoordinator(ctx) == nil {
		who, _, _ := o.cfg.Ledger.Coordinator()
		return api.RecoverPlan{Coordinator: o.cfg.Who.Called(who), Copies: []api.Copy{}, Voters: []string{}, Missing: []string{}, Jobs: jobs, AsOf: time.Now().UTC()}, nil
	}
	s, err := o.surveyCopies(ctx)
	if err != nil {
		return api.RecoverPlan{}, err
	}
	plan := api.RecoverPlan{
		Jobs: jobs,
		From: o.copyRow(s.copies[0]), Copies: []api.Copy{}, Voters: []string{}, Missing: []string{}, AsOf: time.Now().UTC(),
		Generation: s.copies[0].copy.Generation + 1,
	}
	for _, c := range s.copies {
		plan.Copies = append(plan.Copies, o.copyRow(c))
	}
	for _, v := range s.voters {
		if !v.Voting {
			continue
		}
		plan.Voters = append(plan.Voters, o.cfg.Who.Called(v.Peer))
		if !s.speaks(v.Peer) {
			plan.Missing = append(plan.Missing, o.cfg.Who.Called(v.Peer))
		}
	}
	plan.Marked = o.cfg.Ledger.Marked(plan.From.Generation)
	whole := s.whole()
	for _, l := range o.cfg.Ledger.Losses() {
		if l.Generation != plan.From.Generation {
			continue
		}
		plan.Lost, plan.Marked = append(plan.Lost, o.cfg.Deciders.LossText(l)), max(plan.Marked, l.Held)
		whole[l.Peer()] = o.cfg.Ledger.Covers(s.copies[0].copy, l)
	}
	plan.Whole = len(plan.Missing) == 0 && len(jobs) == 0 && !slices.Contains(slices.Collect(maps.Values(whole)), false)
	slices.Sort(plan.Voters)
	slices.Sort(plan.Missing)
	return plan, nil
}

// Recover implements api.AdminBackend.
func (o *Orders) Recover(ctx context.Context, r api.Recover) (api.Recovered, error) {
	ctx, cancel := context.WithTimeout(ctx, recoverTimeout)
	defer cancel()
	out := api.Recovered{AsOf: time.Now().UTC()}
	if r.Index > 0 {
		var err error
		if out, err = o.beginAgain(ctx, r); err != nil {
			return out, err
		}
	} else if len(r.Jobs) == 0 {
		return out, api.Errorf(api.Usage, "nothing to recover is named: neither a copy of the ledger nor jobs that were set aside")
	}
	o.submitAside(ctx, r.Jobs, &out)
	return out, nil
}

// asideJobs lists the jobs that are only in what this peer set aside.
func (o *Orders) asideJobs() (out []api.AsideJob) {
	for _, j := range o.cfg.Ledger.AsideJobs() {
		out = append(out, api.AsideJob{ID: string(j.Job.ID), Name: j.Job.Name, Why: j.Why})
	}
	return out
}

// submitAside submits jobs that were set aside here, with their ids and the signatures of those
// that ordered them, so that policies judge them as before.
func (o *Orders) submitAside(ctx context.Context, ids []string, out *api.Recovered) {
	for _, j := range o.cfg.Ledger.AsideJobs() {
		id := string(j.Job.ID)
		if j.Why != "" || !slices.Contains(ids, id) {
			continue
		}
		j.Job.Submitter = o.cfg.Self
		if _, err := o.decide(ctx, calls.Call{Submit: &j.Job, Again: true, First: j.First}, "job "+id+" was not submitted"); err != nil {
			out.Refused = append(out.Refused, api.AsideJob{ID: id, Name: j.Job.Name, Why: err.Error()})
			continue
		}
		out.Submitted = append(out.Submitted, id)
	}
}

// beginAgain makes a new ledger.
func (o *Orders) beginAgain(ctx context.Context, r api.Recover) (api.Recovered, error) {
	s, err := o.surveyCopies(ctx)
	if err != nil {
		return api.Recovered{}, err
	}
	best := s.copies[0]
	agreed := quorum.Copy{Generation: r.Generation, Epoch: taskstate.At(r.Generation, r.Term), Index: r.Index}
	_, err = o.cfg.Ledger.Recover(ctx, best.peer, agreed)
	switch {
	case errors.Is(err, quorum.ErrOlderCopy):
		return api.Recovered{}, api.Errorf(api.Conflict, "nothing was done: the copy that was shown is not reachable any more, and what is left is older; run `peer recover` again")
	case errors.Is(err, quorum.ErrQuorum):
		return api.Recovered{}, o.errDecides()
	case errors.Is(err, quorum.ErrMayNotVote):
		return api.Recovered{}, o.errMayNotVote()
	case err != nil:
		return api.Recovered{}, api.Errorf(api.Failed, "not recovered: %v", err)
	}
	if err := o.awaitCoordinator(ctx); err != nil {
		return api.Recovered{}, api.Errorf(api.NoCoordinator, "the new ledger is on disk, and this peer does not lead it yet; see `peer peers`")
	}
	who, epoch, _ := o.cfg.Ledger.Coordinator()
	out := api.Recovered{Generation: epoch.Generation, From: o.copyRow(best), Coordinator: who, Epoch: epoch.String(), AsOf: time.Now().UTC()}
	o.cfg.Replica.Read(func(s *ledger.State) {
		for _, id := range ledger.Lost(s) {
			out.Unknown = append(out.Unknown, string(id))
		}
	})
	return out, nil
}

// surveyCopies asks every peer that could vote for its copy. It refuses while anybody can decide,
// which it gives a moment to show.
func (o *Orders) surveyCopies(ctx context.Context) (survey, error) {
	if o.awaitCoordinator(ctx) == nil {
		return survey{}, o.errDecides()
	}
	if !o.mayVote() {
		return survey{}, o.errMayNotVote()
	}
	own, err := o.cfg.Ledger.Copy()
	if err != nil {
		return survey{}, api.Errorf(api.Failed, "this peer's own ledger cannot be read: %v", err)
	}
	s := survey{copies: []surveyed{{peer: o.cfg.Self, copy: own}}}
	s.copies = append(s.copies, o.askCopies(ctx)...)
	slices.SortStableFunc(s.copies, func(a, b surveyed) int { return b.copy.Compare(a.copy) })
	if s.copies[0].copy.Index == 0 {
		return s, api.Errorf(api.NotFound, "no copy of the ledger is left on the peers in reach: there is nothing to recover from. To begin anew, start with an empty data folder (`peer up --data DIR`)")
	}
	return s, o.canDecide(&s)
}

// mayVote tells whether this peer has the role voter.
func (o *Orders) mayVote() bool {
	e, ok := o.cfg.Roster.Get(o.cfg.Self)
	return ok && e.Has(admission.Voter)
}

func (o *Orders) askCopies(ctx context.Context) []surveyed {
	var out []surveyed
	for _, m := range o.cfg.Who.Admitted() {
		if m.Entry.Peer != o.cfg.Self && m.Entry.Has(admission.Voter) {
			out = append(out, surveyed{peer: m.Entry.Peer})
		}
	}
	var wg sync.WaitGroup
	for i := range out {
		wg.Go(func() { out[i].copy, out[i].err = o.cfg.Ledger.AskCopy(ctx, out[i].peer) })
	}
	wg.Wait()
	return out
}

// canDecide refuses to recover where somebody decides, or will: it fills in the voters on the way.
func (o *Orders) canDecide(s *survey) error {
	known := uint64(0)
	for _, c := range s.copies {
		if c.err == nil && c.copy.Coordinator != "" {
			return api.Errorf(api.Conflict, "nothing to recover: %s says that %s coordinates, and this peer only does not reach it; fix the network, or run `peer recover` again in ten seconds if it died just now", o.cfg.Who.Called(c.peer), o.cfg.Who.Called(c.copy.Coordinator))
		}
		if c.err == nil && c.copy.Generation == s.copies[0].copy.Generation && len(c.copy.Voters) > 0 && (c.copy.VotersIndex > known || s.voters == nil) {
			s.voters, known = c.copy.Voters, c.copy.VotersIndex
		}
	}
	var here []taskstate.PeerID
	all := 0
	for _, v := range s.voters {
		if v.Voting {
			all++
			if s.answers(v) {
				here = append(here, v.Peer)
			}
		}
	}
	if len(here) > all/2 {
		return api.Errorf(api.Conflict, "nothing to recover: %s answer and are a majority of the voters; they elect a coordinator by themselves within seconds, see `peer peers`", spell.Enumerate(o.cfg.Who.Sorted(here)))
	}
	return nil
}

// answers reports whether this very life of a voter answered, and gives votes.
func (s *survey) answers(v quorum.Voter) bool {
	return slices.ContainsFunc(s.copies, func(c surveyed) bool {
		return c.err == nil && c.peer == v.Peer && !c.copy.Stale && c.copy.Seat == v.Peer+"/"+string(v.Incarnation)
	})
}

// speaks tells whether a voter answered, with the seat it had or without.
func (s *survey) speaks(peer taskstate.PeerID) bool {
	return slices.ContainsFunc(s.copies, func(c surveyed) bool { return c.err == nil && c.peer == peer })
}

// whole tells of each voter whether its copy is among those that were looked at.
func (s *survey) whole() map[taskstate.PeerID]bool {
	out := map[taskstate.PeerID]bool{}
	for _, v := range s.voters {
		if v.Voting {
			out[v.Peer] = s.answers(v)
		}
	}
	return out
}

func (o *Orders) errDecides() error {
	who, epoch, ok := o.cfg.Ledger.Coordinator()
	if !ok {
		return api.Errorf(api.Conflict, "nothing to recover: a coordinator was elected this very moment; see `peer peers`")
	}
	return api.Errorf(api.Conflict, "nothing to recover: %s coordinates (epoch %s), and the ledger is safe with its voters; see `peer peers`", o.cfg.Who.Called(who), epoch)
}

// errMayNotVote names the peers to go to instead.
func (o *Orders) errMayNotVote() error {
	var others []taskstate.PeerID
	for _, m := range o.cfg.Who.Admitted() {
		if m.Entry.Has(admission.Voter) && o.cfg.Members().Verdict(m.Entry.Peer) == membership.Alive {
			others = append(others, m.Entry.Peer)
		}
	}
	where := "a peer that has it"
	if len(others) > 0 {
		where = spell.Enumerate(o.cfg.Who.Sorted(others))
	}
	return api.Errorf(api.Refused, "nothing was done: this peer was admitted without the role voter, and the others would not follow its ledger; run `peer recover` on %s", where)
}

func (o *Orders) copyRow(c surveyed) api.Copy {
	row := api.Copy{
		ID: c.peer, Name: o.cfg.Who.Called(c.peer), Self: c.peer == o.cfg.Self, Generation: c.copy.Generation, Term: c.copy.Epoch.Term, Index: c.copy.Index,
	}
	if c.copy.Stamp > 0 {
		row.Decided = time.UnixMilli(c.copy.Stamp).UTC()
	}
	if c.err != nil {
		row.Error = "no answer"
		if got, ok := o.cfg.Members().Get(c.peer); ok && got.Verdict == membership.Alive {
			row.Error = "no answer: " + c.err.Error()
		}
	}
	return row
}
