package calls

import (
	"errors"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/act"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// Protocol carries what only the coordinator decides. A peer that is asked and does not coordinate
// passes the call on.
const Protocol = "/covey/call/2"

const (
	Hops    = 3                // how often a call is passed on before it counts as lost between two opinions
	Timeout = 10 * time.Second // one try, answer included: a ledger write at a slow majority
	retry   = 50 * time.Millisecond
	slow    = 100 * time.Millisecond // a call that is not answered by then, or within two round trips, makes the voters look whether the coordinator lives
	silent  = time.Second            // and so does one that goes on not to be answered, so often
)

// Call is a request for a decision. Exactly one of the commands is set. All are idempotent, so that
// any call may be repeated.
type Call struct {
	From    taskstate.PeerID        `cbor:"1,keyasint"` // the peer whose person asks, and who signs
	Hops    int                     `cbor:"-"`          // see Signed
	Submit  *taskstate.Job          `cbor:"3,keyasint,omitempty"`
	Cancel  *ledger.Cancel          `cbor:"4,keyasint,omitempty"`
	Invite  *ledger.Invite          `cbor:"5,keyasint,omitempty"`
	Revoke  *ledger.Revoke          `cbor:"6,keyasint,omitempty"`
	Remove  *ledger.Remove          `cbor:"7,keyasint,omitempty"`
	Leave   *ledger.Depart          `cbor:"8,keyasint,omitempty"`
	Join    *JoinCall               `cbor:"9,keyasint,omitempty"`
	Cluster *ClusterCall            `cbor:"10,keyasint,omitempty"`
	Again   bool                    `cbor:"11,keyasint,omitempty"`             // with Submit: asked before, and the answer never came
	First   int                     `cbor:"37,keyasint,omitempty" dialect:"2"` // with Submit: see ledger.Submit
	Thaw    *ThawCall               `cbor:"12,keyasint,omitempty"`
	At      int64                   `cbor:"2,keyasint,omitempty"`  // when From signed it, milliseconds since 1970
	Nonce   []byte                  `cbor:"14,keyasint,omitempty"` // so that it counts once
	Act     *act.Act                `cbor:"13,keyasint,omitempty"` // From's word for the ledger, where what it asks for goes there
	Avail   *ledger.SetAvailability `cbor:"30,keyasint,omitempty"`
	Label   *ledger.Label           `cbor:"31,keyasint,omitempty"`
	Set     *ledger.Set             `cbor:"32,keyasint,omitempty"`
	Roles   *RolesCall              `cbor:"33,keyasint,omitempty"`
	SetTime *ledger.SetTime         `cbor:"36,keyasint,omitempty" dialect:"2"`

	Update    *ledger.Update  `cbor:"20,keyasint,omitempty"`
	Renew     *ledger.Renew   `cbor:"21,keyasint,omitempty"`
	Retire    *ledger.Retire  `cbor:"22,keyasint,omitempty"`
	Rollout   *ledger.Rollout `cbor:"23,keyasint,omitempty"`
	Preview   *PreviewCall    `cbor:"24,keyasint,omitempty"`
	Rebalance *RebalanceCall  `cbor:"25,keyasint,omitempty"`
	Trigger   *TriggerCall    `cbor:"26,keyasint,omitempty"`
	Pin       *ledger.Pin     `cbor:"27,keyasint,omitempty"`
	Kept      *ledger.Kept    `cbor:"28,keyasint,omitempty"`
	NextCall
}

// Asked is the command that a call asks for and its asker signs for the ledger, if there is one.
func (c *Call) Asked() (cmd ledger.Command, ok bool) {
	cmd = ledger.Command{Cancel: c.Cancel, Invite: c.Invite, Revoke: c.Revoke, Remove: c.Remove, Avail: c.Avail, Label: c.Label, Set: c.Set, SetTime: c.SetTime, Renew: c.Renew, Retire: c.Retire, Rollout: c.Rollout, Pin: c.Pin}
	if c.Roles != nil {
		cmd.Admit = &ledger.Admit{Entry: admission.Entry{Peer: c.Roles.Peer, Roles: c.Roles.Roles}}
	}
	return cmd, cmd != ledger.Command{}
}

// JoinCall is a stranger's request, seen by the peer it dialled.
type JoinCall struct {
	Peer    taskstate.PeerID      `cbor:"1,keyasint"`
	Request admission.JoinRequest `cbor:"2,keyasint"`
}

// ThawCall says that the peers that vanished are really gone.
type ThawCall struct{}

// Reply answers a call. Lost means: this peer does not coordinate and could not pass the call on;
// ask again.
type Reply struct {
	Error   *api.Error            `cbor:"1,keyasint,omitempty"`
	Lost    bool                  `cbor:"2,keyasint,omitempty"`
	Join    *admission.JoinAnswer `cbor:"3,keyasint,omitempty"`
	Cluster *ClusterView          `cbor:"4,keyasint,omitempty"`
	Index   uint64                `cbor:"5,keyasint,omitempty"` // of the decision: the asker's replica will have it at this index
	Gone    []taskstate.PeerID    `cbor:"6,keyasint,omitempty"` // Thaw: who does not count any more
	Until   int64                 `cbor:"7,keyasint,omitempty"` // Invite: when it expires
	Now     int64                 `cbor:"8,keyasint,omitempty"` // Lost because it was signed at another time: the coordinator's clock
	ChangeReply
}

// ErrNobodyDecides is what Decide ends with when its context does before a coordinator was found.
var ErrNobodyDecides = errors.New("no coordinator")

// TriggerCall asks for a run of a schedule now. The caller draws its id, so that asking again is
// the same run.
type TriggerCall struct {
	Job taskstate.JobID `cbor:"1,keyasint"`
	Run taskstate.JobID `cbor:"2,keyasint"`
	// Order is the caller's for that run (taskstate.Job.RunNow), which follows from no schedule.
	Order *taskstate.Order `cbor:"3,keyasint,omitempty"`
}

// RolesCall asks for other roles of an admitted peer.
type RolesCall struct {
	Peer  taskstate.PeerID `cbor:"1,keyasint"`
	Roles []admission.Role `cbor:"2,keyasint"`
}
