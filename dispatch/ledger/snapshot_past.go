package ledger

import (
	"errors"
	"maps"
	"math"
	"slices"

	"covey/taskstate"
)

// pastSnapshot is a formerAttempt in a snapshot. Owner is a position in the snapshot's list.
type pastSnapshot struct {
	_        struct{} `cbor:",toarray"`
	Slot     int
	Attempt  uint32
	Owner    uint32
	Index    uint64
	Assigned int64
	GivenUp  int64
	Reason   taskstate.Reason
	Late     []lateSnapshot // none or one
}

// lateSnapshot is a LateEnd in a snapshot.
type lateSnapshot struct {
	State taskstate.State `cbor:"1,keyasint"`
	Exit  int             `cbor:"2,keyasint,omitempty"`
	At    int64           `cbor:"3,keyasint,omitempty"`
	Heard int64           `cbor:"4,keyasint,omitempty"`
	Took  int64           `cbor:"5,keyasint,omitempty"`
}

// conflictSnapshot is a conflict in a snapshot.
type conflictSnapshot struct {
	_       struct{} `cbor:",toarray"`
	Slot    int
	Attempt uint32
	Owner   uint32
	State   taskstate.State
	At      int64
}

func (h *pastAttempts) pack(names, owners *owners) (out []pastSnapshot) {
	for _, n := range slices.Sorted(maps.Keys(h.former)) {
		for _, p := range h.former[n] {
			x := pastSnapshot{
				Slot: int(n), Attempt: p.attempt, Owner: names.of(owners, p.owner), Index: p.index,
				Assigned: p.assigned, GivenUp: p.givenUp, Reason: p.reason,
			}
			if l := p.late; l != nil {
				x.Late = []lateSnapshot{lateSnapshot(*l)}
			}
			out = append(out, x)
		}
	}
	return out
}

func (h *pastAttempts) packConflicts(names, owners *owners) (out []conflictSnapshot) {
	for _, c := range h.conflicted {
		out = append(out, conflictSnapshot{
			Slot: int(c.slot), Attempt: c.attempt, Owner: names.of(owners, c.owner), State: c.state, At: c.at,
		})
	}
	return out
}

// of renames an owner of another list.
func (o *owners) of(other *owners, id uint32) uint32 {
	x := other.list[id]
	return o.id(x.Peer, x.Incarnation)
}

var errPast = errors.New("its past is garbled")

func (h *pastAttempts) unpack(in []pastSnapshot, slots *slotTable) error {
	last := 0
	for _, p := range in {
		if p.Slot < last || !slots.possible(p.Slot, p.Attempt, p.Owner) {
			return errPast
		}
		if c := slots.get(p.Slot); c.kind == kindUntouched {
			return errPast // it was never given to anybody
		}
		last = p.Slot
		k := uint32(p.Slot)
		if h.former == nil {
			h.former = map[uint32][]formerAttempt{}
		}
		if len(h.former[k]) >= KeepPast || len(p.Late) > 1 {
			return errPast
		}
		x := formerAttempt{index: p.Index, assigned: p.Assigned, givenUp: p.GivenUp, owner: p.Owner, attempt: p.Attempt, reason: p.Reason}
		for _, l := range p.Late {
			if !isEnd(l.State) {
				return errPast
			}
			x.late = (*LateEnd)(&l)
		}
		h.former[k] = append(h.former[k], x)
	}
	if len(h.former) > KeepPastSlots {
		return errPast
	}
	return nil
}

func (h *pastAttempts) unpackConflicts(in []conflictSnapshot, slots *slotTable) error {
	if len(in) > KeepConflicts || len(in) > h.conflicts {
		return errPast
	}
	for _, c := range in {
		if !slots.possible(c.Slot, c.Attempt, c.Owner) || !isEnd(c.State) {
			return errPast
		}
		h.conflicted = append(h.conflicted, conflict{
			slot: uint32(c.Slot), owner: c.Owner, attempt: c.Attempt, state: c.State, at: c.At,
		})
	}
	return nil
}

// possible tells whether there can be such an attempt.
func (t *slotTable) possible(slot int, attempt, owner uint32) bool {
	return slot >= 1 && slot <= min(t.count, math.MaxInt32) && attempt >= 1 && int(owner) < len(t.owners.list)
}
