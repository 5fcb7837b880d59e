package admission_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/memnet"
	"github.com/coveyproject/covey/p2p/wire"
)

// admitter is a coordinator that knows one secret.
type admitter func(ctx context.Context, from string, req admission.JoinRequest) (admission.JoinAnswer, error)

func (a admitter) Admit(ctx context.Context, from string, req admission.JoinRequest) (admission.JoinAnswer, error) {
	return a(ctx, from, req)
}

func refuses(err error) admitter {
	return func(context.Context, string, admission.JoinRequest) (admission.JoinAnswer, error) {
		return admission.JoinAnswer{}, err
	}
}

// bubble runs a cluster in virtual time; everything it started must end.
func bubble(t *testing.T, run func(t *testing.T, f *testCluster)) {
	synctest.Test(t, func(t *testing.T) { run(t, newCluster(t)) })
}

// serve makes v1 answer with a and r until the test ends.
func (f *testCluster) serve(peer string, a admission.Admitter, r *admission.Roster) {
	f.t.Cleanup(admission.Serve(f.net.Host(peer), a, r, admission.Config{}))
}

func (f *testCluster) knows(secret []byte, r *admission.Roster) admitter {
	return func(_ context.Context, from string, req admission.JoinRequest) (admission.JoinAnswer, error) {
		if !bytes.Equal(req.Key, admission.TicketKey(secret)) || !admission.Proved(req.Key, from, req.Proof) {
			return admission.JoinAnswer{}, &admission.Refusal{Code: admission.Refused, Message: "the secret is wrong"}
		}
		e := f.admit("v1", from)
		return admission.JoinAnswer{
			Entry: e, Roster: append(r.All(), e), Voters: []string{"v1"}, Cluster: cluster,
			Peers: []admission.PeerAddr{{ID: "v1", Addrs: []string{"/ip4/10.0.0.1/tcp/1"}}},
		}, r.Trust(e)
	}
}

func TestANewcomerWithTheSecretIsLetIn(t *testing.T) {
	bubble(t, func(t *testing.T, f *testCluster) {
		secret, r := admission.NewSecret(), f.roster(f.admit("v1", "v1"), f.admit("v1", "w"))
		f.serve("v1", f.knows(secret, r), r)
		a, err := admission.Join(t.Context(), f.net.Host("x"), "v1", admission.JoinRequest{Secret: secret, Name: "new", Cluster: cluster})
		if err != nil {
			t.Fatal(err)
		}
		mine := f.roster()
		if err := mine.Adopt(a); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(peers(mine), []string{"v1", "w", "x"}) || !slices.Equal(a.Voters, []string{"v1"}) || len(a.Peers) != 1 {
			t.Errorf("answer %+v, roster %v", a, peers(mine))
		}
	})
}

func TestARosterOfManyFramesArrivesWhole(t *testing.T) {
	bubble(t, func(t *testing.T, f *testCluster) {
		all := []admission.Entry{f.admit("v1", "v1")}
		for i := range 2345 {
			all = append(all, f.admit("v1", fmt.Sprintf("peer-%04d-%s", i, strings.Repeat("x", 50))))
		}
		secret, r := admission.NewSecret(), f.roster(all...)
		f.serve("v1", f.knows(secret, r), r)
		a, err := admission.Join(t.Context(), f.net.Host("x"), "v1", admission.JoinRequest{Secret: secret})
		if err != nil || len(a.Roster) != 2347 {
			t.Fatalf("%d entries, %v; want 2347", len(a.Roster), err)
		}
		if !reflect.DeepEqual(a.Roster[:2346], r.All()[:2346]) {
			t.Error("the entries changed on their way")
		}
	})
}

func TestARefusedNewcomerIsToldWhyAndWhatToDo(t *testing.T) {
	for _, c := range []struct {
		err  error
		code admission.RefusalCode
		says string
	}{
		{&admission.Refusal{Code: admission.Expired, Message: "yesterday"}, admission.Expired, "`peer ticket` on a peer of the cluster (yesterday)"},
		{&admission.Refusal{Code: admission.UsedUp}, admission.UsedUp, "as often as it may be"},
		{&admission.Refusal{Code: admission.Revoked}, admission.Revoked, "was revoked"},
		{&admission.Refusal{Code: admission.Removed}, admission.Removed, "no ticket lets its key in again"},
		{&admission.Refusal{Code: admission.UsedBefore}, admission.UsedBefore, "joined with this ticket before"},
		{&admission.Refusal{Code: admission.WrongCluster}, admission.WrongCluster, "another cluster"},
		{fmt.Errorf("forwarding: %w", &admission.Refusal{Code: admission.NoCoordinator}), admission.NoCoordinator, "try again"},
		{&admission.Refusal{Code: admission.Later}, admission.Later, "let in first"},
		{errors.New("raft: a detail of ours"), admission.NoCoordinator, "try again"},
		{&admission.Refusal{Code: admission.Refused, Message: "the secret is wrong"}, admission.Refused, "the cluster refused this peer"},
		{&admission.Refusal{Code: "made-up", Message: "a detail of ours"}, admission.Refused, "the cluster refused this peer"},
	} {
		bubble(t, func(t *testing.T, f *testCluster) {
			r := f.roster(f.admit("v1", "v1"))
			f.serve("v1", refuses(c.err), r)
			a, err := admission.Join(t.Context(), f.net.Host("x"), "v1", admission.JoinRequest{Secret: admission.NewSecret()})
			var no *admission.Refusal
			if !errors.As(err, &no) || no.Code != c.code || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%v: got %v, want %s that says %q", c.err, err, c.code, c.says)
			}
			if strings.Contains(err.Error(), "detail of ours") || strings.Contains(err.Error(), "secret is wrong") {
				t.Errorf("a stranger heard too much: %v", err)
			}
			if no.Temporary() != (c.code == admission.NoCoordinator || c.code == admission.Later) {
				t.Errorf("%s: temporary is %v", c.code, no.Temporary())
			}
			if len(a.Roster)+len(a.Voters)+len(a.Peers) > 0 || a.Cluster != "" {
				t.Errorf("a refused peer learnt %+v", a)
			}
		})
	}
}

func TestARefusalCarriesNothingElse(t *testing.T) {
	bubble(t, func(t *testing.T, f *testCluster) {
		r := f.roster(f.admit("v1", "v1"))
		f.serve("v1", admitter(func(context.Context, string, admission.JoinRequest) (admission.JoinAnswer, error) {
			return admission.JoinAnswer{Refusal: &admission.Refusal{Code: admission.Expired}, Roster: r.All(), Cluster: cluster}, nil
		}), r)
		raw := f.talk("v1", admission.JoinProtocol, admission.JoinRequest{})
		if bytes.Contains(raw, []byte(cluster)) || bytes.Contains(raw, []byte("v1")) {
			t.Errorf("a stranger heard %q", raw)
		}
	})
}

// talk sends one frame as the stranger "z" and returns every byte that comes back.
func (f *testCluster) talk(peer, protocol string, v any) []byte {
	f.t.Helper()
	c, err := f.net.Host("z").Dial(f.t.Context(), peer, protocol)
	if err != nil {
		f.t.Fatal(err)
	}
	defer c.Close()
	_ = wire.NewWriter(c, 0).Send(v)
	raw, _ := io.ReadAll(c)
	return raw
}

func TestATicketOfAnotherClusterIsNotJoined(t *testing.T) {
	bubble(t, func(t *testing.T, f *testCluster) {
		secret, r := admission.NewSecret(), f.roster(f.admit("v1", "v1"))
		f.serve("v1", f.knows(secret, r), r)
		_, err := admission.Join(t.Context(), f.net.Host("x"), "v1", admission.JoinRequest{Secret: secret, Cluster: "another"})
		var no *admission.Refusal
		if !errors.As(err, &no) || no.Code != admission.WrongCluster {
			t.Errorf("got %v, want wrong-cluster", err)
		}
	})
}

func TestACoordinatorThatTakesTooLongIsNoCoordinator(t *testing.T) {
	bubble(t, func(t *testing.T, f *testCluster) {
		f.serve("v1", admitter(func(ctx context.Context, _ string, _ admission.JoinRequest) (admission.JoinAnswer, error) {
			<-ctx.Done()
			return admission.JoinAnswer{}, ctx.Err()
		}), f.roster(f.admit("v1", "v1")))
		_, err := admission.Join(t.Context(), f.net.Host("x"), "v1", admission.JoinRequest{})
		var no *admission.Refusal
		if !errors.As(err, &no) || no.Code != admission.NoCoordinator {
			t.Errorf("got %v, want no-coordinator", err)
		}
	})
}

func TestAPeerThatNeverAnswersIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T, f *testCluster) {
		f.net.Host("v1").Handle(admission.JoinProtocol, func(_ string, c net.Conn) { _, _ = io.Copy(io.Discard, c); c.Close() })
		_, err := admission.Join(t.Context(), f.net.Host("x"), "v1", admission.JoinRequest{})
		if err == nil || !strings.Contains(err.Error(), "v1 was reached but gave no answer") {
			t.Errorf("got %v", err)
		}
		f.net.Kill("v1")
		if _, err = admission.Join(t.Context(), f.net.Host("x"), "v1", admission.JoinRequest{}); err == nil || !strings.Contains(err.Error(), "no contact with v1") {
			t.Errorf("got %v", err)
		}
	})
}

func TestAStrangerIsCutOffWhateverItSends(t *testing.T) {
	big := admission.JoinRequest{Addrs: []string{strings.Repeat("a", 5000)}}
	for what, v := range map[string]any{"a large frame": big, "another shape": []int{1, 2}, "nothing at all": nil} {
		bubble(t, func(t *testing.T, f *testCluster) {
			asked := false
			f.serve("v1", admitter(func(context.Context, string, admission.JoinRequest) (admission.JoinAnswer, error) {
				asked = true
				return admission.JoinAnswer{}, nil
			}), f.roster(f.admit("v1", "v1")))
			start := time.Now()
			c, err := f.net.Host("z").Dial(t.Context(), "v1", admission.JoinProtocol)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if v != nil {
				_ = wire.NewWriter(c, 0).Send(v)
			}
			raw, _ := io.ReadAll(c)
			if len(raw) > 0 || asked || time.Since(start) > admission.DefaultTimeout+time.Second {
				t.Errorf("%s: answered %q, asked %v, after %v", what, raw, asked, time.Since(start))
			}
		})
	}
}

func TestANewcomerWithManyAddressesStillFits(t *testing.T) {
	bubble(t, func(t *testing.T, f *testCluster) {
		secret, r := admission.NewSecret(), f.roster(f.admit("v1", "v1"))
		seen := 0
		f.serve("v1", admitter(func(ctx context.Context, from string, req admission.JoinRequest) (admission.JoinAnswer, error) {
			seen = len(req.Addrs)
			return f.knows(secret, r)(ctx, from, req)
		}), r)
		req := admission.JoinRequest{Secret: secret, Addrs: slices.Repeat([]string{"/dns4/" + strings.Repeat("n", 190)}, 30)}
		if _, err := admission.Join(t.Context(), f.net.Host("x"), "v1", req); err != nil || seen < 10 {
			t.Errorf("%d addresses arrived, %v", seen, err)
		}
	})
}

func TestStoppingEndsWhatIsUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T, f *testCluster) {
		began := make(chan struct{})
		stop := admission.Serve(f.net.Host("v1"), admitter(func(ctx context.Context, _ string, _ admission.JoinRequest) (admission.JoinAnswer, error) {
			close(began)
			<-ctx.Done()
			return admission.JoinAnswer{}, ctx.Err()
		}), f.roster(), admission.Config{Timeout: time.Hour})
		done := make(chan error, 1)
		go func() {
			_, err := admission.Join(t.Context(), f.net.Host("x"), "v1", admission.JoinRequest{})
			done <- err
		}()
		<-began
		start := time.Now()
		stop()
		if err := <-done; err == nil || time.Since(start) > time.Second {
			t.Errorf("the caller heard %v after %v", err, time.Since(start))
		}
		if _, err := f.net.Host("x").Dial(t.Context(), "v1", admission.JoinProtocol); err == nil {
			t.Error("it is still served")
		}
	})
}

func TestAnUnsoundAnswerIsNotAdopted(t *testing.T) {
	f := newCluster(t)
	founder, mine := f.admit("v1", "v1"), f.admit("v1", "x")
	forged := founder
	forged.Roles = nil
	other := f.sign("v1", admission.Entry{Cluster: "other", Peer: "y", At: 9})
	for what, a := range map[string]admission.JoinAnswer{
		"a forged entry":    {Entry: mine, Roster: []admission.Entry{forged}, Cluster: cluster},
		"a mixed roster":    {Entry: mine, Roster: []admission.Entry{founder, other}, Cluster: cluster},
		"an unsigned entry": {Entry: admission.Entry{Cluster: cluster, Peer: "x", By: "v1", At: 1}, Roster: []admission.Entry{founder}},
	} {
		r := f.roster()
		if err := r.Adopt(a); err == nil || len(r.All()) > 0 {
			t.Errorf("%s: %v, roster %v", what, err, peers(r))
		}
	}
}

func TestAdoptingForgetsAnotherClusterAndKeepsNewerNewsOfTheSame(t *testing.T) {
	f := newCluster(t)
	founder, w, mine := f.admit("v1", "v1"), f.admit("v1", "w"), f.admit("v1", "x")
	a := admission.JoinAnswer{Entry: mine, Roster: []admission.Entry{founder, w, mine}, Cluster: cluster}
	r := f.roster(founder, f.remove("v1", "w"))
	if err := r.Adopt(a); err != nil || !slices.Equal(peers(r), []string{"v1", "x"}) {
		t.Errorf("same cluster: %v, %v", peers(r), err)
	}
	r = f.roster(f.sign("q", admission.Entry{Cluster: "other", Peer: "q", At: 1}))
	if err := r.Adopt(a); err != nil || !slices.Equal(peers(r), []string{"v1", "w", "x"}) || r.Cluster() != cluster {
		t.Errorf("another cluster: %v of %q, %v", peers(r), r.Cluster(), err)
	}
}

var _ admission.Net = (*memnet.Host)(nil)
