package calls

import (
	"slices"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

// ClusterView is how the coordinator sees everybody: what only it knows (offers, promises,
// sessions).
type ClusterView struct {
	Peers   []PeerView `cbor:"1,keyasint"`
	Waiting string     `cbor:"2,keyasint,omitempty"` // why the job asked about waits
	Index   uint64     `cbor:"3,keyasint"`           // ledger index the coordinator has applied
	Waited  []Spell    `cbor:"4,keyasint,omitempty"` // when and why the job asked about waited
	Frozen  string     `cbor:"5,keyasint,omitempty"` // why nothing is replaced
	Gone    []string   `cbor:"6,keyasint,omitempty"` // because of whom
	// Whys says why each job waits that does, if all were asked about.
	Whys map[taskstate.JobID]string `cbor:"7,keyasint,omitempty"`
}

// Spell is a coordinator.Spell on the wire; times in milliseconds since 1970, To is 0 while it
// lasts.
type Spell struct {
	_        struct{} `cbor:",toarray"`
	Reason   string
	From, To int64
}

// PeerView is how the coordinator sees one peer.
type PeerView struct {
	ID       taskstate.PeerID    `cbor:"1,keyasint"`
	Standing string              `cbor:"2,keyasint"`
	Offer    taskstate.Resources `cbor:"3,keyasint"`
	Promised taskstate.Resources `cbor:"4,keyasint"`
	Tasks    int                 `cbor:"5,keyasint"`
	Voter    bool                `cbor:"6,keyasint,omitempty"`
	Trouble  string              `cbor:"7,keyasint,omitempty"`  // why it takes no tasks
	Labels   map[string]string   `cbor:"10,keyasint,omitempty"` // as the peer says itself
	OS       string              `cbor:"11,keyasint,omitempty"`
	Arch     string              `cbor:"12,keyasint,omitempty"`
	Troubles []Trouble           `cbor:"13,keyasint,omitempty"` // what the coordinator knows to be wrong with it
	Running  taskstate.Resources `cbor:"14,keyasint,omitempty"` // of Promised, what has begun
	Away     int64               `cbor:"15,keyasint,omitempty"` // milliseconds it has been unreachable, 0: it is not
	Holds    []string            `cbor:"16,keyasint,omitempty"` // what it can keep from tasks
	Load     *session.Load       `cbor:"17,keyasint,omitempty"` // of its machine, as far as it says
}

// Trouble is an api.Trouble on the wire.
type Trouble struct {
	_             struct{} `cbor:",toarray"`
	Code, Message string
}

// WireTroubles puts troubles on the wire.
func WireTroubles(list []api.Trouble) (out []Trouble) {
	for _, t := range list {
		out = append(out, Trouble{Code: t.Code, Message: t.Message})
	}
	return out
}

// TroublesOf is what WireTroubles was given.
func TroublesOf(list []Trouble) (out []api.Trouble) {
	for _, t := range list {
		out = append(out, api.Trouble{Code: t.Code, Message: t.Message})
	}
	return out
}

// TroubleOf is the trouble of a peer that has a code, if the coordinator knows of it.
func (f *ClusterView) TroubleOf(peer taskstate.PeerID, code string) []api.Trouble {
	if f == nil {
		return nil
	}
	for _, p := range f.Peers {
		if p.ID == peer {
			return slices.DeleteFunc(TroublesOf(p.Troubles), func(t api.Trouble) bool { return t.Code != code })
		}
	}
	return nil
}

// ClusterCall asks how the coordinator sees every peer, and what a job waits for.
type ClusterCall struct {
	Job taskstate.JobID `cbor:"1,keyasint,omitempty"`
	All bool            `cbor:"2,keyasint,omitempty"` // why each job waits that does; only to a coordinator of this version or a newer one
}
