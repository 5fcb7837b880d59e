package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/coveyproject/covey/dispatch/ledger/act"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// snapshotVersion is raised when the shape below changes; no other is read (see FromVersion01).
const snapshotVersion = 5

// snapshot is a State on disk and on the wire: the same content has the same bytes, whatever way
// the State came to it.
type snapshot struct {
	Version     int               `cbor:"1,keyasint"`
	Index       uint64            `cbor:"2,keyasint"`
	Epoch       taskstate.Epoch   `cbor:"3,keyasint"`
	Stamp       int64             `cbor:"4,keyasint"`
	Coordinator taskstate.PeerID  `cbor:"5,keyasint"`
	Cluster     string            `cbor:"6,keyasint"`
	Generation  uint64            `cbor:"7,keyasint"`
	Open        bool              `cbor:"8,keyasint"`
	Members     []Member          `cbor:"9,keyasint"`  // by peer id
	Invites     []InviteRecord    `cbor:"10,keyasint"` // by id
	Owners      []owner           `cbor:"11,keyasint"` // in the order cells name them first
	Jobs        []jobSnapshot     `cbor:"12,keyasint"` // in order of acceptance
	Finished    []int             `cbor:"13,keyasint"` // positions in Jobs, in the order they ended
	Gone        []taskstate.JobID `cbor:"14,keyasint"` // the longest forgotten first
	Began       uint64            `cbor:"15,keyasint,omitempty"`
	Settings    *Settings         `cbor:"16,keyasint,omitempty"` // nil: nobody said anything
	WholeFrom   uint64            `cbor:"17,keyasint,omitempty"` // in snapshots from before 0.2: a checksum over whole entries
	WholeChain  []byte            `cbor:"18,keyasint,omitempty"`
	GoneFor     []Gone            `cbor:"19,keyasint,omitempty"` // why those in Gone are
	Dialect     int               `cbor:"20,keyasint,omitempty"`
	NextState

	Spent     []act.Signer `cbor:"21,keyasint,omitempty"`
	ChainFrom uint64       `cbor:"22,keyasint,omitempty"`
	Chain     []byte       `cbor:"23,keyasint,omitempty"`
	TimeSet   *TimeSet     `cbor:"24,keyasint,omitempty" dialect:"2"` // nil: the time was never set
}

type jobSnapshot struct {
	Job       taskstate.Job `cbor:"1,keyasint"`
	Index     uint64        `cbor:"2,keyasint"`
	Accepted  int64         `cbor:"3,keyasint"`
	Cancelled bool          `cbor:"4,keyasint,omitempty"`
	Reason    string        `cbor:"5,keyasint,omitempty"`
	At        int64         `cbor:"6,keyasint,omitempty"`
	Ended     int64         `cbor:"7,keyasint,omitempty"`
	Conflicts int           `cbor:"8,keyasint,omitempty"`
	Kinds     []endKind     `cbor:"9,keyasint,omitempty"` // in the order cells name them first
	Cells     []byte        `cbor:"10,keyasint,omitempty"`
	First     uint32        `cbor:"11,keyasint,omitempty"`

	By         taskstate.PeerID `cbor:"12,keyasint,omitempty"`
	Epoch      taskstate.Epoch  `cbor:"13,keyasint"`
	Past       []pastSnapshot   `cbor:"14,keyasint,omitempty"` // by slot
	Conflicted []conflict       `cbor:"15,keyasint,omitempty"`
	Saved      *savedSnapshot   `cbor:"31,keyasint,omitempty"`

	lastingSnapshot
}

// Encode is a deterministic snapshot: equal states have equal bytes.
func (s *State) Encode() ([]byte, error) {
	return encodeBare(s, func(*taskstate.Job) bool { return false })
}

// EncodeFor is a snapshot as a peer gets it that may know of those jobs only what they run that it
// has to do with.
func EncodeFor(s *State, peer taskstate.PeerID) ([]byte, error) {
	return encodeBare(s, func(job *taskstate.Job) bool { return !job.Party(peer) })
}

// encodeBare is Encode without what those jobs run of which hide says so.
func encodeBare(s *State, hide func(*taskstate.Job) bool) ([]byte, error) {
	out := snapshot{
		Version: snapshotVersion, Index: s.index, Epoch: s.epoch, Stamp: s.stamp, Coordinator: s.coordinator,
		Cluster: s.cluster, Generation: s.generation, Open: s.open, Began: s.began, Dialect: s.roster.dialect, NextState: s.next,
		Members: slices.Collect(s.Members()), Gone: s.book.finished.gone.ids, GoneFor: s.book.finished.gone.reasons(),
		Spent: s.warrants.spent.Pack(),
	}
	if s.settings != (Settings{}) {
		out.Settings = &s.settings
	}
	if s.timeSet != (TimeSet{}) {
		out.TimeSet = &s.timeSet
	}
	if s.chain.from != 0 {
		out.ChainFrom, out.Chain = s.chain.from, s.chain.sum[:]
	}
	for _, id := range slices.Sorted(maps.Keys(s.roster.invites)) {
		out.Invites = append(out.Invites, *s.roster.invites[id])
	}
	names := newOwners()
	place := make(map[*JobRecord]int, len(s.book.order))
	for i, j := range s.book.order {
		place[j] = i
		job := j.snapshot(&names)
		job.bare(hide)
		out.Jobs = append(out.Jobs, job)
	}
	for _, j := range s.book.finished.list {
		out.Finished = append(out.Finished, place[j])
	}
	out.Owners = names.list
	return wire.Marshal(out)
}

func (j *JobRecord) snapshot(names *owners) jobSnapshot {
	out := jobSnapshot{
		Job: *j.job, Index: j.index, Accepted: j.accepted, Cancelled: j.cancelled, Reason: j.reason, At: j.at,
		Ended: j.ended, Conflicts: j.past.conflicts, First: j.slots.first, By: j.by, Epoch: j.epoch,
	}
	p := cellPacker{slots: &j.slots, names: names}
	out.Cells = p.pack()
	out.Kinds = p.kinds.list
	out.Past, out.Conflicted = j.past.pack(names, j.slots.owners), j.past.packConflicts(names, j.slots.owners)
	out.lastingSnapshot, out.Saved = j.packLasting(), j.slots.saved.pack()
	return out
}

// bare takes away what those specs run of which hide says so.
func (j *jobSnapshot) bare(hide func(*taskstate.Job) bool) {
	if hide(&j.Job) {
		j.Job = j.Job.Bare()
	}
	for i := range j.Versions {
		if v := &j.Versions[i]; hide(v) {
			*v = v.Bare()
		}
	}
}

// specs yields a job as it is wanted, and its other versions.
func (j *JobRecord) specs(yield func(*taskstate.Job) bool) {
	if !yield(j.job) || j.long == nil {
		return
	}
	for v, spec := range j.long.versions {
		if v != j.job.Version && !yield(spec) {
			return
		}
	}
}

// Lacking are the jobs of which it is not known what they run, and others may know it, in order of
// acceptance.
func Lacking(s *State) []taskstate.JobID { return withheld(s, false) }

// Lost are the jobs of which nobody knows what they run.
func Lost(s *State) []taskstate.JobID { return withheld(s, true) }

func withheld(s *State, lost bool) (out []taskstate.JobID) {
	for _, j := range s.book.order {
		for spec := range j.specs {
			if w := spec.Withheld; w != nil && w.Lost == lost {
				out = append(out, j.job.ID)
				break
			}
		}
	}
	return out
}

// Beyond tells whether it is known of some job what it runs that a peer has nothing to do with.
func Beyond(s *State, peer taskstate.PeerID) bool {
	for _, j := range s.book.order {
		for spec := range j.specs {
			if spec.Withheld == nil && spec.Order != nil && !spec.Party(peer) {
				return true
			}
		}
	}
	return false
}

// Fill takes from another state what jobs run that is lacking here. The state must be nobody
// else's.
func Fill(s, from *State) {
	for _, j := range s.book.order {
		other := from.book.jobs[j.job.ID]
		if other == nil {
			continue
		}
		for spec := range j.specs {
			for whole := range other.specs {
				if spec.Fill(whole) {
					break
				}
			}
		}
	}
}

// GiveUp says of the jobs that are lacking that nobody knows any more what they run. The state must
// be nobody else's.
func GiveUp(s *State) {
	for _, j := range s.book.order {
		for spec := range j.specs {
			if spec.Withheld != nil {
				spec.Withheld.Lost = true
			}
		}
	}
}

// DecodeState reads what Encode wrote. It checks everything: a State that it returns keeps every
// promise of this package.
func DecodeState(b []byte) (*State, error) {
	var in snapshot
	if err := wire.Unmarshal(b, &in); err != nil {
		return nil, fmt.Errorf("ledger snapshot: %w", err)
	}
	if in.Version != snapshotVersion {
		return nil, fmt.Errorf("ledger snapshot: version %d, this program reads %d; update the older peer (%w)", in.Version, snapshotVersion, wire.ErrUnknown)
	}
	s := NewState()
	s.index, s.epoch, s.stamp, s.coordinator = in.Index, in.Epoch, in.Stamp, in.Coordinator
	s.cluster, s.generation, s.open, s.began = in.Cluster, in.Generation, in.Open, in.Began
	s.next = in.NextState
	if s.roster.dialect = in.Dialect; in.Dialect < 0 || in.Dialect == 1 {
		return nil, errors.New("ledger snapshot: a dialect that is none")
	}
	if in.Settings != nil {
		if s.settings = *in.Settings; s.settings == (Settings{}) {
			return nil, errors.New("ledger snapshot: settings that set nothing")
		}
		if err := s.settings.Check(); err != nil {
			return nil, fmt.Errorf("ledger snapshot: %w", err)
		}
	}
	if in.TimeSet != nil {
		if s.timeSet = *in.TimeSet; s.timeSet.To <= 0 || s.timeSet.To > s.stamp {
			return nil, errors.New("ledger snapshot: its time was set to one that it has not reached")
		}
	}
	for _, o := range in.Owners {
		s.book.owners.id(o.Peer, o.Incarnation)
	}
	if len(s.book.owners.list) != len(in.Owners) {
		return nil, errors.New("ledger snapshot: an incarnation is listed twice")
	}
	if err := errors.Join(s.chain.restore(&in), s.roster.restore(&in), s.warrants.spent.Restore(in.Spent), s.book.restore(&in)); err != nil {
		return nil, fmt.Errorf("ledger snapshot: %w", err)
	}
	return s, nil
}

func (c *chain) restore(in *snapshot) error {
	if (in.ChainFrom == 0) != (in.Chain == nil) || in.ChainFrom > in.Index || in.Chain != nil && len(in.Chain) != len(c.sum) {
		return errors.New("its chain is impossible")
	}
	c.from = in.ChainFrom
	copy(c.sum[:], in.Chain)
	return nil
}

func (r *roster) restore(in *snapshot) error {
	last := ""
	for i := range in.Members {
		m := in.Members[i]
		if m.Entry.Peer <= last {
			return errors.New("members are not in order")
		}
		if len(m.Grants) > maxGrants {
			return errors.New("a member has its roles from too many")
		}
		last = m.Entry.Peer
		r.members[last] = &m
	}
	last = ""
	for _, x := range in.Invites {
		if x.ID <= last {
			return errors.New("invites are not in order")
		}
		last = x.ID
		r.invites[last] = &x
	}
	return nil
}

func (b *jobTable) restore(in *snapshot) error {
	if len(in.Gone) > KeepGone {
		return errors.New("too many forgotten jobs")
	}
	if len(in.GoneFor) != len(in.Gone) {
		return errors.New("not every forgotten job has a reason")
	}
	for i, id := range in.Gone {
		b.finished.gone.add(id, in.GoneFor[i])
	}
	if len(b.finished.gone.why) != len(in.Gone) {
		return errors.New("a job was forgotten twice")
	}
	over := 0
	for i := range in.Jobs {
		j, err := b.restoreJob(&in.Jobs[i])
		if err != nil {
			return fmt.Errorf("job %q: %w", in.Jobs[i].Job.ID, err)
		}
		if j.over {
			over++
		}
	}
	seen := map[int]bool{}
	for _, i := range in.Finished {
		if i < 0 || i >= len(b.order) || seen[i] || !b.order[i].over {
			return errors.New("the list of finished jobs is wrong")
		}
		seen[i] = true
		b.finished.add(b.order[i])
	}
	if len(seen) != over {
		return errors.New("the list of finished jobs is too short")
	}
	return nil
}

func (b *jobTable) restoreJob(in *jobSnapshot) (*JobRecord, error) {
	job := &in.Job
	if !submittable(job) || b.jobs[job.ID] != nil || b.finished.gone.have(job.ID) {
		return nil, errors.New("is impossible or there twice")
	}
	if k := len(b.order); k > 0 && b.order[k-1].index > in.Index {
		return nil, errors.New("is out of order")
	}
	j := newJobRecord(job, in.Index, in.Accepted, &b.owners)
	j.cancelled, j.reason, j.at, j.past.conflicts, j.slots.first = in.Cancelled, in.Reason, in.At, in.Conflicts, in.First
	j.by, j.epoch = in.By, in.Epoch
	for _, f := range in.Kinds {
		if !isEnd(f.State) {
			return nil, fmt.Errorf("%v is no end", f.State)
		}
		j.slots.kinds.id(f)
	}
	if len(j.slots.kinds.list) != len(in.Kinds) {
		return nil, errors.New("an end is listed twice")
	}
	if err := j.unpackLasting(&in.lastingSnapshot); err != nil {
		return nil, err
	}
	err := cmp.Or(
		j.slots.unpack(in.Cells, j.cancelled), j.slots.unpackSaved(in.Saved), j.checkExtras(),
		j.past.unpack(in.Past, &j.slots), j.past.unpackConflicts(in.Conflicted, &j.slots),
	)
	if err != nil {
		return nil, err
	}
	if j.done() {
		j.over, j.ended, j.weight = true, in.Ended, j.estimateBytes()
	} else if in.Ended != 0 {
		return nil, errors.New("has ended and has not")
	}
	b.jobs[job.ID] = j
	b.order = append(b.order, j)
	b.finished.needed.count(j.job, 1) // until it is found among those that are over
	return j, b.enlist(j)
}
