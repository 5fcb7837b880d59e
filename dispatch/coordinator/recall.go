package coordinator

import (
	"slices"

	"github.com/coveyproject/covey/dispatch/coordinator/clock"
	"github.com/coveyproject/covey/dispatch/coordinator/owners"
	"github.com/coveyproject/covey/taskstate"
)

// recaller evens out what waits on workers.
type recaller struct {
	cfg      *CoreConfig
	clock    *clock.Clock
	agenda   *agenda
	peers    *peers
	jobs     *jobs
	sessions *sessions
}

// dueRecalls takes queued tasks back from a peer that has more than it will soon start, when
// another could start them and nothing else waits. Tasks that have started are not touched: the
// worker decides, it knows.
func (re *recaller) dueRecalls() {
	var spare []spareRoom
	for _, p := range re.peers.list() {
		queued := p.inLine()
		if queued == 0 || p.standing != Ready || !p.session.synced {
			continue
		}
		if re.clock.Now().Before(p.recallAt) {
			re.clock.WakeAt(p.recallAt)
			continue
		}
		if spare == nil {
			if spare = re.spareRooms(); len(spare) == 0 || re.wanted(spare) {
				return
			}
		}
		if n := queued - p.recalling - int(re.peers.recentEnds(p)); n > 0 && re.recall(p, (n+1)/2, spare) > 0 {
			p.recallAt = re.clock.Now().Add(2 * re.cfg.AheadWindow)
			re.clock.WakeAt(p.recallAt)
		} else if n <= 0 { // it will get to them; look again when its pace has slowed
			re.clock.WakeAt(re.clock.Now().Add(re.cfg.AheadWindow))
		}
	}
}

// wanted tells whether something waits that the spare room is for: it will be placed there. What
// finds no room anywhere, however long it waits, must not keep others from starting.
func (re *recaller) wanted(spare []spareRoom) bool {
	return re.jobs.backlog.some(func(l *pendingGroup) bool {
		w := recallNeed{l.job, l.body, l.pin, re.jobs.avoided(l.job), re.peers.roles()}
		return slices.ContainsFunc(spare, func(s spareRoom) bool { return s.takes(w) })
	})
}

// spareRoom is what a peer could start at once.
type spareRoom struct {
	p    *peerState
	free taskstate.Resources
}

// recallNeed is a task that room is looked for.
type recallNeed struct {
	j     *jobState
	body  *taskstate.Job
	pin   taskstate.PeerID          // the only peer it may go to, if there is one
	avoid map[taskstate.PeerID]bool // see jobs.avoided
	roles owners.Roles
}

// spareRooms lists the peers that take tasks, have something free, and nothing in line that would
// start before.
func (re *recaller) spareRooms() []spareRoom {
	var out []spareRoom
	for _, p := range re.peers.list() {
		f := p.free()
		if p.standing == Ready && p.session.synced && re.peers.available(p) && p.queued() == 0 && (f.MilliCPU > 0 || f.Memory > 0) {
			out = append(out, spareRoom{p, f})
		}
	}
	return out
}

// takes tells whether there is room for a task: what is bound to another peer, or kept away by its
// constraints or by what failed here, wants nothing of this room.
func (s *spareRoom) takes(w recallNeed) bool {
	if !w.body.Resources.Fits(s.free) || w.pin != "" && w.pin != s.p.id || !w.j.allows(s.p) || w.avoid[s.p.id] || w.j.owners.Barred(s.p.id, &s.p.owner, w.j.job, w.roles) != "" {
		return false
	}
	h := s.p.holds[w.j.id]
	return h == nil || w.j.job.MaxPerPeer == 0 || h.live < w.j.job.MaxPerPeer
}

// takeSpare reserves room for one task on another peer than from; false if there is none.
func takeSpare(spare []spareRoom, w recallNeed, from *peerState) bool {
	for i := range spare {
		s := &spare[i]
		if s.p == from || !s.takes(w) {
			continue
		}
		s.free = s.free.Sub(w.body.Resources)
		return true
	}
	return false
}

// queued estimates how many of p's tasks wait there because they do not fit: those promised beyond
// the offer. Where they differ in size it may be one too few.
func (p *peerState) queued() int { return p.beyond(p.taken(nil), 0) }

// queuedWarily is queued rounded the other way, for a caller that would add to them.
func (p *peerState) queuedWarily(taken load) int { return p.beyond(taken, 1) }

// beyond divides what is promised beyond the offer by what a task takes, and rounds down, or up if
// up is 1.
func (p *peerState) beyond(taken load, up int64) int {
	over := taken.resources.Sub(p.offer.Resources)
	if over.MilliCPU <= 0 && over.Memory <= 0 || taken.tasks <= 0 {
		return 0
	}
	n := 0
	if over.MilliCPU > 0 {
		all := max(1, taken.resources.MilliCPU)
		n = int((over.MilliCPU*int64(taken.tasks) + up*(all-1)) / all)
	}
	if over.Memory > 0 {
		each := max(1, taken.resources.Memory/int64(taken.tasks))
		n = max(n, int((over.Memory+up*(each-1))/each))
	}
	return max(1, n)
}

// inLine is queued with those that wait for nothing but disk. Of that more may be promised than
// there is though nothing waits – what tasks wrote is no longer free when their peer starts again –
// so it is asked only where nobody else is kept away for it.
func (p *peerState) inLine() int {
	taken := p.taken(nil)
	n, over := p.queued(), taken.resources.Disk-p.offer.Resources.Disk
	if over > 0 && taken.tasks > 0 {
		n = max(n, 1, int(over/max(1, taken.resources.Disk/int64(taken.tasks))))
	}
	return n
}

// recall asks p to give back up to n tasks that it has not started and another could start now: the
// last ones in its line.
func (re *recaller) recall(p *peerState, n int, spare []spareRoom) int {
	asked, onlyDisk := 0, p.queued() == 0
	for _, h := range slices.Backward(p.byAge()) {
		if h.job.job.Resources == (taskstate.Resources{}) && !takesTurn(h.job.job) {
			continue // reserves nothing, so it never queues
		}
		if onlyDisk && h.job.job.Resources.Disk == 0 {
			continue
		}
		idle := h.sorted(rec.idle)
		avoid := re.jobs.avoided(h.job)
		for _, slot := range slices.Backward(idle) {
			body := h.job.body(int(h.slots[slot].version))
			if asked == n || !takeSpare(spare, recallNeed{h.job, body, h.job.lasting.pinOf(slot), avoid, re.peers.roles()}, p) {
				break
			}
			re.sessions.recallSlots(p, h, slot)
			asked++
		}
	}
	return asked
}

// lookForRecalls asks to be woken when there may be something to even out: an end left a peer with
// room, or a peer came.
func (re *recaller) lookForRecalls() {
	if !re.agenda.freed {
		return
	}
	re.agenda.freed = false
	if re.jobs.backlog.atLeast(1) || slices.ContainsFunc(re.peers.list(), func(p *peerState) bool { return p.inLine() > 0 }) {
		re.clock.WakeAt(re.clock.Now().Add(re.cfg.AheadWindow))
	}
}
