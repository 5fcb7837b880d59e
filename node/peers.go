package node

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"covey/dispatch/coordinator"
	"covey/dispatch/ledger"
	"covey/membership"
	"covey/node/api"
	"covey/p2p/admission"
	"covey/taskstate"
)

// flock is how the coordinator sees everybody: what only it knows (offers, promises, sessions).
type flock struct {
	Peers   []flockPeer `cbor:"1,keyasint"`
	Waiting string      `cbor:"2,keyasint,omitempty"` // why the job asked about waits
	Index   uint64      `cbor:"3,keyasint"`           // ledger index the coordinator has applied
	Waited  []spell     `cbor:"4,keyasint,omitempty"` // when and why the job asked about waited
	Frozen  string      `cbor:"5,keyasint,omitempty"` // why nothing is replaced
	Gone    []string    `cbor:"6,keyasint,omitempty"` // because of whom
	// Whys says why each job waits that does, if all were asked about.
	Whys map[taskstate.JobID]string `cbor:"7,keyasint,omitempty"`
}

// spell is a coordinator.Spell on the wire; times in milliseconds since 1970, To is 0 while it lasts.
type spell struct {
	_        struct{} `cbor:",toarray"`
	Reason   string
	From, To int64
}

type flockPeer struct {
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
	Troubles []told              `cbor:"13,keyasint,omitempty"` // what the coordinator knows to be wrong with it
	Running  taskstate.Resources `cbor:"14,keyasint,omitempty"` // of Promised, what has begun
	Away     int64               `cbor:"15,keyasint,omitempty"` // milliseconds it has been unreachable, 0: it is not
}

// told is an api.Trouble on the wire.
type told struct {
	_             struct{} `cbor:",toarray"`
	Code, Message string
}

func toldOf(list []api.Trouble) (out []told) {
	for _, t := range list {
		out = append(out, told{Code: t.Code, Message: t.Message})
	}
	return out
}

func troublesOf(list []told) (out []api.Trouble) {
	for _, t := range list {
		out = append(out, api.Trouble{Code: t.Code, Message: t.Message})
	}
	return out
}

// flockTimeout bounds asking the coordinator for its view; without an answer, this peer's own has to do.
const flockTimeout = 500 * time.Millisecond

// flockNow is this peer's view as coordinator.
func (n *Node) flockNow(ctx context.Context, ask flockCall) *flock {
	f := &flock{Index: n.replica.Applied()}
	voters := n.livingVoters()
	peers, err := n.coord.Peers(ctx)
	if err != nil {
		return nil // just elected, or no longer
	}
	for _, p := range peers {
		known := n.troubles.list(p.Peer)
		if p.Offer.Trouble != "" {
			known = mergeTroubles(known, []api.Trouble{{Code: cmp.Or(p.Offer.TroubleCode, api.TroubleTakesNoTasks), Message: p.Offer.Trouble}})
		}
		if p.PassedOver {
			known = mergeTroubles(known, []api.Trouble{{Code: api.TroubleStartsNothing, Message: startsNothing}})
		}
		f.Peers = append(f.Peers, flockPeer{
			ID: p.Peer, Standing: string(p.Standing), Offer: p.Offer.Resources, Promised: p.Promised, Tasks: p.Outstanding,
			Voter: slices.Contains(voters, p.Peer), Labels: p.Offer.Labels, OS: p.Offer.OS, Arch: p.Offer.Arch, Trouble: p.Offer.Trouble,
			Troubles: toldOf(known), Running: p.Running, Away: p.Away.Milliseconds(),
		})
	}
	if freeze, err := n.coord.Frozen(ctx); err == nil {
		f.Frozen, f.Gone = freeze.String(), freeze.Gone
	}
	if ask.All {
		f.Whys, _ = n.coord.Whys(ctx)
	}
	if job := ask.Job; job != "" {
		f.Waiting, _ = n.coord.Waiting(ctx, job) // said or not
		spells, _ := n.coord.Waited(ctx, job)
		for _, s := range spells {
			w := spell{Reason: s.Reason, From: s.From.UnixMilli()}
			if !s.Lasts {
				w.To = s.To.UnixMilli()
			}
			f.Waited = append(f.Waited, w)
		}
	}
	return f
}

func (n *Node) voters() (ids []taskstate.PeerID) {
	for _, v := range n.ledger.Voters() {
		if v.Voting {
			ids = append(ids, v.Peer)
		}
	}
	return ids
}

// livingVoters are the voters without those whose vote went with their disk: the peer is here, in another life.
func (n *Node) livingVoters() (ids []taskstate.PeerID) {
	view := n.members.View()
	for _, v := range n.ledger.Voters() {
		if got, ok := view.Get(v.Peer); v.Voting && !(ok && got.Verdict == membership.Alive && got.Seat != v.Incarnation) {
			ids = append(ids, v.Peer)
		}
	}
	return ids
}

// askFlock asks the coordinator how it sees everybody; nil if there is none in time.
func (n *Node) askFlock(ctx context.Context, job taskstate.JobID) *flock {
	return n.askFlockFor(ctx, flockCall{Job: job})
}

// askFlockFor is askFlock about jobs, too. What is said about those names peers as people do.
func (n *Node) askFlockFor(ctx context.Context, ask flockCall) *flock {
	ctx, cancel := context.WithTimeout(ctx, flockTimeout)
	defer cancel()
	r, err := n.try(ctx, call{From: n.self, Flock: &ask})
	if err != nil || r.Lost {
		return nil
	}
	n.nameIn(r.Flock)
	return r.Flock
}

// troubleOf is the trouble of a peer that has a code, if the coordinator knows of it.
func (f *flock) troubleOf(peer taskstate.PeerID, code string) []api.Trouble {
	if f == nil {
		return nil
	}
	for _, p := range f.Peers {
		if p.ID == peer {
			return slices.DeleteFunc(troublesOf(p.Troubles), func(t api.Trouble) bool { return t.Code != code })
		}
	}
	return nil
}

// nameIn puts names in place of ids in what a coordinator says for people.
func (n *Node) nameIn(f *flock) {
	if f == nil || f.Waiting == "" && len(f.Whys) == 0 {
		return
	}
	var pairs []string
	for _, p := range f.Peers {
		pairs = append(pairs, p.ID, n.called(p.ID))
	}
	names := strings.NewReplacer(pairs...)
	f.Waiting = names.Replace(f.Waiting)
	for id, why := range f.Whys {
		f.Whys[id] = names.Replace(why)
	}
}

// startsNothing is what is wrong with a peer that is passed over.
const startsNothing = "it had room for tasks and did not start them: it gets no others for five minutes, or until it starts one"

// Peers implements api.PeerBackend.
func (n *Node) Peers(ctx context.Context) (api.Peers, error) {
	out := api.Peers{Peers: []api.Peer{}, AsOf: time.Now().UTC()}
	who, epoch, ok := n.coordinator()
	var seen *flock
	if ok {
		out.Coordinator, out.Epoch = who, epoch.String()
		seen = n.askFlock(ctx, "")
	}
	if seen == nil {
		out.Coordinator, out.Missing, out.WaitingFor = "", n.missing(), n.waitingFor()
	}
	if seen != nil && seen.Frozen != "" {
		out.Frozen, out.FrozenReason = true, fmt.Sprintf("%s (%s)", seen.Frozen, strings.Join(n.namesOf(seen.Gone), ", "))
	}
	view := n.members.View()
	for _, m := range n.memberList() {
		row := n.peerRow(m, view)
		row.Coordinator = m.Entry.Peer == out.Coordinator
		if seen != nil {
			row.overlay(seen, m)
		} else {
			row.Voter = slices.Contains(n.livingVoters(), row.ID)
		}
		if got, ok := view.Get(row.ID); ok && got.Parted && row.Standing != string(coordinator.Left) {
			row.Standing = api.Stopped
		}
		out.Peers = append(out.Peers, row.Peer)
	}
	slices.SortFunc(out.Peers, func(a, b api.Peer) int {
		if c := strings.Compare(a.Name, b.Name); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return out, nil
}

// memberList is everybody admitted: from the ledger, or before its first entry has come, from the roster.
func (n *Node) memberList() (out []ledger.Member) {
	n.replica.Read(func(s *ledger.State) {
		for m := range s.Members() {
			if m.In() {
				out = append(out, m)
			}
		}
	})
	if len(out) == 0 {
		for _, e := range n.roster.All() {
			if !e.Removed {
				out = append(out, ledger.Member{Entry: e, Name: e.Name})
			}
		}
	}
	return out
}

type peerRow struct{ api.Peer }

// peerRow is a member as this peer sees it by itself.
func (n *Node) peerRow(m ledger.Member, view *membership.View) peerRow {
	id := m.Entry.Peer
	p := api.Peer{
		ID: id, Name: n.nameOf(id), Self: id == n.self, Path: "none", Addrs: []string{}, Roles: roleNames(m.Entry.Roles),
		Standing: string(coordinator.Unknown), Labels: m.LabelsOver(nil), Offers: map[string]int64{}, OffersUsed: map[string]int64{},
	}
	if p.Self {
		own := n.offer()
		describe(&p, own.OS, own.Arch, own.Resources.Others, m.LabelsOver(own.Labels))
	}
	p.Troubles = n.troubles.list(id)
	n.showAvailability(&p, m)
	if got, ok := view.Get(id); ok {
		p.Version, p.RTT = got.Version, got.RTT.Seconds()
		p.Addrs = append(p.Addrs, got.Addrs...)
		p.Age = time.Since(got.Since).Seconds()
		p.Standing = ownStanding(got.Verdict)
		if !got.Since.IsZero() && got.Verdict == membership.Alive {
			p.Age = 0
		}
	}
	switch direct, relayed := n.host.Connected(id); {
	case p.Self:
		p.Path = "self"
	case direct:
		p.Path = "direct"
	case relayed:
		p.Path = "relayed"
	}
	if m.Left {
		p.Standing = string(coordinator.Left)
	}
	return peerRow{p}
}

// ownStanding is what a verdict suggests when the coordinator cannot be asked.
func ownStanding(v membership.Verdict) string {
	switch v {
	case membership.Alive:
		return string(coordinator.Ready)
	case membership.Suspect:
		return string(coordinator.Suspect)
	case membership.Dead:
		return string(coordinator.Unreachable)
	}
	return string(coordinator.Unknown)
}

// overlay puts the coordinator's knowledge over one's own.
func (p *peerRow) overlay(f *flock, m ledger.Member) {
	for _, x := range f.Peers {
		if x.ID != p.ID {
			continue
		}
		p.Standing, p.Voter, p.Tasks, p.Trouble = x.Standing, x.Voter, x.Tasks, x.Trouble
		p.Troubles = mergeTroubles(p.Troubles, troublesOf(x.Troubles))
		p.CPUs, p.CPUsRunning = float64(x.Offer.MilliCPU)/1000, float64(x.Running.MilliCPU)/1000
		p.CPUsQueued = float64(max(0, x.Promised.MilliCPU-x.Running.MilliCPU)) / 1000
		p.Memory, p.MemoryUsed = x.Offer.Memory, x.Running.Memory
		if x.OS != "" { // it had a session: its words are known
			describe(&p.Peer, x.OS, x.Arch, x.Offer.Others, m.LabelsOver(x.Labels))
		}
		maps.Copy(p.OffersUsed, x.Running.Others.Map())
	}
}

func roleNames(roles []admission.Role) []string {
	out := make([]string, 0, len(roles))
	for _, r := range roles {
		out = append(out, string(r))
	}
	return out
}

// findPeer finds the peer a person means: its id, a unique part of it, its name.
func (n *Node) findPeer(text string) (taskstate.PeerID, error) {
	var found []taskstate.PeerID
	for _, m := range n.memberList() {
		id := m.Entry.Peer
		if id == text {
			return id, nil
		}
		if n.nameOf(id) == text || len(text) >= 4 && strings.Contains(id, text) {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", api.Errorf(api.NotFound, "no peer %q; see `peer peers`", text)
	}
	return "", api.Errorf(api.Conflict, "%q fits %d peers; type more of the id (see `peer peers -o json`)", text, len(found))
}
