package ledger

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// What snapshots of version 0.1 hold that is written otherwise now: ends were arrays, did not say
// how long an attempt took, and those of former attempts were a list of their own; a slot's
// restarts and a schedule's newest run were fields of their own.
type (
	snapshot01 struct {
		snapshot
		Jobs []job01 `cbor:"12,keyasint"`
	}
	job01 struct {
		jobSnapshot
		Kinds    []endKind01 `cbor:"9,keyasint,omitempty"`
		Past     []past01    `cbor:"14,keyasint,omitempty"`
		PastEnds []pastEnd01 `cbor:"25,keyasint,omitempty"`
		LastRun  int64       `cbor:"18,keyasint,omitempty"`
		Extras   []extras01  `cbor:"20,keyasint,omitempty"`
	}
	extras01 struct {
		extrasSnapshot
		Restarts int              `cbor:"10,keyasint,omitempty"`
		Quick    int              `cbor:"11,keyasint,omitempty"`
		Recent   taskstate.Stamps `cbor:"12,keyasint,omitempty"`
	}
	past01 struct {
		_        struct{} `cbor:",toarray"`
		Slot     uint32
		Attempt  uint32
		Owner    uint32
		Index    uint64
		Assigned int64
		GivenUp  int64
		Reason   taskstate.Reason
		Late     []late01
	}
	pastEnd01 struct {
		Position int        `cbor:"1,keyasint"` // in Past
		Version  uint32     `cbor:"2,keyasint,omitempty"`
		End      *endKind01 `cbor:"3,keyasint,omitempty"`
		At       int64      `cbor:"4,keyasint,omitempty"`
		Seq      uint32     `cbor:"5,keyasint,omitempty"`
	}
	endKind01 struct {
		_       struct{} `cbor:",toarray"`
		State   taskstate.State
		Exit    int
		Signal  int
		Reason  taskstate.Reason
		Message string
	}
	late01 struct {
		_     struct{} `cbor:",toarray"`
		State taskstate.State
		Exit  int
		At    int64
		Heard int64
	}
)

// FromVersion01 turns a snapshot that version 0.1 wrote into one of now, and leaves any other as it
// is. DecodeState says whether it makes sense.
func FromVersion01(b []byte) ([]byte, error) {
	if len(b) < 3 || !bytes.Equal(b[1:3], []byte{1, 3}) { // its first field, the version
		return b, nil
	}
	var in snapshot01
	if err := wire.Unmarshal(b, &in); err != nil {
		return nil, fmt.Errorf("ledger snapshot of version 0.1: %w", err)
	}
	out := in.snapshot
	out.Version, out.GoneFor = snapshotVersion, make([]Gone, len(in.Gone))
	for i := range in.Jobs {
		j, err := in.Jobs[i].now()
		if err != nil {
			return nil, fmt.Errorf("ledger snapshot of version 0.1: job %q: %w", j.Job.ID, err)
		}
		out.Jobs = append(out.Jobs, j)
	}
	return wire.Marshal(out)
}

func (j *job01) now() (jobSnapshot, error) {
	out := j.jobSnapshot
	for _, k := range j.Kinds {
		out.Kinds = append(out.Kinds, k.now())
	}
	for i, p := range j.Past {
		x := formerAttempt{Attempt: p.Attempt, Owner: p.Owner, Index: p.Index, Assigned: p.Assigned, GivenUp: p.GivenUp, Reason: p.Reason}
		for _, l := range p.Late { // none or one
			x.Late = &LateEnd{State: l.State, Exit: l.Exit, At: l.At, Heard: l.Heard}
		}
		if len(j.PastEnds) > 0 && j.PastEnds[0].Position == i {
			e := j.PastEnds[0]
			if x.Version = e.Version; e.End != nil {
				x.End = newFormerEnd(e.End.now(), e.At, e.Seq, lasted{})
			}
			j.PastEnds = j.PastEnds[1:]
		}
		if k := len(out.Past) - 1; k >= 0 && out.Past[k].Slot == p.Slot {
			out.Past[k].Attempts = append(out.Past[k].Attempts, x)
		} else {
			out.Past = append(out.Past, pastSnapshot{Slot: p.Slot, Attempts: []formerAttempt{x}})
		}
	}
	for _, x := range j.Extras {
		x.History = taskstate.History{Restarts: x.Restarts, Quick: x.Quick, Recent: x.Recent}
		out.Extras = append(out.Extras, x.extrasSnapshot)
	}
	out.Starts.Last = j.LastRun
	cells, err := cellsFrom01(j.Cells)
	out.Cells = cells
	return out, err
}

func (k endKind01) now() endKind {
	return endKind{State: k.State, Exit: k.Exit, Signal: k.Signal, Reason: k.Reason, Message: k.Message}
}

// cellsFrom01 writes after each settled cell that nobody knows how long it took.
func cellsFrom01(in []byte) (out []byte, err error) {
	for len(in) > 0 {
		fields := 3 // skipped, kind, attempt
		for i := 0; i < fields; i++ {
			v, n := binary.Uvarint(in)
			if n <= 0 {
				return nil, errCells
			}
			out, in = append(out, in[:n]...), in[n:]
			switch {
			case i == 1 && v == uint64(kindOpen):
				fields = 6 // and owner, index, assigned
			case i == 1 && v >= uint64(kindFirst):
				fields = 8 // and number, end
			}
		}
		if fields == 8 {
			out = append(out, 0, 0)
		}
	}
	return out, nil
}
