package view

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/coveyproject/covey/dispatch/coordinator"
	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/internal/far"
	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/calls"
	"github.com/coveyproject/covey/node/load"
	"github.com/coveyproject/covey/node/troubles"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

// clusterTimeout bounds asking the coordinator for its view; without an answer, this peer's own has
// to do, and says that nobody decides. That is half the quorum's lease: who hears from nobody for
// the whole of it coordinates no more, and a person waits for two such answers at most.
const clusterTimeout = time.Second

// AskCluster asks the coordinator how it sees everybody; nil if there is none in time.
func (v *View) AskCluster(ctx context.Context, job taskstate.JobID) *calls.ClusterView {
	return v.askClusterFor(ctx, calls.ClusterCall{Job: job})
}

// askClusterFor is AskCluster about jobs, too. What is said about those names peers as people do.
func (v *View) askClusterFor(ctx context.Context, ask calls.ClusterCall) *calls.ClusterView {
	ctx, cancel := context.WithTimeout(ctx, far.Allow(clusterTimeout, v.cfg.Ledger.Distance()))
	defer cancel()
	f := v.cfg.Ask(ctx, ask)
	v.Who.in(f)
	return f
}

// Peers implements api.PeerBackend.
func (v *View) Peers(ctx context.Context) (api.Peers, error) {
	out := api.Peers{Peers: []api.Peer{}, AsOf: time.Now().UTC()}
	who, epoch, ok := v.cfg.Ledger.Coordinator()
	var seen *calls.ClusterView
	if ok {
		out.Coordinator, out.Epoch = who, epoch.String()
		seen = v.AskCluster(ctx, "")
	}
	if seen == nil {
		out.Coordinator, out.Missing, out.WaitingFor = "", v.Deciders.Missing(), v.Deciders.WaitingFor()
	}
	if seen != nil && seen.Frozen != "" {
		out.Frozen, out.FrozenReason = true, fmt.Sprintf("%s (%s)", seen.Frozen, strings.Join(v.Who.Sorted(seen.Gone), ", "))
	}
	view := v.cfg.Members()
	for _, m := range v.Who.Admitted() {
		row := v.peerRow(m, view)
		row.Coordinator = m.Entry.Peer == out.Coordinator
		if seen != nil {
			row.overlay(seen, m)
		} else {
			row.Voter = slices.Contains(v.Deciders.LivingVoters(), row.ID)
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

type peerRow struct{ api.Peer }

// peerRow is a member as this peer sees it by itself.
func (v *View) peerRow(m ledger.Member, view *membership.View) peerRow {
	id := m.Entry.Peer
	p := api.Peer{
		ID: id, Name: v.Who.Name(id), Self: id == v.cfg.Self, Path: "none", Addrs: []string{}, Roles: RoleNames(m.Entry.Roles),
		Standing: string(coordinator.Unknown), Labels: m.LabelsOver(nil), Offers: map[string]int64{}, OffersUsed: map[string]int64{},
	}
	if p.Self {
		own := v.cfg.Offer()
		describe(&p, own.OS, own.Arch, own.Resources.Others, m.LabelsOver(own.Labels))
		if own.Policy != nil {
			p.Holds = own.Policy.Holds
		}
	}
	p.Troubles = v.cfg.Wrong(id)
	v.showAvailability(&p, m)
	if got, ok := view.Get(id); ok {
		p.Version, p.RTT = got.Version, got.RTT.Seconds()
		p.Addrs = append(p.Addrs, got.Addrs...)
		p.Age = time.Since(got.Since).Seconds()
		p.Standing = ownStanding(got.Verdict)
		if !got.Since.IsZero() && got.Verdict == membership.Alive {
			p.Age = 0
		}
	}
	switch direct, relayed := v.cfg.Net.Connected(id); {
	case p.Self:
		p.Path = "self"
	case direct:
		p.Path = "direct"
	case relayed:
		p.Path = "relayed"
	default:
		p.RTT = 0 // what it was is no news of a peer to which no connection stands
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
func (p *peerRow) overlay(f *calls.ClusterView, m ledger.Member) {
	for _, x := range f.Peers {
		if x.ID != p.ID {
			continue
		}
		p.Standing, p.Voter, p.Tasks, p.Trouble = x.Standing, x.Voter, x.Tasks, x.Trouble
		said := calls.TroublesOf(x.Troubles)
		if !p.Self {
			said = troubles.CommandsTypedThere(said)
		}
		p.Troubles = troubles.Merge(p.Troubles, said)
		p.CPUs, p.CPUsRunning = float64(x.Offer.MilliCPU)/1000, float64(x.Running.MilliCPU)/1000
		p.CPUsQueued = float64(max(0, x.Promised.MilliCPU-x.Running.MilliCPU)) / 1000
		p.Memory, p.MemoryUsed = x.Offer.Memory, x.Running.Memory
		p.Disk, p.DiskUsed = x.Offer.Disk, x.Running.Disk
		if x.Load != nil && x.Load.Check() == nil {
			p.Load = load.Of(x.Load)
		}
		if x.OS != "" { // it had a session: its words are known
			describe(&p.Peer, x.OS, x.Arch, x.Offer.Others, m.LabelsOver(x.Labels))
			p.Holds = x.Holds
		}
		maps.Copy(p.OffersUsed, x.Running.Others.Map())
	}
}

// RoleNames are roles as the API writes them.
func RoleNames(roles []admission.Role) []string {
	out := make([]string, 0, len(roles))
	for _, r := range roles {
		out = append(out, string(r))
	}
	return out
}

// describe puts what a peer says about itself into its row.
func describe(p *api.Peer, os, arch string, offers taskstate.Counts, labels map[string]string) {
	p.OS, p.Arch, p.Labels = os, arch, labels
	if m := offers.Map(); m != nil {
		p.Offers = m
	}
}
