package doctor

import (
	"net/netip"
	"time"

	"github.com/coveyproject/covey/node/api"
)

// Known is a fact, or why it is not known. Its zero value was not tried.
type Known[T any] struct {
	value T
	is    bool
	why   string
}

// Is is a fact that is known.
func Is[T any](v T) Known[T] { return Known[T]{value: v, is: true} }

// NotTried is a fact that is not known, and why.
func NotTried[T any](why string) Known[T] { return Known[T]{why: why} }

// Get is the fact, if it is known.
func (k Known[T]) Get() (T, bool) { return k.value, k.is }

// Facts are what there is to judge about one peer.
type Facts struct {
	Dir     string        // the data folder
	Running Known[bool]   // a peer runs with it
	Faults  []api.Finding // what the one who looked has judged already: the files of the folder

	TCP, UDP  Known[Reach]
	NAT       Known[NAT]
	Links     Known[Links]
	Carried   Known[Carried]
	Clock     Known[[]Skew]
	Sync      Known[Sync]
	Room      Known[Room]
	Folder    Known[Folder]
	Limits    Known[Limits]
	Cgroup    Known[Cgroup]
	Versions  Known[Versions]
	Voters    Known[Voters]
	Names     Known[[]string] // ids of other peers that have this one's name
	LAN       Known[LAN]
	Elections Known[int] // in the last hour
	Troubles  Known[Troubles]
}

// Reach is what others found who dialled this peer, by name.
type Reach struct {
	Port    int
	Reached []string
	Not     []string
	Relayed bool // it can be reached through a relay
}

// NAT is where this peer's datagrams come from, as different peers see them.
type NAT struct {
	Own  []netip.Addr
	Seen []netip.AddrPort // one of each peer that told
}

// Links are this peer's connections. Direct and Relayed are names.
type Links struct {
	Direct, Relayed []string
	None            []string // that are here, and not connected
	Places          int      // relays at which others find this peer
	Punched, Missed int      // direct connections through NATs that were tried since the start
}

// Carried is what came over this peer's links when it was tried.
type Carried struct {
	Size  int64 // of a large message, in bytes
	Limit time.Duration
	Lines []Line
	Mute  []string // peers that are away, and whose machines accept connections all the same
}

// Line is what came over the link to one peer: a small message and a large one.
type Line struct {
	Peer  string
	Trip  time.Duration // of the small one
	Large time.Duration // how much longer the large one took
	Lost  bool          // the large one did not come within Limit
	// Silent tells that the small one did not come within Limit either, though a connection stands.
	Silent bool
}

// Skew is how far another clock is ahead of this one, and how wrong that may be.
type Skew struct {
	Peer   string
	Ahead  time.Duration
	Within time.Duration
}

// Sync is how long it takes to bring a block to the disk.
type Sync struct {
	P50, P99 time.Duration
	Tries    int
	Votes    bool   // this peer decides, and others wait for its disk
	Failed   string // why nothing could be written; "": it could
}

// Room is how the disk stands, in bytes. Below Mark a peer takes no tasks.
type Room struct {
	Free, Total, LowLimit       int64
	Inodes, AllInodes, LowFiles int64 // the same of inodes; AllInodes is 0 where there is no fixed number
	ReadOnly                    bool
}

// Folder is whose the data folder is, and where.
type Folder struct {
	Owner, User string // of the folder, and who runs the peer; "" if the system does not tell
	Open        bool   // others may write to it
	Mode        string // as ls writes it
	FS          string // nfs, ext4, …; "" if it is not known
	Network     bool   // the file system is on another machine
	Memory      bool   // the file system is gone with the machine's power
}

// Limits are what the peer's process may have. 0: there is no limit.
type Limits struct{ Files, Processes uint64 }

// Cgroup is whether tasks get control groups of their own, and if not, why.
type Cgroup struct {
	Made bool
	Why  string
}

// Versions are what runs here and elsewhere, by name.
type Versions struct {
	Own    string
	Others map[string]string
}

// Voters are who decides. Those who do not answer are in Missing.
type Voters struct {
	Coordinator string // name; "": nobody decides
	Seats       int
	May         int // peers that may have a seat and are here
	Missing     []string
	Waiting     string            // without a coordinator: for whom
	Frozen      string            // why tasks of vanished peers stay where they are; "": they do not
	Away        map[string]Absent // peers that cannot be reached
}

// Absent is a peer that cannot be reached.
type Absent struct {
	Since time.Duration
	Votes bool
}

// LAN is how this peer is found by itself.
type LAN struct {
	Off     string   // why there is no mDNS, as was wished
	Wrong   string   // why others do not hear of it
	Heard   int      // peers of this cluster that were heard
	Addrs   []string // that are told to others
	Virtual []string // of these, those of bridges that only this machine sees
}

// Troubles are what the peer knows to be wrong with itself.
type Troubles struct {
	Known    []api.Trouble
	Warnings []string
}
