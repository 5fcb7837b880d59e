package taskstate

import "github.com/coveyproject/covey/p2p/wire"

// keyedStatus is a Status, read as it is written now.
type keyedStatus Status

type oldStatus struct {
	_       struct{} `cbor:",toarray"`
	Task    TaskID
	Seq     uint64
	State   State
	Index   uint64
	At      int64
	Exit    int
	Signal  int
	Reason  Reason
	Message string
}

type oldBatch struct {
	_           struct{} `cbor:",toarray"`
	Author      PeerID
	Incarnation Incarnation
	Number      uint64
	Statuses    []Status
}

func (o *oldStatus) status() Status {
	return Status{
		Task: o.Task, Seq: o.Seq, State: o.State, Index: o.Index, At: o.At, Exit: o.Exit, Signal: o.Signal, Reason: o.Reason, Message: o.Message,
	}
}

// UnmarshalCBOR reads a status as it is written now, or as version 0.1 wrote it.
func (s *Status) UnmarshalCBOR(b []byte) error {
	if fast, ok := fastStatus(b); ok {
		*s = fast
		return nil
	}
	if !wire.IsArray(b) {
		return wire.Unmarshal(b, (*keyedStatus)(s))
	}
	var o oldStatus
	if err := wire.Unmarshal(b, &o); err != nil {
		return err
	}
	*s = o.status()
	return nil
}

func decodeBatch(p []byte) (b Batch, err error) {
	if !wire.IsArray(p) {
		err = wire.Unmarshal(p, &b)
		return b, err
	}
	var o oldBatch
	err = wire.Unmarshal(p, &o)
	return Batch{Author: o.Author, Incarnation: o.Incarnation, Number: o.Number, Statuses: o.Statuses}, err
}
