package ledger

import (
	"errors"
	"maps"
	"slices"
)

// pastSnapshot is what a slot has left behind.
type pastSnapshot struct {
	Slot     uint32          `cbor:"1,keyasint"`
	Attempts []formerAttempt `cbor:"2,keyasint"` // the oldest first
}

func (h *pastAttempts) pack(names, owners *owners) (out []pastSnapshot) {
	for _, n := range slices.Sorted(maps.Keys(h.former)) {
		x := pastSnapshot{Slot: n, Attempts: slices.Clone(h.former[n])}
		for i := range x.Attempts {
			p := &x.Attempts[i]
			p.Owner = names.of(owners, p.Owner)
		}
		out = append(out, x)
	}
	return out
}

func (h *pastAttempts) packConflicts(names, owners *owners) []conflict {
	out := slices.Clone(h.conflicted)
	for i := range out {
		out[i].Owner = names.of(owners, out[i].Owner)
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
	if len(in) > 0 {
		h.former = make(map[uint32][]formerAttempt, min(len(in), KeepPastSlots))
	}
	last := uint32(0)
	for _, x := range in {
		if x.Slot <= last || len(x.Attempts) < 1 || len(x.Attempts) > KeepPast {
			return errPast
		}
		last = x.Slot
		for _, p := range x.Attempts {
			if !slots.possible(last, p.Attempt, p.Owner) || p.Version != 0 && !slots.versioned ||
				p.Late != nil && !isEnd(p.Late.State) || p.End != nil && (!isEnd(p.End.Kind.State) || len(p.End.Kind.Message) > maxPastMessage) {
				return errPast
			}
		}
		if slots.get(int(last)).kind == kindUntouched { // it was never given to anybody
			return errPast
		}
		h.former[last] = x.Attempts
	}
	if len(in) > KeepPastSlots {
		return errPast
	}
	return nil
}

func (h *pastAttempts) unpackConflicts(in []conflict, slots *slotTable) error {
	if len(in) > KeepConflicts || len(in) > h.conflicts {
		return errPast
	}
	for _, c := range in {
		if !slots.possible(c.Slot, c.Attempt, c.Owner) || !isEnd(c.State) {
			return errPast
		}
	}
	h.conflicted = in
	return nil
}

// possible tells whether there can be such an attempt.
func (t *slotTable) possible(slot, attempt, owner uint32) bool {
	return slot >= 1 && int64(slot) <= int64(t.count) && attempt >= 1 && int(owner) < len(t.owners.list)
}
