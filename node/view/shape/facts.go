package shape

import (
	"math"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

// nobody is the place of the peer of a task that nobody has.
const nobody = math.MaxUint16

// Row is one attempt of a slot.
type Row struct {
	Start   int64  // of its process, by the clock of the ledger, in milliseconds since 1970; 0: not yet, or never
	Took    uint32 // milliseconds it ran, or has run until now
	Slot    uint32
	Attempt uint32
	peer    uint16 // position in Facts.peers
	State   taskstate.State
	Open    bool // it goes on
	Earlier bool // its slot has left it behind
	Retired bool // its slot is not wanted any more
}

// Facts are what the pictures of a job are made of. Rows are first the newest attempts of all
// slots, by slot, then the earlier ones that are remembered.
type Facts struct {
	Rows []Row
	Now  int64 // when they were gathered, milliseconds since 1970
	Open int   // rows that go on

	job    taskstate.JobID
	slots  int
	peers  []taskstate.PeerID
	places map[taskstate.PeerID]uint16
	late   []Row // earlier attempts, until all slots are in
	groups groups
	pace   paces
}

// New begins with the facts of a job of so many slots.
func New(slots int, now int64) *Facts {
	return &Facts{Rows: make([]Row, 0, slots), Now: now, slots: slots, places: map[taskstate.PeerID]uint16{}}
}

// Add takes in the slots from first to last, after those before them, and what was heard of their
// tasks last. The record is read.
func (f *Facts) Add(j *ledger.JobRecord, first, last int, heard map[taskstate.TaskID]taskstate.Status) {
	f.job = j.Job().ID
	if first == 1 {
		f.pace.to = f.Now
		if at, over := j.Ended(); over {
			f.pace.to = at
		}
	}
	for n := first; n <= min(last, f.slots); n++ {
		r, since := j.Slot(n), j.Accepted()
		f.add(r, heard)
		if r.Attempt > 1 {
			for _, p := range j.Past(n) {
				f.past(n, p)
				since = p.GivenUpAt
			}
		}
		if r.Final != nil && r.Peer != "" {
			f.pace.add(r.Final, since, r.AssignedAt)
		}
	}
	if len(f.Rows) == f.slots {
		f.Rows, f.late = append(f.Rows, f.late...), nil
	}
}

// Wait takes in all slots of a job that nobody has accepted yet.
func (f *Facts) Wait() {
	for n := len(f.Rows) + 1; n <= f.slots; n++ {
		f.Rows = append(f.Rows, Row{Slot: uint32(n), Attempt: 1, peer: nobody, State: taskstate.Pending, Open: true})
	}
	f.Open = f.slots
}

func (f *Facts) add(r ledger.SlotRecord, heard map[taskstate.TaskID]taskstate.Status) {
	row := Row{
		Slot: uint32(r.Slot), Attempt: uint32(max(r.Attempt, 1)), peer: f.place(r.Peer), State: taskstate.Pending, Retired: r.Retired,
		Open: r.Final == nil,
	}
	st := r.Final
	if r.Open {
		row.State = taskstate.Assigned
		if said, ok := heard[taskstate.Task(f.job, r.Slot, r.Attempt)]; ok {
			row.State, st = said.State, &said
		}
	}
	if st != nil {
		row.State = st.State
		row.runs(r.AssignedAt, st, f.Now)
		if r.Final != nil {
			f.groups.add(&row, r.Peer, st)
		}
	}
	if row.Open {
		f.Open++
	}
	f.Rows = append(f.Rows, row)
}

// runs says when a task ran that was assigned at a moment. All of it is by the clock of the ledger:
// the clocks of peers differ, and their times of waiting and running do not.
func (r *Row) runs(assigned int64, st *taskstate.Status, now int64) {
	switch {
	case assigned == 0:
	case st.State == taskstate.Running:
		r.Start = assigned + st.Waited
		r.Took = millis(now - r.Start)
	case st.Took > 0 || bad(st.State):
		r.Start, r.Took = assigned+st.Waited, millis(st.Took)
	}
}

func (f *Facts) past(slot int, p ledger.PastAttempt) {
	row := Row{Slot: uint32(slot), Attempt: uint32(p.Attempt), peer: f.place(p.Peer), State: taskstate.Shutdown, Earlier: true}
	switch {
	case p.End != nil:
		row.State = p.End.State
		row.runs(p.AssignedAt, p.End, f.Now)
		f.groups.add(&row, p.Peer, p.End)
	case p.Late != nil:
		row.State, row.Start, row.Took = p.Late.State, p.AssignedAt, millis(p.Late.Took)
	default: // nobody heard how it ended: it was there until it was given up
		row.Start, row.Took = p.AssignedAt, millis(p.GivenUpAt-p.AssignedAt)
	}
	f.late = append(f.late, row)
}

// place is the position of a peer; nobody for those that are too many.
func (f *Facts) place(peer taskstate.PeerID) uint16 {
	if peer == "" {
		return nobody
	}
	at, ok := f.places[peer]
	if !ok {
		if len(f.peers) == nobody {
			return nobody
		}
		at = uint16(len(f.peers))
		f.places[peer], f.peers = at, append(f.peers, peer)
	}
	return at
}

// Peer is who has or had a row's task; "" if nobody.
func (f *Facts) Peer(r *Row) taskstate.PeerID {
	if int(r.peer) >= len(f.peers) {
		return ""
	}
	return f.peers[r.peer]
}

// newest are the newest attempts of all slots, by slot.
func (f *Facts) newest() []Row { return f.Rows[:min(f.slots, len(f.Rows))] }

func millis(ms int64) uint32 { return uint32(min(max(0, ms), math.MaxUint32)) }

// bad tells whether a task that ended so is a failure.
func bad(s taskstate.State) bool { return s.Final() && s > taskstate.Shutdown }
