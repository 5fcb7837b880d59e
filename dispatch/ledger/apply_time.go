package ledger

import (
	"slices"

	"github.com/coveyproject/covey/taskstate"
)

// SetTime sets the ledger's time back, after a wrong clock took it ahead: what was stamped later
// than To is stamped To from here on. Requests that were signed before To are refused from then on
// (CodeLate), since their numbers may be forgotten. It is refused with CodeLate if To is not later
// than the one before, and Existed if the ledger has not come so far. Entries that follow are
// stamped To until the next Lead: their coordinator made them by the time before.
type SetTime struct {
	To int64 `cbor:"1,keyasint"` // milliseconds since 1970
}

// TimeSet is the newest SetTime that was carried out, also in a snapshot.
type TimeSet struct {
	To    int64 `cbor:"1,keyasint"`
	Waits bool  `cbor:"2,keyasint,omitempty"` // no Lead has followed
}

// advance takes over an entry's stamp.
func (h *ledgerHead) advance(stamp int64) {
	if !h.timeSet.Waits {
		h.stamp = max(h.stamp, stamp)
	}
}

func (s *State) setTime(c *SetTime) Result {
	switch {
	case c.To <= 0:
		return Result{Refused: CodeInvalid}
	case c.To <= s.timeSet.To:
		return Result{Refused: CodeLate}
	case c.To >= s.stamp:
		return Result{Existed: true}
	}
	s.stamp, s.timeSet = c.To, TimeSet{To: c.To, Waits: true}
	s.roster.noLater(c.To)
	for _, j := range s.book.order {
		j.noLater(c.To)
	}
	s.book.finished.gone.noLater(c.To)
	return Result{}
}

// hold has each of some stamps be no later than to.
func hold(to int64, stamps ...*int64) {
	for _, at := range stamps {
		*at = min(*at, to)
	}
}

func (r *roster) noLater(to int64) {
	for _, m := range r.members {
		hold(to, &m.Since, &m.AvailSince)
	}
	for _, x := range r.invites {
		if late := x.Created - to; late > 0 && x.Lasts > 0 {
			x.Expires -= late // it lasts as long as was asked for
		}
		hold(to, &x.Created)
	}
}

func (g *goneJobs) noLater(to int64) {
	for id, why := range g.why {
		hold(to, &why.At)
		g.why[id] = why
	}
}

func (j *JobRecord) noLater(to int64) {
	hold(to, &j.accepted, &j.at, &j.ended)
	j.starts.noLater(to)
	if l := j.long; l != nil {
		hold(to, &l.rollout.Since, &l.rollout.Began, &l.turned)
	}
	j.slots.noLater(to)
	j.past.noLater(to)
}

// noLater keeps the moments of skipped starts ascending.
func (x *starts) noLater(to int64) {
	hold(to, &x.Since, &x.Last)
	x.Skips = slices.Clone(x.Skips)
	for i, latest := len(x.Skips)-1, to; i >= 0; i-- {
		hold(latest, &x.Skips[i].At)
		hold(to, &x.Skips[i].Stamp)
		latest = x.Skips[i].At - 1
	}
}

func (t *slotTable) noLater(to int64) {
	for i := range t.chunks {
		for k := range t.chunks[i].cells {
			c := &t.chunks[i].cells[k]
			hold(to, &c.assigned)
			if c.seq == 0 { // without a worker's number the ledger dated it
				hold(to, &c.end)
			}
		}
	}
	for n, x := range t.extras {
		held := *x
		hold(to, &held.NotBefore, &held.At)
		held.History.Recent = held.History.Recent.NoLater(to)
		t.extras[n] = &held
	}
}

func (h *pastAttempts) noLater(to int64) {
	for n, list := range h.former {
		list = slices.Clone(list)
		for i := range list {
			hold(to, &list[i].Assigned, &list[i].GivenUp)
			if end := list[i].End; end != nil && end.Seq == 0 {
				held := *end
				hold(to, &held.At)
				list[i].End = &held
			}
			if late := list[i].Late; late != nil {
				held := *late
				hold(to, &held.Heard)
				list[i].Late = &held
			}
		}
		h.former[n] = list
	}
	h.conflicted = slices.Clone(h.conflicted)
	for i := range h.conflicted {
		hold(to, &h.conflicted[i].At)
	}
}

// GoneSince lists the jobs that were forgotten for their age at a moment or later, the longest
// forgotten first: where the ledger's time was wrong, it deleted them too early.
func (s *State) GoneSince(stamp int64) (ids []taskstate.JobID) {
	g := &s.book.finished.gone
	for _, id := range g.ids {
		if why := g.why[id]; why.At >= stamp && why.For == GoneForAge {
			ids = append(ids, id)
		}
	}
	return ids
}
