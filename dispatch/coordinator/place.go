package coordinator

import (
	"slices"
	"time"

	"github.com/coveyproject/covey/dispatch/coordinator/clock"
	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/placement"
	"github.com/coveyproject/covey/taskstate"
)

// Bounds of the assignments in one proposal.
const (
	maxAssign = 8192 // slots assigned
	jobTurn   = 64   // slots a job gets before the next job's turn, if several have something to place
)

// placer finds places for what waits.
type placer struct {
	cfg    *CoreConfig
	clock  *clock.Clock
	agenda *agenda
	peers  *peers
	jobs   *jobs

	described []placement.Peer // the peers as they were when they were last described; reused from step to step
	inputs    bool             // described tells how much of some job's inputs the peers keep
	seed      uint64
}

// plan assigns what waits to whom there is room with: the higher priority first, and among equals
// jobs take turns in the order of their age. A class of jobs that needs what nobody has is left
// alone until something changes.
func (pl *placer) plan(cmds []ledger.Command, budget int) []ledger.Command {
	pl.agenda.dirty = false
	pl.fillPeers()
	lines := pl.jobs.backlog.busy()
	for len(lines) > 0 && budget > 0 {
		n := 1
		for n < len(lines) && lines[n].need.priority == lines[0].need.priority {
			n++
		}
		cmds, budget = pl.planEquals(cmds, lines[:n], budget)
		lines = lines[n:]
	}
	if budget <= 0 {
		pl.agenda.place() // there may be more in the next proposal
	}
	return cmds
}

// planEquals lets classes of one priority take turns until none finds room.
func (pl *placer) planEquals(cmds []ledger.Command, lines []*class, budget int) ([]ledger.Command, int) {
	for len(lines) > 0 && budget > 0 {
		rest := lines[:0]
		for _, k := range lines {
			var placed int
			cmds, placed = pl.turn(cmds, k, min(budget, pl.turnSize()))
			if budget -= placed; placed > 0 && len(k.line) > 0 {
				rest = append(rest, k)
			}
		}
		lines = rest
	}
	return cmds, budget
}

func (pl *placer) turnSize() int {
	if pl.jobs.backlog.atLeast(2) {
		return jobTurn
	}
	return maxAssign
}

// turn lets the next job of a class place up to n slots. If it places none for want of room, it
// keeps its place in the line – but a job that only its own cap holds back lets the next one try.
func (pl *placer) turn(cmds []ledger.Command, k *class, n int) ([]ledger.Command, int) {
	for tries := len(k.line); tries > 0; tries-- {
		l := k.line[0]
		want := min(n, l.mayStart())
		if want == 0 {
			k.line = k.line[1:]
			l.queued = false
			l.job.tidyGroups()
			continue
		}
		plan := pl.place(l, want)
		l.job.noteWaiting(plan.Reason, pl.clock.Now())
		own := l.ownCap() || pl.expired(l) != ""
		if plan.Placed > 0 || own {
			k.line = append(k.line[1:], l)
		}
		if plan.Placed > 0 {
			return pl.assign(cmds, l, plan), plan.Placed
		}
		if !own {
			return cmds, 0
		}
	}
	return cmds, 0
}

// fillPeers describes the peers to placement as they are now.
func (pl *placer) fillPeers() {
	pl.described, pl.inputs = pl.described[:0], false
	for _, p := range pl.peers.list() {
		pl.described = append(pl.described, placement.Peer{
			ID:        p.id,
			Ready:     !p.worker || p.standing == Ready && p.session.synced,
			Available: pl.peers.available(p),
			Offer:     p.offer.Resources,
			Facts:     p.about,
		})
		pl.measure(&pl.described[len(pl.described)-1], p, nil)
	}
}

// measure tells placement what p can take now. While something waits in a worker's queue, what
// comes behind it starts only if it needs nothing of what that waits for: better not to count on
// it.
func (pl *placer) measure(at *placement.Peer, p *peerState, h *holding) {
	taken := p.taken(h)
	at.Free, at.Ahead, at.Room, at.Total = p.offer.Resources.Sub(taken.resources), pl.peers.ahead(p), pl.cfg.Outstanding-p.outstanding, p.active()
	if queue := p.queuedWarily(taken); queue > 0 {
		at.Free, at.Ahead = taskstate.Resources{}, max(0, at.Ahead-queue)
	}
}

// expired tells whether no peer would start what waits: who asked for it has not said so lately.
func (pl *placer) expired(l *pendingGroup) string { return l.body.Expired(pl.clock.Stamp()) }

func (pl *placer) place(l *pendingGroup, n int) placement.Plan {
	if why := pl.expired(l); why != "" {
		return placement.Plan{Counts: make([]int, len(pl.described)), Reason: why}
	}
	pl.with(l.job, pl.described)
	pl.seed++
	need := pl.need(l, n)
	if l.job.job.Delay > 0 {
		return pl.placeWithoutQueues(need, true)
	}
	if takesTurn(l.body) {
		if plan := pl.placeWithoutQueues(need, false); plan.Placed > 0 {
			return plan
		}
	}
	return placement.Place(need, pl.described, pl.seed)
}

// placeWithoutQueues leaves out the peers where something waits: what needs nothing would find room
// there and wait as well. What is placed at once begins no queue either.
func (pl *placer) placeWithoutQueues(need placement.Need, atOnce bool) placement.Plan {
	for i, p := range pl.peers.list() {
		at := &pl.described[i]
		if p.queued() > 0 {
			at.Room = 0
		}
		if atOnce {
			at.Ahead = 0
		}
	}
	plan := placement.Place(need, pl.described, pl.seed)
	for i, p := range pl.peers.list() {
		pl.measure(&pl.described[i], p, nil)
	}
	return plan
}

// assign carries out a plan: the slots are under way until the ledger says so.
func (pl *placer) assign(cmds []ledger.Command, l *pendingGroup, plan placement.Plan) []ledger.Command {
	dealt := pl.dealt(l, plan)
	for i, n := range plan.Counts {
		if n == 0 {
			continue
		}
		p, j := pl.peers.list()[i], l.job
		var slots []ledger.Slots
		if dealt != nil {
			slots = dealt[i]
		} else {
			slots = l.pop(n)
		}
		for _, run := range slots {
			j.inflight = append(j.inflight, assigning{peer: p.id, body: l.body, Slots: run})
		}
		p.promise(p.hold(j), n, l.body)
		p.assigning++
		pl.measure(&pl.described[i], p, nil)
		pl.jobs.delay(j)
		cmds = append(cmds, ledger.Command{Assign: &ledger.Assign{Job: j.id, Peer: p.id, Incarnation: p.member.Incarnation, Slots: slots, Version: l.body.Version}})
	}
	return cmds
}

// need words what n tasks of a group need.
func (pl *placer) need(l *pendingGroup, n int) placement.Need {
	j := l.job
	r := j.placing()
	if r.wrong {
		n = 0
	}
	return placement.Need{
		Tasks: n, Resources: l.body.Resources, MaxPerPeer: j.job.MaxPerPeer, Strategy: j.job.Strategy, Over: r.over,
		Constraints: r.constraints, Only: l.pin, Matcher: &r.matcher,
	}
}

// rebalance tells how many tasks of a job are to go from whom to whom for it to be spread evenly.
func (pl *placer) rebalance(j *jobState) []placement.Move {
	pl.fillPeers()
	pl.with(j, pl.described)
	return placement.Rebalance(pl.need(&pendingGroup{job: j, body: j.job}, 0), pl.described)
}

// with has peers, as described for placement, count the tasks of a job that are there.
func (pl *placer) with(j *jobState, peers []placement.Peer) {
	avoided := pl.jobs.avoided(j)
	pl.inputsOf(j, peers)
	for i, p := range pl.peers.list() {
		peers[i].OfJob, peers[i].Faulty = 0, avoided[p.id]
		peers[i].NoFiles = p.offer.NoFiles != "" && j.job.HasOutputs()
		pl.ownersOf(j, p, &peers[i])
		h := p.holds[j.id]
		if h != nil {
			peers[i].OfJob = h.live
		}
		if p.preparing.tasks > 0 {
			pl.measure(&peers[i], p, h)
		}
	}
}

// ownersOf has a peer, as described for placement, tell whether its owner lets a job in, and how
// much of it.
func (pl *placer) ownersOf(j *jobState, p *peerState, at *placement.Peer) {
	roles := pl.peers.roles()
	at.Barred = j.owners.Barred(p.id, &p.owner, j.job, roles)
	at.HeldTo = j.owners.Room(p.id, &p.owner, j.job, roles, p.loadOf)
	at.Held = at.HeldTo >= 0
}

// near is where the inputs of a job are, as the ledger said at a time.
type inputPlaces struct {
	of    *taskstate.Job
	at    time.Time
	bytes map[taskstate.PeerID]int64 // that a peer keeps
}

// nearFor is how long what was read of that is believed: copies come and go, and a job may wait.
const nearFor = 10 * time.Second

// inputsOf has peers, as described for placement, tell how much of a job's inputs they keep.
func (pl *placer) inputsOf(j *jobState, peers []placement.Peer) {
	if j.job.Inputs == nil {
		if pl.inputs {
			for i := range peers {
				peers[i].Here = 0
			}
		}
		pl.inputs = false
		return
	}
	now := pl.clock.Now()
	if j.near == nil || j.near.of != j.job || now.Sub(j.near.at) > nearFor {
		j.near = &inputPlaces{of: j.job, at: now, bytes: pl.whereInputsAre(j.job)}
	}
	pl.inputs = true
	for i := range peers {
		peers[i].Here = j.near.bytes[peers[i].ID]
	}
}

// whereInputsAre tells how many bytes of a job's inputs peers keep, as far as the ledger knows:
// what its submitter gave is with the submitter, and what other jobs left with who keeps it.
func (pl *placer) whereInputsAre(job *taskstate.Job) map[taskstate.PeerID]int64 {
	bytes := map[taskstate.PeerID]int64{}
	for i := range job.Inputs {
		in := &job.Inputs[i]
		if in.From == "" {
			bytes[job.Submitter] += in.Bytes
			continue
		}
		if pl.cfg.Read == nil {
			continue
		}
		pl.cfg.Read(func(st *ledger.State) {
			if from, ok := st.Job(in.From); ok {
				for p, n := range ledger.KeptBy(from) {
					bytes[p] += n
				}
			}
		})
	}
	return bytes
}

// lookPast is how many slots beyond those that are placed are looked at for some whose inputs are
// where there is room.
const lookPast = 256

// dealt takes the slots of a plan from a group, by peer, so that what takes only what the task of
// its own slot left goes to where that is. It is nil where that makes no difference, and for slots
// that had attempts before: those come first, wherever they go.
func (pl *placer) dealt(l *pendingGroup, plan placement.Plan) (out [][]ledger.Slots) {
	if l.body.Inputs == nil || l.job.near == nil || pl.cfg.Read == nil || l.again.n > 0 {
		return nil
	}
	var from []taskstate.JobID
	for i := range l.body.Inputs {
		if in := &l.body.Inputs[i]; in.From != "" && in.SameSlot {
			from = append(from, in.From)
		}
	}
	if from == nil {
		return nil
	}
	at := map[taskstate.PeerID]int{}
	for i, n := range plan.Counts {
		if n > 0 {
			at[pl.peers.list()[i].id] = i
		}
	}
	waits, _ := l.fresh.pop(nil, plan.Placed+lookPast)
	pl.cfg.Read(func(st *ledger.State) {
		var rest []ledger.Slots
		out, rest = deal(waits, plan.Counts, func(slot int, may []int) int {
			best, has := -1, int64(0)
			for _, id := range from {
				for _, k := range keepersOf(st, id, slot) {
					// One who keeps what many tasks left, as their submitter does, can have
					// another.
					if i, ok := at[k]; ok && may[i] > 0 && (best < 0 || l.job.near.bytes[k] < has) {
						best, has = i, l.job.near.bytes[k]
					}
				}
			}
			return best
		})
		l.fresh.unpop(rest)
	})
	return out
}

func keepersOf(st *ledger.State, id taskstate.JobID, slot int) []taskstate.PeerID {
	if j, ok := st.Job(id); ok {
		if end := j.Slot(slot).Final; end != nil && end.Saved != nil {
			return end.Saved.Keepers
		}
	}
	return nil
}

// deal gives each peer so many of the slots as counts says: at first those of which best says that
// they are best there, of the peers that may have more, and then the first of the others. It tells
// which are left.
func deal(slots []ledger.Slots, counts []int, best func(slot int, may []int) int) (dealt [][]ledger.Slots, rest []ledger.Slots) {
	may, open := slices.Clone(counts), 0
	for _, n := range may {
		open += n
	}
	dealt = make([][]ledger.Slots, len(counts))
	for _, run := range slots {
		for n := range run.All() {
			one, at := ledger.Slots{First: n, N: 1, Attempt: run.Attempt}, -1
			if open > 0 {
				at = best(n, may)
			}
			if at < 0 {
				rest = ledger.AppendSlots(rest, one)
				continue
			}
			dealt[at] = ledger.AppendSlots(dealt[at], one)
			may[at]--
			open--
		}
	}
	others := slotQueue{}
	others.unpop(rest)
	for i, n := range may {
		dealt[i], _ = others.pop(dealt[i], n)
	}
	return dealt, others.runs
}

// without has peers look as if the tasks of a job were not there: they make room for their
// successors.
func (pl *placer) without(j *jobState, peers []placement.Peer) {
	for i, p := range pl.peers.list() {
		if h := p.holds[j.id]; h != nil {
			at := &peers[i]
			at.Room, at.Total = at.Room+h.live, at.Total-h.live
			at.Free = at.Free.Add(j.job.Resources.Times(int64(h.live)))
		}
	}
}

// Preview is where the tasks of a job would go if it came now. It travels between peers.
type Preview struct {
	Places  []Place   `cbor:"1,keyasint,omitempty"`             // peers that would get tasks, by id
	Tasks   int       `cbor:"2,keyasint"`                       // tasks that are asked for now: an update that restarts nothing asks for those it adds
	Queued  int       `cbor:"3,keyasint,omitempty"`             // so many of those placed would wait on their peer until something there ends
	Waiting int       `cbor:"4,keyasint,omitempty"`             // tasks that no peer could take now
	Reason  string    `cbor:"5,keyasint,omitempty"`             // why not all could be placed, for people
	Refused []Refusal `cbor:"6,keyasint,omitempty"`             // the same, counted
	Owners  []Answer  `cbor:"7,keyasint,omitempty"`             // what the owner of each peer that takes tasks says, by id
	Crowded bool      `cbor:"8,keyasint,omitempty" dialect:"2"` // the update starts new tasks first, and there is no room for one beside those that run
}

// Answer is whether a peer's owner lets a job in: yes if No, which says why not, is "".
type Answer struct {
	Peer taskstate.PeerID `cbor:"1,keyasint"`
	No   string           `cbor:"2,keyasint,omitempty"`
}

// maxAnswers is of how many peers a preview tells what their owners say.
const maxAnswers = 512

// Place is a peer and how many tasks it would get.
type Place struct {
	Peer  taskstate.PeerID `cbor:"1,keyasint"`
	Tasks int              `cbor:"2,keyasint"`
}

// Refusal is a reason, for people, and the number of peers it kept away.
type Refusal struct {
	Text  string `cbor:"1,keyasint"`
	Peers int    `cbor:"2,keyasint"`
}

func (pl *placer) preview(job *taskstate.Job) Preview {
	pl.fillPeers()
	old := pl.jobs.of(job.ID)
	j := &jobState{id: job.ID, job: job}
	l := &pendingGroup{job: j, body: job}
	crowded := startsFirst(old, job) && pl.crowds(old, l)
	n := job.Count
	if job.Parallel > 0 {
		n = min(n, job.Parallel)
	}
	peers := pl.described
	switch {
	case old == nil:
	case taskstate.Restarts(old.job, job):
		pl.without(old, peers)
	default:
		n = max(0, n-old.wanted())
		pl.with(old, peers)
	}
	pl.inputsOf(j, peers)
	for i, p := range pl.peers.list() {
		pl.ownersOf(j, p, &peers[i])
	}
	var out Preview
	if job.Type == taskstate.GlobalJob {
		out = pl.previewGlobal(l, old, peers)
	} else {
		out = pl.previewed(placement.Place(pl.need(l, n), peers, pl.cfg.Seed), n)
	}
	out.Crowded = crowded
	for i, p := range pl.peers.list() {
		if p.worker && p.session != nil && len(out.Owners) < maxAnswers {
			out.Owners = append(out.Owners, Answer{Peer: p.id, No: taskstate.ClipText(peers[i].Barred, maxWhy)})
		}
	}
	return out
}

// startsFirst reports whether a change from old to job starts new tasks of a service before it
// stops the old ones.
func startsFirst(old *jobState, job *taskstate.Job) bool {
	return old != nil && job.Type == taskstate.ServiceJob && job.Updating().Order == taskstate.StartFirst && taskstate.Restarts(old.job, job)
}

// crowds reports whether the tasks of j leave no room for one of a group that would find room
// without them.
func (pl *placer) crowds(j *jobState, l *pendingGroup) bool {
	peers, need := slices.Clone(pl.described), pl.need(l, 1)
	pl.with(j, peers)
	starts := func() bool {
		plan := placement.Place(need, peers, pl.cfg.Seed)
		return plan.Placed > plan.Queued
	}
	if starts() {
		return false
	}
	for i := range peers {
		peers[i].OfJob = 0
	}
	pl.without(j, peers)
	return starts()
}

// previewGlobal places one task on each peer that fits.
func (pl *placer) previewGlobal(l *pendingGroup, old *jobState, peers []placement.Peer) Preview {
	need := pl.need(l, len(peers))
	need.MaxPerPeer = 1
	plan := placement.Place(need, peers, pl.cfg.Seed)
	fit := 0
	for i, p := range pl.peers.list() {
		if pl.peers.fitsGlobal(l.job, p) && (peers[i].OfJob == 0 || old == nil) {
			fit++
		}
	}
	return pl.previewed(plan, max(fit, plan.Placed))
}

func (pl *placer) previewed(plan placement.Plan, tasks int) Preview {
	out := Preview{Tasks: tasks, Queued: plan.Queued, Waiting: max(0, tasks-plan.Placed), Reason: plan.Reason}
	for i, n := range plan.Counts {
		if n > 0 {
			out.Places = append(out.Places, Place{Peer: pl.peers.list()[i].id, Tasks: n})
		}
	}
	for _, r := range plan.Refused {
		out.Refused = append(out.Refused, Refusal{Text: r.Text, Peers: r.Peers})
	}
	return out
}

// wanted counts the slots of a lasting job that are there and not on their way out.
func (j *jobState) wanted() (n int) {
	if j.lasting == nil {
		return 0
	}
	for k, s := range j.lasting.slots {
		if !s.retired && !j.leaving[k].retired {
			n++
		}
	}
	return n
}
