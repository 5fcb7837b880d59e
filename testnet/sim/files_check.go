package sim

import (
	"fmt"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/taskstate"
)

// filesCheck is what is watched of files: that what was saved is not run again, and I16 to I18.
type filesCheck struct {
	c        *check
	told     map[taskstate.TaskID]taskstate.Incarnation // whose journal tells that they are being saved; "": it was turned back
	over     map[taskstate.TaskID]taskstate.Incarnation // whose journal tells of their end
	departed map[taskstate.PeerID]uint64                // by which entry of the ledger they left last
	broken   map[taskstate.TaskID]bool                  // somebody had their being saved broken off
	done     map[taskstate.TaskID]bool                  // their process has ended
	ends     map[taskstate.TaskID]taskstate.Status      // as they were decided first
	word     map[word]time.Duration                     // when peers said that they keep something
	stuck    map[*peer]time.Duration                    // since when it could start what it has
	before   map[taskstate.TaskID]taskstate.RunReport   // ends that a journal told of before it was turned back
}

// word is a peer's that it keeps what a task left.
type word struct {
	task taskstate.TaskID
	peer taskstate.PeerID
}

func (f *filesCheck) init(c *check) {
	*f = filesCheck{
		c:    c,
		told: map[taskstate.TaskID]taskstate.Incarnation{}, over: map[taskstate.TaskID]taskstate.Incarnation{},
		broken: map[taskstate.TaskID]bool{}, departed: map[taskstate.PeerID]uint64{}, ends: map[taskstate.TaskID]taskstate.Status{},
		done: map[taskstate.TaskID]bool{}, word: map[word]time.Duration{}, stuck: map[*peer]time.Duration{},
		before: map[taskstate.TaskID]taskstate.RunReport{},
	}
}

// toldOnDisk takes note of what a worker's disk tells of tasks that are saved. That one was being
// saved may never come there: what is written late tells of its end alone.
func (f *filesCheck) toldOnDisk(l *life, t *transaction) {
	for s := range t.Statuses() {
		switch {
		case s.State == taskstate.Saving:
			f.told[s.Task] = l.p.inc
		case s.State.Final():
			f.over[s.Task] = l.p.inc
		}
	}
}

// forgetTold is a journal that was turned back: what it told is not in it. Others have heard of it:
// of two ends that a task has then either may be decided.
func (f *filesCheck) forgetTold(p *peer) {
	for t, inc := range f.told {
		if inc == p.inc {
			f.told[t] = ""
		}
	}
	for t, inc := range f.over {
		if inc == p.inc {
			f.before[t] = f.c.outcomes[t]
			delete(f.over, t)
		}
	}
}

// takesUp is I4: a worker that starts again knows what it was saving.
func (f *filesCheck) takesUp(l *life, t *taskstate.Launch) {
	if f.told[t.Task] == l.p.inc && f.over[t.Task] != l.p.inc && t.Ended == nil {
		f.c.w.fail("I4", "%s starts again, and has forgotten that the process of %s has ended", l.p.id, t.Task)
	}
}

// brokenOff takes note of a task whose being saved somebody ends.
func (f *filesCheck) brokenOff(id taskstate.TaskID) { f.broken[id] = true }

// runsAgain is I17 for inputs: they are here. And it is I4: what was being saved is not run again,
// unless its peer was given up, or its end is one that asks for it.
func (f *filesCheck) runsAgain(l *life, t taskstate.TaskID) {
	if j := f.c.w.load.byID[t.Job]; j != nil && len(j.job.Inputs) > 0 && !l.p.staged[t.Job] {
		f.c.w.fail("I17", "%s starts %s, and its inputs are not here", l.p.id, t)
	}
	for _, o := range f.c.slots[slotOf(t)] {
		other := o.launch.Task
		p := o.p
		inc, told := f.told[other]
		if other.Attempt > t.Attempt { // this one was given up, and its peer has not heard of it
			continue
		}
		if !told || f.broken[other] || f.c.restarts.wantedAfter(t) {
			continue
		}
		why, named := f.c.reasons[other]
		end, over := f.c.outcomes[other]
		switch {
		case named && why != taskstate.ReasonNotStarted && why != taskstate.ReasonInterrupted:
		case inc != p.inc || p.gone || f.departed[p.id] > o.launch.Index: // it is another one now, or left after it was given that
		case over && (end.State == taskstate.Failed || o.launch.Job.Restart != nil):
		default:
			f.c.w.fail("I4", "%s starts %s, and %s was being saved by %s, which goes on (given up: %s; over: %t %s)", l.p.id, t, other, p.id, why, over, end.State)
		}
	}
}

// saved hears how the saver ends a task. What a peer with an old journal saves again after that was
// decided changes nothing.
func (f *filesCheck) saved(rep *taskstate.RunReport) {
	if _, decided := f.ends[rep.Task]; !decided {
		f.c.outcomes[rep.Task] = *rep
	}
}

// startsWithin is how long a worker may take to start what it has room for.
const startsWithin = 20 * time.Second

// room is I10 the other way round: what is being saved uses nothing, so that a worker starts what
// fits beside what runs.
func (f *filesCheck) room() {
	if !f.c.w.withFiles {
		return
	}
	for _, p := range f.c.w.peers {
		if !f.couldStart(p) {
			delete(f.stuck, p)
			continue
		}
		since, ok := f.stuck[p]
		if !ok {
			since = f.c.w.now()
			f.stuck[p] = since
		}
		if d := f.c.w.now() - max(since, p.started); d > startsWithin {
			f.c.w.fail("I10", "%s has had room for all it has for %v, while %d tasks are being saved there, and starts nothing", p.id, d, len(p.life.saving))
		}
	}
}

// couldStart tells whether a worker that is well, and saves something, has tasks that have not
// started, and room for each of them.
func (f *filesCheck) couldStart(p *peer) bool {
	l := p.life
	if l == nil || p.pains > 0 || l.stopping || len(l.saving) == 0 || l.client.welcome == nil || f.c.w.now()-p.trouble < startsWithin {
		return false
	}
	free := p.offer
	for _, r := range p.procs {
		free = free.Sub(r.launch.Job.Resources)
	}
	waits := 0
	for id := range f.c.w.quorum.truth.OpenOn(p.id) {
		if f.c.starts[id] != nil {
			continue
		}
		j := f.c.w.load.byID[id.Job]
		switch {
		case j == nil || !j.job.Resources.Fits(free):
			return false
		case len(j.job.Inputs) > 0: // others pass it
			continue
		}
		waits++
	}
	return waits > 0
}

// keptSo hears an end as it is decided: it is the one and only, and what it says of keepers is
// true.
func (f *filesCheck) keptSo(s *taskstate.Status) {
	rec, ok := f.c.w.quorum.truth.Job(s.Task.Job)
	if !ok || !rec.Job().Saves() || !s.State.Final() {
		return
	}
	at := rec.Slot(s.Task.Slot)
	if at.Attempt != s.Task.Attempt || at.Final == nil || at.Final.State != s.State || at.Final.Seq != s.Seq {
		return // it was refused: the peer had been given up, or had left
	}
	if was, known := f.ends[s.Task]; known {
		if was.State != s.State || !was.Saved.Equal(s.Saved) {
			f.c.w.fail("I4", "%s has two ends: %s %+v, and %s %+v", s.Task, was.State, was.Saved, s.State, s.Saved)
		}
		return
	}
	f.ends[s.Task] = *s
	if !at.Final.Saved.Equal(s.Saved) {
		f.c.w.fail("I16", "the ledger says of %s that it keeps %+v, and its end says %+v", s.Task, at.Final.Saved, s.Saved)
	}
	if s.Saved != nil {
		f.keepersHave(s)
	}
}

// keepersHave is I16: who is named as a keeper has all of it, whole and pinned, unless its disk
// went since it said so, or its copy has rotted since it was made.
func (f *filesCheck) keepersHave(s *taskstate.Status) {
	for _, k := range s.Saved.Keepers {
		p := f.c.w.byID[k]
		if t := p.files.of[s.Task]; t != nil && t.pinned && t.is == t.root || p.gone {
			continue
		}
		said, ok := f.word[word{s.Task, k}]
		switch t := p.files.of[s.Task]; {
		case !ok:
			f.c.w.fail("I16", "%s is named as a keeper of %s, and never said so", k, s.Task)
		case p.files.since >= said, t != nil && t.hurt > 0: // what rots is noticed when it is read, not before
		default:
			f.c.w.fail("I16", "the ledger says that %s keeps what %s left, and it does not", k, s.Task)
		}
	}
}

// says takes a peer's word that it keeps what a task left.
func (f *filesCheck) says(id taskstate.TaskID, p *peer) { f.word[word{id, p.id}] = f.c.w.now() }

// forgets tells whether the ledger has no use for what a task left: its job is forgotten, or
// something else came of the slot.
func (f *filesCheck) forgets(id taskstate.TaskID) bool {
	rec, ok := f.c.w.quorum.truth.Job(id.Job)
	if !ok {
		return true
	}
	at := rec.Slot(id.Slot)
	return at.Attempt != id.Attempt || at.Final != nil && at.Final.Saved == nil
}

// able lists the peers that could keep a copy: what may change that is looked at again later.
func (f *filesCheck) able(l *life, bytes int64) (out []*peer) {
	for _, id := range l.others() {
		if p := f.c.w.byID[id]; f.keeps(l, p, bytes, f.c.w.now()-time.Minute) {
			out = append(out, p)
		}
	}
	return out
}

// keeps tells whether a peer that others can talk with has had room for so much, with nothing the
// matter since a moment.
func (f *filesCheck) keeps(l *life, p *peer, bytes int64, since time.Duration) bool {
	m, in := f.c.w.quorum.truth.Member(p.id)
	return in && m.In() && p.life != nil && p.pains == 0 && p.trouble < since && l.p.pains == 0 && l.p.trouble < since &&
		l.shy[p.id] < since && p.files.quota > 1<<39 && f.c.w.net.both(l.p, p) && p.life.fetching < 3
}

// owed is I16 as a maker decides: there are as many copies as peers were able to keep one, up to
// what is wanted, unless as many as may be asked said no.
func (f *filesCheck) owed(s *saving, saved *taskstate.Saved, no int) {
	able := 0
	for _, p := range s.search.able {
		if f.keeps(s.l, p, saved.Bytes, s.since-time.Minute) {
			able++
		}
	}
	if want := min(saved.Keep, 1+able); len(saved.Keepers) < want && no == 0 {
		f.c.w.fail("I16", "%s lets %s end with copies on %v, and %d peers could keep one, of %d that are wanted", s.l.p.id, s.launch.Task, saved.Keepers, 1+able, saved.Keep)
	}
}

// evicted is I16 and I18 for what a store removes: nobody reads it, and it is not the last copy of
// what the ledger says is kept there, unless it became that after it was let go. What somebody only
// looked at here may go at any time.
func (f *filesCheck) evicted(p *peer, id taskstate.TaskID, leased bool) {
	if leased {
		f.c.w.fail("I18", "%s removes what %s left, and somebody reads it", p.id, id)
	}
	if !p.files.of[id].released && f.counts(p, id) {
		f.letGo(p, id)
	}
}

// counts tells whether a copy is one that the ledger says there is, or may come to.
func (f *filesCheck) counts(p *peer, id taskstate.TaskID) bool {
	rec, ok := f.c.w.quorum.truth.Job(id.Job)
	if !ok {
		return false
	}
	end := rec.Slot(id.Slot).Final
	return end == nil || named(end.Saved, p.id)
}

// letGo is I16 for what a peer holds no longer.
func (f *filesCheck) letGo(p *peer, id taskstate.TaskID) {
	if f.forgets(id) {
		return
	}
	for _, o := range f.c.w.peers {
		if t := o.files.of[id]; o != p && !o.gone && t != nil && t.pinned && t.is == t.root {
			return
		}
	}
	if t := p.files.of[id]; t.is == t.root && !t.damaged {
		f.c.w.fail("I16", "%s removes the last copy of what %s left", p.id, id)
	}
}

// got is I17: what somebody got is what the task left.
func (f *filesCheck) got(p *peer, id taskstate.TaskID) {
	if t := p.files.of[id]; t != nil && t.is != piece.Sum([]byte(id.String())) && t.hurt == 0 {
		f.c.w.fail("I17", "%s got what %s left, and it is something else", p.id, id)
	}
}

// quotas is I18: what is kept for others keeps to the quota.
func (f *filesCheck) quotas() {
	for _, p := range f.c.w.peers {
		if sum := p.files.kept(); sum > p.files.quota && f.c.w.withFiles {
			f.c.w.fail("I18", "%s keeps %d bytes for others, and its quota is %d", p.id, sum, p.files.quota)
		}
	}
}

// scarce tells what has fewer copies than it could have, once nothing hurts any more.
func (f *filesCheck) scarce() string {
	w := f.c.w
	able := 0
	for _, p := range w.peers {
		m, in := w.quorum.truth.Member(p.id)
		if in && m.In() && p.life != nil && p.files.quota > 1<<39 && m.Availability != ledger.AvailDrain {
			able++
		}
	}
	for _, j := range w.load.jobs {
		rec, ok := w.quorum.truth.Job(j.job.ID)
		if !ok {
			continue
		}
		for id, s := range rec.Saved() {
			n, right := 0, false
			for _, p := range w.peers {
				if t := p.files.of[id]; !p.gone && t != nil && t.pinned && !t.damaged {
					n++
					right = right || t.is == t.root
				}
			}
			if right && n < min(s.Keep, able) {
				return fmt.Sprintf("%s is to be kept %d times, %d peers could, and %d do: %+v", id, s.Keep, able, n, s)
			}
		}
	}
	return ""
}
