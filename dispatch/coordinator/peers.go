package coordinator

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/coveyproject/covey/dispatch/coordinator/clock"
	"github.com/coveyproject/covey/dispatch/coordinator/freeze"
	"github.com/coveyproject/covey/dispatch/coordinator/owners"
	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/membership/verdict"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/constraint"
	"github.com/coveyproject/covey/trust/policy"
)

// peers are the members as this coordinator sees them: who there is, how each stands, what it
// offers, and whether those that have vanished may be replaced.
type peers struct {
	cfg    *CoreConfig
	clock  *clock.Clock
	agenda *agenda

	all         map[taskstate.PeerID]*peerState
	order       []*peerState                     // by id
	strangers   map[taskstate.PeerID]PeerVerdict // what gossip says about who is no member (yet)
	guard       freeze.Guard                     // of replacement
	settledAt   time.Time                        // when peers that have not come back since the election stop being unknown
	settledDone bool                             // that was, and every peer was reviewed
	rolesAt     uint64                           // rises when somebody's roles may have changed
	// parted are the roles of those that are no members any more and whose keys count: what they
	// ordered goes on.
	parted map[taskstate.PeerID][]admission.Role
}

func (ps *peers) of(id taskstate.PeerID) *peerState { return ps.all[id] }

func (ps *peers) list() []*peerState { return ps.order }

// peerState is a member as the coordinator drives it.
type peerState struct {
	id     taskstate.PeerID
	member ledger.Member           // as the ledger has it
	fenced []taskstate.Incarnation // replaced in this epoch
	worker bool                    // its roles let it run tasks

	offer       session.Offer
	owner       owners.Owner      // what its owner lets in
	endless     time.Time         // drained: tasks of batch jobs may go on until then
	about       *constraint.Facts // what constraints ask about; nil until it had a session in this epoch
	holds       map[taskstate.JobID]*holding
	outstanding int                         // tasks proposed or assigned that have not ended
	saving      int                         // of those, the ones whose process has ended: they use nothing
	promised    taskstate.Resources         // to the others
	preparing   load                        // of these, the ones that wait for their inputs
	ends        *endQueue                   // to be settled, not proposed yet; nil: none
	late        map[taskstate.TaskID]uint64 // ends of attempts given up, being decided: number of their batch in the present session, or 0

	session    *workerSession
	back       bool // had a session in this epoch
	registered []time.Time
	sickSince  time.Time // its offer names a trouble, see dueSick
	stopping   time.Time // gives its tasks back: no new ones before this moment
	assigning  int       // commands under way that assign something to it

	verdict       verdict.Verdict
	since         time.Time // of the verdict
	unanswered    bool
	probing       bool
	probeAt       time.Time
	standing      Standing
	lostSince     time.Time // since when it is unreachable
	charged       bool      // that it is was paid for; see mayReplace
	never         bool      // gossip here never saw it alive
	stalls        stalls
	stallAt       time.Time // no look at those before
	shunned       time.Time // passed over until then
	noInputRoom   noInputRoom
	confirmedGone bool // it is gone, a person says
	parted        bool // it said goodbye before it went

	finished   float64 // ends in about the last AheadWindow, decaying
	finishedAt time.Time
	recallAt   time.Time // no recall before
	recalling  int       // tasks it was asked to give back, and has not answered about
}

// holding is what one peer has of one job.
type holding struct {
	job   *jobState
	slots map[int]rec
	live  int // proposed or assigned, and their process has not ended
	// preparing is what of it waits for the inputs of the job.
	preparing load
}

// load is tasks, and what they need.
type load struct {
	tasks     int
	resources taskstate.Resources
}

func (l load) add(n int, of taskstate.Resources) load {
	return load{l.tasks + n, l.resources.Add(of.Times(int64(n)))}
}

func (l load) sub(o load) load { return load{l.tasks - o.tasks, l.resources.Sub(o.resources)} }

// rec is one open task: assigned by the ledger, not settled, not given up.
type rec struct {
	index   uint64 // of the assignment
	batch   uint64 // number of the batch its end came in, in the present session; 0 = none
	attempt uint32
	version uint32          // of the job; 0 for jobs without versions
	state   taskstate.State // the furthest seen
	marks   attemptFlags
}

type attemptFlags uint8

const (
	ended     attemptFlags = 1 << iota // its resources are free again
	deciding                           // its Settle or Supersede is on its way
	stopped                            // the worker was told to stop it
	recalled                           // the worker was asked to give it back
	inherited                          // assigned before the ledger was recovered, and its worker has not said that it has it
	saving                             // its process has ended, and its resources are free: its files are being kept
	preparing                          // it waits for its inputs, and others pass it
)

func (r rec) is(m attemptFlags) bool { return r.marks&m != 0 }

// idle tells whether the peer may still give it back: nothing of it has begun, and nobody has asked
// yet.
func (r rec) idle() bool {
	return r.state < taskstate.Starting && r.state != taskstate.Preparing && !r.is(ended|deciding|recalled|stopped)
}

// mark adds marks to a task.
func (h *holding) mark(slot int, m attemptFlags) rec {
	r := h.slots[slot]
	r.marks |= m
	h.slots[slot] = r
	return r
}

func (h *holding) some(m attemptFlags) bool {
	for _, r := range h.slots {
		if r.is(m) {
			return true
		}
	}
	return false
}

// returned tells whether its worker said that it does not have it and never will, which is about to
// be decided. Nobody gives it back to that worker meanwhile: it may have given its word only.
func (r rec) returned() bool { return r.is(ended) && r.is(deciding) && !r.state.Final() }

// staying tells whether p may be given tasks as far as it has a say in it: it is not about to stop.
func (ps *peers) staying(p *peerState) bool {
	return !ps.clock.Now().Before(p.stopping) && (p.session == nil || !p.session.leaving)
}

// hold returns what p has of j, for writing.
func (p *peerState) hold(j *jobState) *holding {
	h := p.holds[j.id]
	if h == nil {
		h = &holding{job: j, slots: map[int]rec{}}
		p.holds[j.id] = h
	}
	return h
}

// promise reserves room for n tasks that are as body says on p; a negative n gives it back.
func (p *peerState) promise(h *holding, n int, body *taskstate.Job) {
	p.outstanding += n
	p.use(h, n, body)
}

// use is promise without the room in the worker's books.
func (p *peerState) use(h *holding, n int, body *taskstate.Job) {
	h.live += n
	h.job.live += n
	p.promised = p.promised.Add(body.Resources.Times(int64(n)))
}

// taken is what of p counts as taken for tasks of a holding (nil: for any). What waits for its
// inputs is passed by others, but not by its own kind: that would all come here to wait.
func (p *peerState) taken(h *holding) load {
	passed := p.preparing
	if h != nil {
		passed = passed.sub(h.preparing)
	}
	return load{p.active(), p.promised}.sub(passed)
}

// active counts the tasks that use something of p, or will.
func (p *peerState) active() int { return p.outstanding - p.saving }

// answered notes that a recall has had its effect, or came too late.
func (p *peerState) answered(r *rec) {
	if r.is(recalled) {
		r.marks &^= recalled
		p.recalling--
	}
}

func (p *peerState) find(t taskstate.TaskID) (*holding, rec, bool) {
	h := p.holds[t.Job]
	if h == nil {
		return nil, rec{}, false
	}
	r, ok := h.slots[t.Slot]
	return h, r, ok && int(r.attempt) == t.Attempt
}

// free is what p can still promise; negative where tasks queue ahead of need.
func (p *peerState) free() taskstate.Resources {
	return p.offer.Resources.Sub(p.taken(nil).resources)
}

// countEnds remembers that n tasks ended now, for the length of the queue.
func (ps *peers) countEnds(p *peerState, n int) {
	p.finished = ps.recentEnds(p) + float64(n)
	p.finishedAt = ps.clock.Now()
}

// recentEnds is about how many tasks ended on p within the last AheadWindow.
func (ps *peers) recentEnds(p *peerState) float64 {
	if p.finished == 0 {
		return 0
	}
	return p.finished * math.Exp(-float64(ps.clock.Now().Sub(p.finishedAt))/float64(ps.cfg.AheadWindow))
}

// ahead is how many tasks may wait on p beyond those that fit: what it finishes while an assignment
// travels, and at least one for each of its cpus, so that none of them waits for a round trip
// however long its tasks take.
func (ps *peers) ahead(p *peerState) int {
	return min(max(1, int(p.offer.Resources.MilliCPU/1000), int(ps.recentEnds(p))), ps.cfg.MaxAhead)
}

// runsOf lists the open tasks of a holding that pick accepts, as ascending runs per ledger index.
func (h *holding) runsOf(pick func(slot int, r rec) bool) []grantPiece {
	slots := make([]int, 0, len(h.slots))
	for n, r := range h.slots {
		if pick(n, r) {
			slots = append(slots, n)
		}
	}
	slices.Sort(slots)
	type key struct {
		index   uint64
		version uint32
	}
	byIndex := map[key]int{}
	var out []grantPiece
	for _, n := range slots {
		r := h.slots[n]
		i, ok := byIndex[key{r.index, r.version}]
		if !ok {
			i = len(out)
			byIndex[key{r.index, r.version}] = i
			out = append(out, grantPiece{job: h.job, body: h.job.body(int(r.version)), index: r.index})
		}
		out[i].slots = ledger.AppendSlots(out[i].slots, ledger.Slots{First: n, N: 1, Attempt: int(r.attempt)})
	}
	return out
}

// PeerLoad is a member as the coordinator sees it, for people.
type PeerLoad struct {
	Peer        taskstate.PeerID
	Standing    Standing
	Offer       session.Offer       // of its newest session; zero if there was none in this epoch
	Promised    taskstate.Resources // to tasks that have not ended, but for those that only save their files or wait for theirs
	Outstanding int                 // tasks that have not ended
	Running     taskstate.Resources // of Promised, what its worker says has begun
	PassedOver  bool                // for a while: it did not start what it had
	NoRoom      string              // why it had none for the inputs of a job, lately; "": it had
	Away        time.Duration       // so long it has been unreachable; 0: it is not
	Load        *session.Load       // of its machine; nil: it does not say, or has no session
}

// running is what tasks need that have begun on p and not ended.
func (p *peerState) running() (sum taskstate.Resources) {
	for _, h := range p.holds {
		for _, r := range h.slots {
			if r.state >= taskstate.Starting && !r.is(ended|saving) {
				sum = sum.Add(h.job.body(int(r.version)).Resources)
			}
		}
	}
	return sum
}

// awayFor is how long p has been unreachable, at least a moment; 0 if it is not.
func (ps *peers) awayFor(p *peerState) time.Duration {
	if p.standing != Unreachable {
		return 0
	}
	return max(time.Millisecond, ps.clock.Now().Sub(p.lostSince))
}

func (ps *peers) loads() []PeerLoad {
	out := make([]PeerLoad, 0, len(ps.order))
	for _, p := range ps.order {
		out = append(out, PeerLoad{Peer: p.id, Standing: p.standing, Offer: p.offer, Promised: p.taken(nil).resources, Outstanding: p.outstanding, Running: p.running(), PassedOver: ps.shunned(p), NoRoom: ps.noRoom(p), Away: ps.awayFor(p)})
		if p.session != nil {
			out[len(out)-1].Load = p.session.load
		}
	}
	return out
}

// holder finds the peer a slot is open on; nil: it is open on none.
func (ps *peers) holder(j *jobState, slot int) (*peerState, *holding) {
	for _, p := range ps.order {
		if h := p.holds[j.id]; h != nil {
			if _, open := h.slots[slot]; open {
				return p, h
			}
		}
	}
	return nil, nil
}

func (ps *peers) openTask(j *jobState, s *lastingSlot, n int) (rec, bool) {
	p := ps.of(s.peer)
	if p == nil || p.holds[j.id] == nil {
		return rec{}, false
	}
	r, ok := p.holds[j.id].slots[n]
	return r, ok
}

// away tells whether a peer can take no new task for now: it is gone, or somebody paused it. One
// that merely has no session, after an election for instance, may well run its task.
func (ps *peers) away(id taskstate.PeerID) bool {
	p := ps.of(id)
	return p == nil || p.standing == Unreachable || p.standing == Left || !p.member.Takes()
}

// mayRun tells whether a task that was given to a peer may run there though nothing was heard of it
// yet: after an election, for as long as everybody has to come back. Later a task that nobody has
// heard of is taken for one that is down, and is changed first; should it run all the same, it is
// one of those that may be down.
func (ps *peers) mayRun(id taskstate.PeerID) bool {
	p := ps.of(id)
	return p != nil && p.standing == Unknown
}

// fitsGlobal tells whether a peer is to have a task of a global job.
func (ps *peers) fitsGlobal(j *jobState, p *peerState) bool {
	return p.worker && !p.member.Left && p.member.Takes() && p.standing == Ready && p.about != nil && ps.lets(j, p) && j.job.Resources.Fits(p.offer.Resources)
}

// undecided tells whether some task of a job may be about to begin anew, elsewhere perhaps: its
// peer was asked to give it back, or it has ended.
func (ps *peers) undecided(id taskstate.JobID) bool {
	return slices.ContainsFunc(ps.order, func(p *peerState) bool {
		h := p.holds[id]
		return h != nil && h.some(recalled|deciding)
	})
}

// available tells whether p may have more tasks, if it has room.
func (ps *peers) available(p *peerState) bool {
	return p.worker && !p.member.Left && ps.staying(p) && p.member.Takes() && p.offer.Trouble == "" && !ps.shunned(p)
}

func (ps *peers) shunned(p *peerState) bool { return ps.clock.Now().Before(p.shunned) }

// allows tells whether the rules let tasks of the job be on a peer; true of one that was not heard
// of in this epoch.
func (j *jobState) allows(p *peerState) bool {
	r := j.placing()
	return p.about == nil || !r.wrong && constraint.AllHold(r.constraints, p.about)
}

// roles are those of all keys, as the ledger has them.
func (ps *peers) roles() owners.Roles {
	return owners.Roles{At: ps.rolesAt, Of: func(id taskstate.PeerID) []admission.Role {
		if p := ps.of(id); p != nil {
			return p.member.Entry.Roles
		}
		return ps.parted[id]
	}}
}

// part remembers the roles of who is no member any more, or forgets them with its key.
func (ps *peers) part(m *ledger.Member, revoked bool) {
	if ps.rolesAt++; revoked {
		delete(ps.parted, m.Entry.Peer)
		return
	}
	if ps.parted == nil {
		ps.parted = map[taskstate.PeerID][]admission.Role{}
	}
	ps.parted[m.Entry.Peer] = m.Entry.Roles
}

// lets tells whether tasks of the job may be given to a peer, by its constraints and by what the
// peer's owner allows.
func (ps *peers) lets(j *jobState, p *peerState) bool {
	return j.allows(p) && j.owners.Barred(p.id, &p.owner, j.job, ps.roles()) == ""
}

// loadOf is what tasks of a key hold on a peer.
func (p *peerState) loadOf(by taskstate.PeerID) (has policy.Load) {
	for _, h := range p.holds {
		if policy.ClaimOf(h.job.job).By == by {
			has.Tasks += h.live
			has.Resources = has.Resources.Add(h.job.job.Resources.Times(int64(h.live)))
		}
	}
	return has
}

// workerSession is one worker's stream. It begins with Hello; it is welcomed once the ledger knows
// the worker's incarnation; it is in sync once all reports were heard and a Complete set was sent.
// Only then does it carry incremental changes.
type workerSession struct {
	conn        ConnID
	id          string
	p           *peerState
	incarnation taskstate.Incarnation
	opened      time.Time
	heard       time.Time // last sign of life
	grace       time.Duration
	away        time.Duration // the round trip to the worker when it came
	load        *session.Load // of its machine, as far as it says
	reported    bool
	welcomed    bool
	synced      bool
	leaving     bool // its worker said Goodbye
	released    bool // and was answered
	known       Known

	seq  uint64                   // number of the set the worker has
	jobs map[session.BodyID]int64 // sent in this session, and when their orders were signed
	acks ackWindow

	// Gathered during a step, sent at its end.
	touched  bool
	complete bool
	grants   []grantPiece
	stops    []session.Stop
	recalls  []taskstate.TaskID
	acked    uint64 // newest Ack sent
}

// has tells whether the worker was sent a body with the order that it has now.
func (s *workerSession) has(b *taskstate.Job) bool {
	at, ok := s.jobs[session.BodyOf(b)]
	return ok && at == signedAt(b)
}

// signedAt is when a job was signed; 0 if it was not.
func signedAt(j *taskstate.Job) int64 {
	if j.Order == nil {
		return 0
	}
	return j.Order.At
}

// forget drops what a session was sent of a job that is over.
func (s *workerSession) forget(j *jobState) {
	delete(s.jobs, session.BodyOf(j.job))
	if j.lasting != nil {
		for _, b := range j.lasting.versions {
			delete(s.jobs, session.BodyOf(b))
		}
	}
}

// grantPiece is slots of one job, decided at one index, on their way to a worker.
type grantPiece struct {
	job   *jobState
	body  *taskstate.Job
	index uint64
	slots []ledger.Slots
}

// fence remembers a life that is over, so that a copy of its data folder is told.
func (p *peerState) fence(inc taskstate.Incarnation) {
	const remembered = 8
	if inc == "" || slices.Contains(p.fenced, inc) {
		return
	}
	if p.fenced = append(p.fenced, inc); len(p.fenced) > remembered {
		p.fenced = p.fenced[1:]
	}
}

// byAge lists what p holds, the oldest job first.
func (p *peerState) byAge() []*holding {
	out := make([]*holding, 0, len(p.holds))
	for _, h := range p.holds {
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b *holding) int { // several may have come with one entry
		return cmp.Or(cmp.Compare(a.job.index, b.job.index), cmp.Compare(a.job.id, b.job.id))
	})
	return out
}

// sorted lists the slots of a holding whose task pick accepts, ascending.
func (h *holding) sorted(pick func(rec) bool) []int {
	var out []int
	for n, r := range h.slots {
		if pick(r) {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}
