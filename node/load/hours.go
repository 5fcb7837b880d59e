package load

import (
	"cmp"
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/coveyproject/covey/dispatch/session"
	"github.com/coveyproject/covey/internal/limit"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// Protocol asks a peer for the hour it remembers.
const Protocol = "/covey/load/1"

const (
	patience  = 2 * time.Second
	serveTime = 5 * time.Second
	maxFrame  = 64 << 10
	served    = 16
)

type question struct {
	Most int `cbor:"1,keyasint"` // points to be told, the newest
}

type told struct {
	Points []point       `cbor:"1,keyasint"`           // the newest last
	Now    *session.Load `cbor:"2,keyasint,omitempty"` // nil: none was read yet
	Ago    int64         `cbor:"3,keyasint,omitempty"` // milliseconds since the newest point: its machine's clock may be another
}

// Hours asks others for their hour, and answers them. Its fields are not changed once it is used.
type Hours struct {
	Self  taskstate.PeerID
	Meter *Meter
	Dial  func(ctx context.Context, peer, protocol string) (net.Conn, error)
	Find  func(peer string) (taskstate.PeerID, error) // whom a person means
	Name  func(taskstate.PeerID) string

	once    sync.Once
	serving *limit.Limit
}

func (a *Hours) own(most int) told {
	t := told{Points: a.Meter.past(), Now: a.Meter.Now()}
	t.Points = t.Points[max(0, len(t.Points)-most):]
	if n := len(t.Points); n > 0 {
		t.Ago = max(0, time.Now().UnixMilli()-t.Points[n-1].At)
	}
	return t
}

// Serve answers one stream.
func (a *Hours) Serve(peer string, c net.Conn) {
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
	_ = wire.NewWriter(c, maxFrame).Send(a.own(q.Most))
}

// PeerLoad implements api.PeerBackend.
func (a *Hours) PeerLoad(ctx context.Context, peer string) (api.PeerLoad, error) {
	id, err := a.Find(peer)
	if err != nil {
		return api.PeerLoad{}, err
	}
	t := a.own(kept)
	if id != a.Self {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if t, err = a.ask(ctx, id); err != nil {
			return api.PeerLoad{}, api.Errorf(api.TimedOut, "%s does not say how busy it was: %v; see `peer peers`", a.Name(id), err)
		}
	}
	return hourOf(t, id, a.Name(id), time.Now()), nil
}

func (a *Hours) ask(ctx context.Context, peer taskstate.PeerID) (t told, err error) {
	c, err := a.Dial(ctx, peer, Protocol)
	if err != nil {
		return t, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if err = wire.NewWriter(c, maxFrame).Send(question{kept}); err == nil {
		err = wire.NewReader(c, maxFrame).Read(&t)
	}
	return t, err
}

// hourOf lays points out by time: each into the step in which it was read, by the clock of who
// asks. What makes no sense is left out.
func hourOf(t told, id taskstate.PeerID, name string, now time.Time) api.PeerLoad {
	out := api.PeerLoad{Peer: string(id), PeerName: name, Step: step.Seconds(), Hour: make([]*api.Load, kept), AsOf: now.UTC()}
	if t.Now != nil && t.Now.Check() == nil {
		out.Now = Of(t.Now)
	}
	points := t.Points[max(0, len(t.Points)-kept):]
	if len(points) == 0 {
		return out
	}
	newest := slices.MaxFunc(points, func(a, b point) int { return cmp.Compare(a.At, b.At) }).At
	for _, p := range points {
		if p.At < 0 || newest < 0 || t.Ago < 0 || p.Load.Check() != nil {
			continue
		}
		if ago := newest - p.At + t.Ago; ago >= 0 && ago < step.Milliseconds()*int64(kept) {
			out.Hour[kept-1-int(ago/step.Milliseconds())] = Of(&p.Load)
		}
	}
	return out
}

// Of is a load as the API has it; nil of nil.
func Of(l *session.Load) *api.Load {
	if l == nil {
		return nil
	}
	out := &api.Load{Memory: l.Memory, MemoryOf: l.MemoryOf}
	if l.CPU != nil {
		out.CPU = new(float64(*l.CPU) / 1000)
	}
	if l.Average != nil {
		out.Average = new(float64(*l.Average) / 100)
	}
	return out
}
