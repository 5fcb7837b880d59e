package ledger

import (
	"covey/p2p/wire"
	"covey/taskstate"
)

// keyedForm and keyedLate are what they are called after, read as they are written now.
type (
	keyedForm form
	keyedLate lateSnapshot
)

// oldForm is a form in snapshots of version 4 and before.
type oldForm struct {
	_       struct{} `cbor:",toarray"`
	State   taskstate.State
	Exit    int
	Signal  int
	Reason  taskstate.Reason
	Message string
}

// oldLate is a lateSnapshot in snapshots of version 4 and before.
type oldLate struct {
	_     struct{} `cbor:",toarray"`
	State taskstate.State
	Exit  int
	At    int64
	Heard int64
}

// UnmarshalCBOR reads a form as it is written now, or as before version 5.
func (f *form) UnmarshalCBOR(b []byte) error {
	if !wire.IsArray(b) {
		return wire.Unmarshal(b, (*keyedForm)(f))
	}
	var o oldForm
	err := wire.Unmarshal(b, &o)
	*f = form{State: o.State, Exit: o.Exit, Signal: o.Signal, Reason: o.Reason, Message: o.Message}
	return err
}

// UnmarshalCBOR reads a late end as it is written now, or as before version 5.
func (l *lateSnapshot) UnmarshalCBOR(b []byte) error {
	if !wire.IsArray(b) {
		return wire.Unmarshal(b, (*keyedLate)(l))
	}
	var o oldLate
	err := wire.Unmarshal(b, &o)
	*l = lateSnapshot{State: o.State, Exit: o.Exit, At: o.At, Heard: o.Heard}
	return err
}
