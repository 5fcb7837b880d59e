package quorum

import (
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// place is which seat this peer has now, and which ledger it belongs to. Everybody in this package
// may look; only seating changes the seat.
type ownSeat struct {
	seat   atomic.Pointer[seat]
	rep    *ledger.Replica
	unread unread
}

// generation of the ledger this peer belongs to; 0 before it knows one.
func (p *ownSeat) generation() uint64 {
	if s := p.seat.Load(); s != nil {
		return s.generation
	}
	return p.replicaGeneration()
}

func (p *ownSeat) replicaGeneration() (g uint64) {
	p.rep.Read(func(s *ledger.State) { g = s.Generation() })
	return g
}

// stamp is the ledger's time in the own copy: that of its newest entry.
func (p *ownSeat) stamp() (at int64) {
	p.rep.Read(func(s *ledger.State) { at = s.Stamp() })
	return at
}

// cluster is the id of the own ledger, "" before it is known.
func (p *ownSeat) cluster() (id string) {
	p.rep.Read(func(s *ledger.State) { id = s.Cluster() })
	return id
}

// directory is what this peer has heard of the others: who coordinates, who votes, whom to ask, and
// where there is a newer ledger. Each part that hears something enters it; what may be believed is
// authority's to say, before.
type directory struct {
	self  taskstate.PeerID
	place *ownSeat
	wakes *wakes
	log   *slog.Logger

	mu          sync.Mutex
	coord       taskstate.PeerID
	epoch       taskstate.Epoch // of coord
	leaderless  time.Time       // since when nobody is known to coordinate; zero while somebody is
	hint        taskstate.PeerID
	hintEpoch   taskstate.Epoch
	heard       map[taskstate.PeerID]time.Time // when raft or gossip last named a peer as the one to follow
	voters      []Voter
	votersIndex uint64             // raft index of voters; 0 if they are only what the disk held at start
	votersFloor uint64             // configurations below it are of the past
	contacts    []taskstate.PeerID // peers to try that might be voters
	foreign     foreign
}

func newDirectory(p *ownSeat, w *wakes, cfg *Config) *directory {
	return &directory{self: cfg.Self, place: p, wakes: w, log: cfg.Log, leaderless: time.Now(), heard: map[taskstate.PeerID]time.Time{}}
}

func (d *directory) coordinator() (taskstate.PeerID, taskstate.Epoch, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.coord, d.epoch, d.coord != ""
}

// setCoordinator records who decides. "" means nobody is known to. Word of an older epoch than is
// known comes too late, as from who was followed while this peer was elected.
func (d *directory) setCoordinator(peer taskstate.PeerID, e taskstate.Epoch) {
	d.mu.Lock()
	same := d.coord == peer && (d.epoch == e || peer == "") || peer != "" && e.Less(d.epoch)
	if !same {
		d.coord = peer
		if peer != "" {
			d.epoch, d.leaderless = e, time.Time{}
		} else if d.leaderless.IsZero() {
			d.leaderless = time.Now()
		}
	}
	d.mu.Unlock()
	if !same {
		d.wakes.changed.fire()
		d.wakes.moved.fire()
		if peer == "" {
			d.wakes.suspect.Set()
		}
	}
}

// forgetCoordinator: nobody who could know answers.
func (d *directory) forgetCoordinator() {
	if coord, _, _ := d.coordinator(); coord != d.self {
		d.setCoordinator("", taskstate.Epoch{})
	}
}

// withoutCoordinator is since when nobody is known to coordinate; zero while somebody is.
func (d *directory) withoutCoordinator() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.leaderless
}

// hear notes that raft names a peer as the one to follow.
func (d *directory) hear(peer taskstate.PeerID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.heard[peer] = time.Now()
}

// takeHint notes whom gossip names. It tells whether that is news beyond who is known to
// coordinate.
func (d *directory) takeHint(peer taskstate.PeerID, e taskstate.Epoch) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if peer == d.self || !d.hintEpoch.Less(e) {
		return false
	}
	d.hint, d.hintEpoch = peer, e
	d.heard[peer] = time.Now()
	return d.epoch.Less(e)
}

// correctHint takes a peer's own word on the epoch that gossip said it was in. It returns the epoch
// of who is known to coordinate.
func (d *directory) correctHint(peer taskstate.PeerID, e taskstate.Epoch) taskstate.Epoch {
	d.mu.Lock()
	defer d.mu.Unlock()
	if peer == d.hint && e.Less(d.hintEpoch) {
		d.hintEpoch = e // it knows better what it is said to do
	}
	return d.epoch
}

func (d *directory) list() []Voter {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.voters)
}

// configuration is list with its index, 0 if it is only what the disk held, and the index below
// which others are of the past.
func (d *directory) configuration() (index, floor uint64, vs []Voter) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.votersIndex, d.votersFloor, d.voters
}

// votes tells whether a seat is a voting one, as far as is known.
func (d *directory) votes(s *seat) bool {
	return d.place.seat.Load() == s && s.unsound.Load() == nil && slices.ContainsFunc(d.list(), func(v Voter) bool { return v.Voting && s.is(v) })
}

// setVoters records a committed configuration, unless a newer one is known.
func (d *directory) setVoters(index uint64, vs []Voter) (news bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if news = index >= d.votersFloor && (index > d.votersIndex || d.votersIndex == 0); news {
		d.voters, d.votersIndex = vs, index
	}
	return news
}

// setFloor has configurations below an index ignored.
func (d *directory) setFloor(index uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.votersFloor = index
}

// suppose records voters of which it is not known whether they are committed still.
func (d *directory) suppose(vs []Voter) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.votersIndex == 0 {
		d.voters = vs
	}
}

// forgetVoters: the ledger they are of was given up.
func (d *directory) forgetVoters() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.voters, d.votersIndex, d.votersFloor = nil, 0, 0
}

// ask lists the peers to try that might be voters.
func (d *directory) ask() []taskstate.PeerID {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.contacts)
}

// addContacts remembers peers somebody named, at most so many. It tells whether one is new.
func (d *directory) addContacts(peers []taskstate.PeerID, most int) (news bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range peers {
		if p != "" && p != d.self && !slices.Contains(d.contacts, p) && len(d.contacts) < most {
			d.contacts, news = append(d.contacts, p), true
		}
	}
	return news
}

// setContacts remembers the voters before all others, so that this peer finds the cluster again
// after a restart. It tells whether one is new.
func (d *directory) setContacts(vs []Voter) bool {
	peers := slices.DeleteFunc(peersOf(vs), func(p taskstate.PeerID) bool { return p == d.self })
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.ContainsFunc(peers, func(p taskstate.PeerID) bool { return !slices.Contains(d.contacts, p) }) {
		return false
	}
	old := slices.DeleteFunc(d.contacts, func(p taskstate.PeerID) bool { return slices.Contains(peers, p) })
	d.contacts = append(old, peers...)
	d.contacts = d.contacts[max(0, len(d.contacts)-maxContacts):]
	return true
}

// bookmark says where this peer stands.
func (d *directory) bookmark() bookmark {
	d.mu.Lock()
	defer d.mu.Unlock()
	return bookmark{Coordinator: d.coord, Epoch: d.epoch, Voters: d.voters, VotersIndex: d.votersIndex}
}

// refusal says whom to ask instead.
func (d *directory) refusal(code string) *followRefuse {
	r := &followRefuse{Code: code, Generation: d.place.generation()}
	d.mu.Lock()
	defer d.mu.Unlock()
	r.Coordinator = d.coord
	for _, v := range d.voters {
		if v.Voting && v.Peer != d.self {
			r.Voters = append(r.Voters, v.Peer)
		}
	}
	return r
}

// newerLedgers lists whom to ask for a ledger of a higher generation than one's own.
func (d *directory) newerLedgers() []taskstate.PeerID {
	own := d.place.generation()
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []taskstate.PeerID
	if own > 0 && d.hintEpoch.Generation > own {
		out = append(out, d.hint)
	}
	if d.foreign.generation > own {
		out = append(out, d.foreign.peers...)
	}
	return out
}

// forgetNewer: the peer was asked, and had no newer ledger, or did not answer. If it is named again
// it is asked again.
func (d *directory) forgetNewer(peer taskstate.PeerID) {
	own := d.place.generation()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.foreign.generation > own {
		d.foreign.peers = slices.DeleteFunc(d.foreign.peers, func(p taskstate.PeerID) bool { return p == peer })
	}
}

func (d *directory) newerGeneration() uint64 {
	own := d.place.generation()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.foreign.generation > own {
		return d.foreign.generation
	}
	return 0
}

// addForeign notes that peers know of a ledger of a higher generation. It tells whether that is
// news.
func (d *directory) addForeign(generation uint64, ask []taskstate.PeerID) (news bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := &d.foreign
	if news = generation > f.generation; news {
		*f = foreign{generation: generation}
	}
	for _, p := range ask {
		if generation == f.generation && !slices.Contains(f.peers, p) && len(f.peers) < maxForeign {
			f.peers, news = append(f.peers, p), true
		}
	}
	return news
}

// targets lists whom to follow, best first: who has a ledger of a higher generation, whom raft
// takes for leader, whom gossip names in a newer epoch, the coordinator as it is known, the other
// voters in random order, and others that might know. Those in avoid come last.
func (d *directory) targets(leads bool, avoid map[taskstate.PeerID]time.Time) []taskstate.PeerID {
	out := d.newerLedgers() // even a coordinator looks there: its ledger may be one that others have given up
	if leads {
		return out
	}
	if s := d.place.seat.Load(); s != nil {
		if leader, ok := s.leader(); ok {
			if leader == d.self {
				return out // elected, about to lead
			}
			out = append(out, leader)
		}
	}
	d.mu.Lock()
	avoid = d.stillAvoided(avoid)
	if d.epoch.Less(d.hintEpoch) {
		out = append(out, d.hint)
	}
	out = append(out, d.coord)
	k := len(out)
	for _, v := range d.voters {
		if v.Voting {
			out = append(out, v.Peer)
		}
	}
	others := out[k:]
	rand.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	out = append(out, d.contacts...)
	d.mu.Unlock()
	seen := map[taskstate.PeerID]bool{d.self: true, "": true}
	out = slices.DeleteFunc(out, func(p taskstate.PeerID) bool { had := seen[p]; seen[p] = true; return had })
	now := time.Now()
	slices.SortStableFunc(out, func(a, b taskstate.PeerID) int { return avoided(avoid, a, now).Compare(avoided(avoid, b, now)) })
	return out
}

// better tells whether there is now somebody better to follow than peer: the leader as raft sees
// it, the coordinator, or whom gossip takes for a newer one. Not one that failed a moment ago.
func (d *directory) better(peer taskstate.PeerID, leads bool, avoid map[taskstate.PeerID]time.Time) bool {
	newer := d.newerLedgers()
	switch {
	case slices.Contains(newer, peer):
		return false
	case leads:
		return true
	}
	ts := d.targets(leads, avoid)
	leader, led := taskstate.PeerID(""), false
	if s := d.place.seat.Load(); s != nil {
		leader, led = s.leader()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case len(ts) == 0 || ts[0] == peer || !avoided(d.stillAvoided(avoid), ts[0], time.Now()).IsZero():
		return false
	case slices.Contains(newer, ts[0]):
		return true
	case led:
		return ts[0] == leader
	}
	return ts[0] == d.coord || ts[0] == d.hint && d.epoch.Less(d.hintEpoch)
}

// stillAvoided is avoid without those that were named since they failed: a leader raft hears from
// lives, whatever a dial said before it was up. The caller holds mu.
func (d *directory) stillAvoided(avoid map[taskstate.PeerID]time.Time) map[taskstate.PeerID]time.Time {
	out := make(map[taskstate.PeerID]time.Time, len(avoid))
	for p, until := range avoid {
		if !d.heard[p].After(until.Add(-avoidFor)) {
			out[p] = until
		}
	}
	return out
}

// avoided is until when a peer comes after the others; zero if it does not.
func avoided(avoid map[taskstate.PeerID]time.Time, peer taskstate.PeerID, now time.Time) time.Time {
	if until := avoid[peer]; now.Before(until) {
		return until
	}
	return time.Time{}
}

// speaks tells whether all members could read what is to be decided: nil, or a
// *ledger.DialectError that names those that are to be upgraded.
func (p *ownSeat) speaks(v any) (err error) {
	if wire.Needs(v) == 1 {
		return nil
	}
	p.rep.Read(func(s *ledger.State) { err = s.Dialects().Speaks(v) })
	return err
}

// foreign is what was heard of a ledger of a higher generation than one's own: somebody recovered
// it elsewhere.
type foreign struct {
	generation uint64
	peers      []taskstate.PeerID // who said so, or was named by them; whom to ask for it
}

// maxForeign bounds the peers remembered to ask for a newer ledger.
const maxForeign = 8

const avoidFor = time.Second // a peer that failed is tried after the others for so long
