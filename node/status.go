package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/dispatch/ledger/quorum"
	"github.com/coveyproject/covey/dispatch/worker"
	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/node/clinic"
	"github.com/coveyproject/covey/node/metrics"
	"github.com/coveyproject/covey/node/runner/supervise"
	"github.com/coveyproject/covey/node/troubles"
	"github.com/coveyproject/covey/node/view"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// Status implements api.PeerBackend.
func (n *Node) Status(ctx context.Context) (api.Status, error) {
	who, epoch, ok := n.ledger.Coordinator()
	st := api.Status{
		ID: n.self, Name: n.name, Version: n.cfg.Version, Cluster: n.roster.Cluster(), How: n.how, Addrs: n.host.Addrs(), Data: n.folder.dir,
		PID: os.Getpid(), Ready: n.ready.Load(), Index: n.replica.Applied(), Voters: n.view.Deciders.Voters(), Warnings: n.warnings, AsOf: time.Now().UTC(),
	}
	n.replica.Read(func(s *ledger.State) { st.Open = s.Open() })
	seen := asCoordinatorSees(ctx, n)
	st.Troubles = ownTroubles(n, seen)
	st.Warnings = slices.Concat(st.Warnings, troubles.Messages(st.Troubles), namesakes(n.view.Who.Admitted(), n.self, n.name), n.sickness(), n.seat.alone(), n.owner.Warnings(), unsigned(n, seen))
	st.Untrusted = n.trust.Untrusted()
	if ok {
		st.Coordinator, st.CoordinatorName, st.Epoch = who, n.view.Who.Name(who), epoch.String()
	} else {
		st.Missing = n.view.Deciders.Missing()
		st.Warnings = append(slices.Clip(st.Warnings), "no coordinator yet: jobs are held here until there is one")
		if why := n.view.Deciders.TooMuchLost(); why != "" {
			st.Warnings = append(st.Warnings, why)
		} else if why := n.view.Deciders.CannotHelp(); why != "" {
			st.Warnings = append(st.Warnings, fmt.Sprintf("%s Waiting for %s.%s", strings.TrimSpace(why), n.view.Deciders.WaitingFor(), view.ForGood))
		}
	}
	return st, nil
}

// asCoordinatorSees is how the coordinator sees every peer; nil: nobody coordinates.
func asCoordinatorSees(ctx context.Context, n *Node) *calls.ClusterView {
	if _, _, ok := n.ledger.Coordinator(); !ok {
		return nil
	}
	return n.view.AskCluster(ctx, "")
}

// ownTroubles is what is wrong with this peer, as far as it or the coordinator knows.
func ownTroubles(n *Node, seen *calls.ClusterView) []api.Trouble {
	n.seat.noteLoss()
	n.dialects.follows(n.ledger.Unread())
	return troubles.Merge(n.own.Of(n.differs, n.aheadText)(n.self), seen.TroubleOf(n.self, api.TroubleStartsNothing))
}

// differs says how this peer's copy of the ledger is not like others'.
func (n *Node) differs() string { return n.ledger.Differs(n.view.Who.Called) }

// unsigned names the others that take jobs which nobody signed. Of itself a peer says more.
func unsigned(n *Node, seen *calls.ClusterView) []string {
	var names []string
	if seen != nil {
		for _, p := range seen.Peers {
			if p.ID != n.self && len(seen.TroubleOf(p.ID, api.TroubleUnsigned)) > 0 {
				names = append(names, p.ID)
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []string{"jobs that nobody signed run on " + strings.Join(n.view.Who.Sorted(names), ", ") + ": whoever coordinates can have anything run there. When all peers sign, remove the line `unsigned: allow` there with `peer trust edit`"}
}

// newClinic looks at this peer when somebody asks how it is. That its policy cannot be read, who
// has its name and who decides it finds out by itself.
func newClinic(n *Node) *clinic.Clinic {
	return clinic.New(clinic.Config{
		Self: n.self, Version: n.cfg.Version, Dir: n.folder.dir, Room: n.cfg.Machine.Room, Dial: n.host.Dial, Members: n.members.View, Name: n.view.Who.Name,
		Peer: n.view.Peer, Peers: n.view.Peers, Seats: n.view.Deciders.Voters, Net: n.host,
		Elected: func(since time.Time) (count int) {
			for _, e := range n.story.Since(since) {
				if e.Kind == "coordinator" && e.State == "elected" {
					count++
				}
			}
			return count
		},
		Wrong: func(ctx context.Context) ([]api.Trouble, []string) {
			return ownTroubles(n, asCoordinatorSees(ctx, n)), slices.Concat(n.warnings, n.sickness(), n.owner.Undecided())
		},
		Lacks: func() map[string]string { return n.owner.Lacks() },
	})
}

// namesakes warns of other peers that have this one's name, or one that looks like it. Machines of
// one make are often called alike, so it keeps no peer out.
func namesakes(all []ledger.Member, self, name string) (warnings []string) {
	for _, m := range all {
		switch theirs := cmp.Or(m.Name, m.Entry.Name); {
		case m.Entry.Peer == self:
		case theirs == name:
			warnings = append(warnings, fmt.Sprintf("%s is called %s, too: commands and constraints cannot tell the two apart by name; give one of them another with `peer up --name NAME`", m.Entry.Peer, name))
		case admission.Likeness(theirs) == admission.Likeness(name):
			warnings = append(warnings, fmt.Sprintf("the name of %s, %q, looks like this peer's, %s: the one that was admitted later is shown by its key; give it another name with `peer up --name NAME`", m.Entry.Peer, theirs, name))
		}
	}
	return warnings
}

// Stats implements api.PeerBackend.
func (n *Node) Stats(context.Context) (api.Stats, error) {
	counters := map[string]int64{
		"table": int64(n.table.Len()), "parked": int64(n.table.Parked()), "held": int64(len(n.held.List())), "faults": n.statuses.faults.total(),
		"refused": n.refused.Total(), "status_flood": n.statuses.faults.flooding(), "topic_dropped": int64(n.host.Dropped()),
	}
	for _, count := range n.members.Refused() { // not taken in because no honest peer sends it, or so much of it
		counters["gossip_refused"] += count
	}
	return api.Stats{
		RSS: residentMemory(), CPU: cpuTime().Seconds(), Uptime: time.Since(n.started).Seconds(), Goroutines: runtime.NumGoroutine(),
		Counters: counters,
	}, nil
}

// newMetrics counts what this peer does. What a scrape asks is there when the API is served.
func newMetrics(n *Node) *metrics.Meter {
	return metrics.New(metrics.Sources{
		Self: n.self, Version: n.cfg.Version,
		Peers:   func(ctx context.Context) (api.Peers, error) { return n.view.Peers(ctx) },
		Jobs:    func(ctx context.Context) (api.Jobs, error) { return n.view.Jobs(ctx) },
		Seats:   func() (all, answering int) { return len(n.view.Deciders.Voters()), len(n.view.Deciders.LivingVoters()) },
		Applied: func() uint64 { return n.replica.Applied() },
		Coordinator: func() (taskstate.PeerID, bool) {
			who, _, ok := n.ledger.Coordinator()
			return who, ok
		},
		Free: func() (int64, bool) {
			r, err := supervise.RoomOf(n.folder.dir)
			return r.Free, err == nil
		},
		Dropped: func() int64 { return int64(n.host.Dropped()) },
		Faults: func() map[string]int64 {
			out := map[string]int64{"batch_twice": n.statuses.faults.total(), "flood": n.statuses.faults.flooding(), "ledger": n.refused.Total()}
			for _, count := range n.members.Refused() {
				out["gossip"] += count
			}
			return out
		},
	})
}

// residentMemory is this process's resident memory in bytes where the system tells (Linux),
// otherwise what the runtime took.
func residentMemory() int64 {
	if b, err := os.ReadFile("/proc/self/statm"); err == nil {
		if f := strings.Fields(string(b)); len(f) > 1 {
			if pages, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				return pages * int64(os.Getpagesize())
			}
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys)
}

// Block implements api.AdminBackend.
func (n *Node) Block(_ context.Context, b api.Block) error {
	if !n.cfg.Testnet {
		return api.Errorf(api.Refused, "only peers of a testnet can be cut off or slowed down on purpose; see `peer testnet --help`")
	}
	n.host.Block(b.Peers)
	n.host.Slow(b.Rate)
	return nil
}

// sickness lists what keeps this peer from taking part, for callers that ask it.
func (n *Node) sickness() (out []string) {
	for _, err := range []error{n.ledger.Health(), n.worker.Health(), n.disk.health()} {
		if err == nil {
			continue
		}
		if !errors.Is(err, worker.ErrReplaying) { // it passes by itself
			err = n.disk.advise(err)
		}
		if text := err.Error(); !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}

// seat is what this peer says of its seat among the voters.
type seat struct {
	ledger   *quorum.Node
	members  *membership.Membership
	deciders *view.Deciders
	who      *view.Names
	own      troubles.Own
	since    time.Time // this peer started
}

// tell tells the other members when this peer's seat among the voters is another one: the
// coordinator must know it to seat it anew.
func (s *seat) tell(ctx context.Context) error {
	for {
		moved := s.ledger.Reseated()
		s.members.SetSeat(s.ledger.SeatIncarnation())
		s.noteLoss()
		select {
		case <-moved:
		case <-ctx.Done():
			return nil
		}
	}
}

// noteLoss keeps what is said about this peer's log, lost or stale, with its other troubles.
func (s *seat) noteLoss() {
	text := ""
	if l := s.ledger.Lost(); l != nil {
		text = s.deciders.LossText(*l) + " It is seated anew, without help, as soon as there is a coordinator; what is left of the log is in " + l.Folder
	}
	s.own.LogLost(text)
	s.own.SeatStale(s.deciders.StaleText())
	s.own.SetAside(s.deciders.SetAsideText())
}

// settled is how long a peer that has just started says nothing of what may be over in a moment.
const settled = 5 * time.Second

// alone warns while a single machine holds all decisions though others may.
func (s *seat) alone() []string {
	vs := s.deciders.Voters()
	if len(vs) != 1 || time.Since(s.since) < settled {
		return nil
	}
	may, admin := 0, false
	for _, m := range s.who.Admitted() {
		admin = admin || m.Entry.Peer == s.own.Self && m.Entry.Has(admission.Admin)
		if m.Entry.Has(admission.Voter) && !m.Left {
			may++
		}
	}
	if may < 2 {
		return nil
	}
	return []string{api.OneSeat(s.who.Called(vs[0]), may, admin)}
}
