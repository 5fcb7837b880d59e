// Package links tells which peers are connected to which: each knows its own connections, so all
// are asked.
//
//	a := &links.Asker{…}
//	host.Handle(links.Protocol, a.Serve)
//	a.Links(ctx)                            // this peer's links, and what the others answer in half a second
//
// At most 64 are asked at once, and 16 served. An answer has at most 2,000 links. Who does not
// answer in time – of a version before this protocol, or too far – is named.
package links

import (
	"cmp"
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/limit"
	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// Protocol asks a peer for its links.
const Protocol = "/covey/links/1"

const (
	patience  = 500 * time.Millisecond
	serveTime = 5 * time.Second
	maxLinks  = 2000
	maxFrame  = 512 << 10
	atOnce    = 64 // asked
	served    = 16
)

// link is one connection of the peer that answers.
type link struct {
	Peer    taskstate.PeerID `cbor:"1,keyasint"`
	Relayed bool             `cbor:"2,keyasint,omitempty"`
	RTT     int64            `cbor:"3,keyasint,omitempty"` // microseconds, 0 if never measured
}

type question struct {
	Most int `cbor:"1,keyasint"` // links to be told
}

type told struct {
	Links []link `cbor:"1,keyasint"`
}

// Asker asks others, and answers them. Its fields are not changed once it is used.
type Asker struct {
	Self      taskstate.PeerID
	Dial      func(ctx context.Context, peer, protocol string) (net.Conn, error)
	Members   func() *membership.View
	Connected func(peer string) (direct, relayed bool)
	Name      func(taskstate.PeerID) string

	once    sync.Once
	serving *limit.Limit
}

// own are this peer's links, by peer.
func (a *Asker) own() (out []link) {
	for _, m := range a.Members().Members {
		direct, relayed := a.Connected(m.ID)
		if m.ID == a.Self || !direct && !relayed || len(out) == maxLinks {
			continue
		}
		out = append(out, link{Peer: m.ID, Relayed: !direct, RTT: m.RTT.Microseconds()})
	}
	slices.SortFunc(out, func(x, y link) int { return cmp.Compare(x.Peer, y.Peer) })
	return out
}

// Serve answers one stream.
func (a *Asker) Serve(peer string, c net.Conn) {
	defer c.Close()
	a.once.Do(func() { a.serving = limit.New(served, 2) })
	if !a.serving.Enter(peer) {
		return
	}
	defer a.serving.Leave(peer)
	_ = c.SetDeadline(time.Now().Add(serveTime))
	var q question
	if wire.NewReader(c, maxFrame).Read(&q) != nil || q.Most < 1 {
		return
	}
	own := a.own()
	_ = wire.NewWriter(c, maxFrame).Send(told{own[:min(len(own), q.Most)]})
}

// Links implements api.PeerBackend.
func (a *Asker) Links(ctx context.Context) (api.Links, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var (
		mu     sync.Mutex
		all    = map[taskstate.PeerID][]link{a.Self: a.own()}
		silent = []string{}
		asking sync.WaitGroup
		turns  = make(chan struct{}, atOnce)
	)
	for m := range a.Members().Alive() {
		if m.ID == a.Self {
			continue
		}
		asking.Go(func() {
			var got told
			err := context.DeadlineExceeded
			select {
			case turns <- struct{}{}:
				got, err = a.ask(ctx, m.ID)
				<-turns
			case <-ctx.Done():
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				silent = append(silent, a.Name(m.ID))
				return
			}
			all[m.ID] = got.Links
		})
	}
	asking.Wait()
	slices.Sort(silent)
	out := api.Links{Links: []api.Link{}, Silent: silent, AsOf: time.Now().UTC()}
	for from, links := range all {
		for _, l := range links {
			if l.Peer == from || !a.member(l.Peer) { // what a peer says of strangers is not passed on
				continue
			}
			x := api.Link{From: from, FromName: a.Name(from), To: l.Peer, ToName: a.Name(l.Peer), Path: "direct", RTT: float64(max(0, l.RTT)) / 1e6}
			if l.Relayed {
				x.Path = "relayed"
			}
			out.Links = append(out.Links, x)
		}
	}
	slices.SortFunc(out.Links, func(x, y api.Link) int {
		return cmp.Or(cmp.Compare(x.FromName, y.FromName), cmp.Compare(x.From, y.From), cmp.Compare(x.ToName, y.ToName), cmp.Compare(x.To, y.To))
	})
	return out, nil
}

func (a *Asker) member(peer taskstate.PeerID) bool {
	_, ok := a.Members().Get(peer)
	return ok
}

func (a *Asker) ask(ctx context.Context, peer taskstate.PeerID) (t told, err error) {
	c, err := a.Dial(ctx, peer, Protocol)
	if err != nil {
		return t, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if err = wire.NewWriter(c, maxFrame).Send(question{maxLinks}); err == nil {
		err = wire.NewReader(c, maxFrame).Read(&t)
	}
	if len(t.Links) > maxLinks {
		t.Links = t.Links[:maxLinks]
	}
	return t, err
}
