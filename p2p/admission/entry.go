package admission

import "slices"

// Role says what an admitted peer may do.
type Role string

// The roles. A ticket gives those of AllRoles unless it says otherwise.
const (
	Worker Role = "worker" // runs tasks
	Submit Role = "submit" // hands in and cancels jobs
	Voter  Role = "voter"  // may be made a voter of the ledger, and so coordinator
	Admin  Role = "admin"  // invites and removes peers, changes availability, and reads
	Read   Role = "read"   // reads what jobs of others run, and what their tasks wrote and left
)

// AllRoles is what a machine of one's own has, in the order they are shown: Admin includes Read.
func AllRoles() []Role { return []Role{Worker, Submit, Voter, Admin} }

// KnownRoles are all there are. Others know them by their places: new ones come last.
func KnownRoles() []Role { return append(AllRoles(), Read) }

// Entry is one line of the roster: who was admitted, as what, by whom. Sig is By's signature over
// the deterministic encoding of the entry without Sig, prefixed with a domain string.
type Entry struct {
	Cluster string `cbor:"1,keyasint"` // cluster id
	Peer    string `cbor:"2,keyasint"` // peer id
	Name    string `cbor:"3,keyasint,omitempty"`
	Roles   []Role `cbor:"4,keyasint"`
	Ticket  string `cbor:"5,keyasint,omitempty"` // id of the invite used
	At      int64  `cbor:"6,keyasint"`           // milliseconds since 1970
	By      string `cbor:"7,keyasint"`           // peer id of the coordinator that wrote it
	Removed bool   `cbor:"8,keyasint,omitempty"` // a tombstone: it was removed at At
	Sig     []byte `cbor:"9,keyasint,omitempty"`

	// A tombstone also names the decision it is of: the ledger's index when it was signed, and the
	// epoch of its coordinator.
	Index      uint64 `cbor:"10,keyasint,omitempty"`
	Generation uint64 `cbor:"11,keyasint,omitempty"`
	Term       uint64 `cbor:"12,keyasint,omitempty"`
}

// Has tells whether the entry grants a role.
func (e Entry) Has(r Role) bool {
	return !e.Removed && slices.Contains(e.Roles, r)
}
