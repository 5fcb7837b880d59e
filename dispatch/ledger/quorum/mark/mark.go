package mark

import "cmp"

// Mark is how far one server of the ledger has acknowledged. The marks of a server only rise: an
// entry that is taken out of its log again, because another leader decided otherwise, makes room
// for one that is acknowledged in a later term.
type Mark struct {
	Server     string `cbor:"1,keyasint"`           // PEER/INCARNATION
	Generation uint64 `cbor:"2,keyasint"`           // of the ledger
	Term       uint64 `cbor:"3,keyasint,omitempty"` // in which Index was acknowledged, not that of the entry
	Index      uint64 `cbor:"4,keyasint,omitempty"` // the end of the log then
	Voted      uint64 `cbor:"5,keyasint,omitempty"` // the newest term it took part in; it may have given its vote in it
	Decided    uint64 `cbor:"6,keyasint,omitempty"` // up to here its log was decided, as far as it knew
}

// Same tells whether both speak of the same server of the same ledger.
func (m Mark) Same(o Mark) bool { return m.Server == o.Server && m.Generation == o.Generation }

// Behind tells whether m has lost something that o, of the same server, says it had.
func (m Mark) Behind(o Mark) bool {
	return m.Same(o) && (m.Voted < o.Voted || cmp.Or(cmp.Compare(m.Term, o.Term), cmp.Compare(m.Index, o.Index)) < 0)
}
