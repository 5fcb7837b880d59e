package links

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/internal/golden"
	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/p2p/wire"
)

// cluster are peers that are all connected to each other, over pipes; the last ones relayed.
func cluster(n int) map[string]*Asker {
	all := map[string]*Asker{}
	view := &membership.View{}
	for i := range n {
		id := fmt.Sprint("p", i)
		view.Members = append(view.Members, membership.Member{ID: id, Verdict: membership.Alive, RTT: time.Duration(i) * time.Millisecond})
		all[id] = &Asker{
			Self: id, Members: func() *membership.View { return view }, Name: func(p string) string { return "name of " + p },
			Connected: func(peer string) (direct, relayed bool) { return peer != "p2", true },
			Dial: func(_ context.Context, peer, _ string) (net.Conn, error) {
				if all[peer] == nil {
					return nil, errors.New("gone")
				}
				a, b := net.Pipe()
				go all[peer].Serve(id, b)
				return a, nil
			},
		}
	}
	return all
}

func TestAllPeersTellOfTheirLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, err := cluster(4)["p0"].Links(t.Context())
		if err != nil || len(out.Links) != 12 || len(out.Silent) != 0 {
			t.Fatalf("%+v, %v", out, err)
		}
		if l := out.Links[1]; l.From != "p0" || l.To != "p2" || l.Path != "relayed" || l.RTT != 0.002 || l.ToName != "name of p2" {
			t.Errorf("%+v", l)
		}
		if l := out.Links[3]; l.From != "p1" || l.To != "p0" || l.Path != "direct" {
			t.Errorf("%+v", l)
		}
	})
}

func TestWhoDoesNotAnswerIsNamedAndNobodyWaitsLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := cluster(4)
		mute, other := net.Pipe()
		defer other.Close()
		a := all["p0"]
		dial := a.Dial
		a.Dial = func(ctx context.Context, peer, protocol string) (net.Conn, error) {
			if peer == "p1" {
				return mute, nil
			}
			return dial(ctx, peer, protocol)
		}
		delete(all, "p3")
		began := time.Now()
		out, _ := a.Links(t.Context())
		if fmt.Sprint(out.Silent) != "[name of p1 name of p3]" || len(out.Links) != 6 || time.Since(began) != patience {
			t.Errorf("%+v after %s", out, time.Since(began))
		}
	})
}

func TestWhatAPeerSaysOfStrangersOrOfItselfIsNotPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := cluster(2)
		a := all["p0"]
		a.Dial = func(context.Context, string, string) (net.Conn, error) {
			c, s := net.Pipe()
			go func() {
				defer s.Close()
				var q question
				_ = wire.NewReader(s, maxFrame).Read(&q)
				_ = wire.NewWriter(s, maxFrame).Send(told{[]link{{Peer: "stranger"}, {Peer: "p1"}, {Peer: "p0", RTT: -5}}})
			}()
			return c, nil
		}
		out, _ := a.Links(t.Context())
		if len(out.Links) != 2 || out.Links[1].To != "p0" || out.Links[1].RTT != 0 {
			t.Errorf("%+v", out)
		}
	})
}

func TestTheWordsOfTheProtocolStayWhatTheyAre(t *testing.T) {
	golden.Wires(t, "wires.txt", golden.Wire{Name: Protocol, Frames: map[string]any{"question": &question{}, "answer": &told{}}})
}
