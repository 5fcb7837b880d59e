package membership

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"time"

	"github.com/hashicorp/memberlist"
)

// delegate is what memberlist calls. Alive and Events come with memberlist's lock held: nothing
// here may call memberlist.
type delegate struct{ m *Membership }

var (
	_ memberlist.Delegate      = delegate{}
	_ memberlist.AliveDelegate = delegate{}
	_ memberlist.MergeDelegate = delegate{}
	_ memberlist.EventDelegate = delegate{}
	_ memberlist.PingDelegate  = delegate{}
)

func (d delegate) NodeMeta(int) []byte { return d.m.ownMeta() }

// NotifyMsg takes a gossiped hint. The bytes are memberlist's.
func (d delegate) NotifyMsg(b []byte) { d.m.hintFrom(b) }

func (d delegate) GetBroadcasts(overhead, limit int) [][]byte {
	return d.m.hints.GetBroadcasts(overhead, limit)
}

// LocalState travels with a push/pull.
func (d delegate) LocalState(bool) []byte { return d.m.Hint().encode() }

// MergeRemoteState is the other side's LocalState.
func (d delegate) MergeRemoteState(b []byte, _ bool) { d.m.hintFrom(b) }

// NotifyAlive refuses members that are not admitted, or that do not speak our words.
func (d delegate) NotifyAlive(n *memberlist.Node) error {
	if n.Name == d.m.self {
		return nil
	}
	m, err := decodeMeta(d.m.cfg.wordsOf(n.Meta))
	if err != nil {
		return err
	}
	if !d.m.cfg.Admitted(n.Name) {
		d.m.turnedAway(n.Name, m)
		return fmt.Errorf("%s is not admitted", n.Name)
	}
	return nil
}

// NotifyMerge refuses a cluster of which nobody is admitted here. Single strangers are left out by
// NotifyAlive: the other side may just have heard earlier of a newcomer. It also notes when others
// have an outdated picture of this peer.
func (d delegate) NotifyMerge(nodes []*memberlist.Node) error {
	known := len(nodes) == 0
	for _, n := range nodes {
		if n.Name == d.m.self && (n.State != memberlist.StateAlive || !bytes.Equal(n.Meta, d.m.ownMeta())) {
			d.m.reach.outdated.Add(1)
		}
		known = known || n.Name == d.m.self || d.m.cfg.Admitted(n.Name)
	}
	if !known {
		return fmt.Errorf("none of %d members is admitted", len(nodes))
	}
	return nil
}

func (d delegate) NotifyJoin(n *memberlist.Node) { d.m.joined(n.Name, n.Meta) }

func (d delegate) NotifyUpdate(n *memberlist.Node) { d.m.joined(n.Name, n.Meta) }

// NotifyLeave implements memberlist.EventDelegate: it failed or said goodbye.
func (d delegate) NotifyLeave(n *memberlist.Node) { d.m.gone(n.Name) }

func (d delegate) AckPayload() []byte { return nil }

func (d delegate) NotifyPingComplete(n *memberlist.Node, rtt time.Duration, _ []byte) {
	d.m.pinged(n.Name, rtt)
}

// listConfig is memberlist's configuration.
func (m *Membership) listConfig(t *transport, timings Timings) *memberlist.Config {
	d := delegate{m}
	c := memberlist.DefaultLANConfig()
	c.Name, c.BindPort, c.AdvertisePort = m.self, memberPort, memberPort
	c.Transport, c.Delegate, c.Events, c.Alive, c.Merge, c.Ping = t, d, d, d, d, d
	c.RequireNodeNames = true
	c.EnableCompression = false
	c.UDPBufferSize = packetBytes
	c.TCPTimeout = 3 * time.Second
	c.AwarenessMaxMultiplier = 4
	c.ProbeInterval, c.ProbeTimeout = timings.Probe, timings.ProbeTimeout
	c.SuspicionMult, c.SuspicionMaxTimeoutMult = timings.Suspicion, timings.Patience
	c.RetransmitMult = retransmit
	c.GossipInterval, c.PushPullInterval = 0, timings.PushPull // the pump gossips
	c.Logger = m.listLogger()
	return c
}

// listLogger passes memberlist's lines on as debug lines, until Run ends: what a person should know
// is logged by this package. When nobody listens it costs nothing.
func (m *Membership) listLogger() *log.Logger {
	if !m.log.Enabled(context.Background(), slog.LevelDebug) {
		return log.New(io.Discard, "", 0)
	}
	return log.New(lineWriter{m}, "", 0)
}

type lineWriter struct{ m *Membership }

func (w lineWriter) Write(b []byte) (int, error) {
	if !w.m.over.Load() {
		w.m.log.Debug(string(bytes.TrimSpace(b)))
	}
	return len(b), nil
}
