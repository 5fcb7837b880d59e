package roster_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger/quorum"
	"github.com/coveyproject/covey/internal/mailbox"
	"github.com/coveyproject/covey/node/roster"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/memnet"
	"github.com/coveyproject/covey/taskstate"
)

// starting is a network whose peers answer nothing for a while.
type starting struct {
	admission.Net
	dials *atomic.Int64
	until time.Time
}

func (s starting) Dial(ctx context.Context, peer, protocol string) (net.Conn, error) {
	if s.dials.Add(1); time.Now().Before(s.until) {
		return nil, errors.New("protocols not supported")
	}
	return s.Net.Dial(ctx, peer, protocol)
}

// signed is an entry that v1 signed.
func signed(t *testing.T, net *memnet.Network, peer string) admission.Entry {
	t.Helper()
	e, err := admission.Entry{Cluster: "c1", Peer: peer, Name: peer, Roles: admission.AllRoles(), At: 1}.Signed(net.Host("v1"))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestAPeerThatTurnsThisOneAwayWhileItStartsIsShownTheEntryAgain(t *testing.T) {
	for name, x := range map[string]struct {
		knowsV1 bool // v2 does, and so believes what v1 signed
		most    int64
	}{"and believes it": {true, 4}, "and does not": {false, 5}} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			net := memnet.New()
			defer func() { _ = net.Close() }()
			open := func(peer string, entries ...string) *admission.Roster {
				r, err := admission.OpenRoster(filepath.Join(dir, peer), memnet.Verify)
				if err != nil {
					t.Fatal(err)
				}
				seats, err := admission.OpenSeats(filepath.Join(dir, peer+"-seats"), net.Host(peer), memnet.Verify)
				if err != nil {
					t.Fatal(err)
				}
				if x.knowsV1 || peer == "v3" {
					seats.Hold("c1", 1, 5, []string{"v1"})
				}
				r.Believe(seats, nil, nil)
				for _, e := range entries {
					if err := r.Trust(signed(t, net, e)); err != nil {
						t.Fatal(err)
					}
				}
				return r
			}
			v2, v3 := open("v2", "v1", "v2"), open("v3", "v1", "v2", "v3")
			stop := admission.Serve(net.Host("v2"), nil, v2, admission.Config{})
			defer stop()
			dials := new(atomic.Int64)
			barred := mailbox.New[taskstate.PeerID]()
			k := roster.New(roster.Config{NotAdmitted: barred, Self: "v3", Roster: v3, Ledger: func() *quorum.Node { return nil }, Log: slog.New(slog.DiscardHandler), Net: starting{net.Host("v3"), dials, time.Now().Add(2500 * time.Millisecond)}})
			ctx, cancel := context.WithCancel(t.Context())
			ran := make(chan error)
			go func() { ran <- k.Run(ctx, func() {}) }()
			for range 100 { // what this peer asks it, ten times a second
				if !v2.Admitted("v3") {
					barred.Put("v2")
				}
				time.Sleep(100 * time.Millisecond)
			}
			if v2.Admitted("v3") != x.knowsV1 {
				t.Errorf("%s: is it admitted? %v", name, v2.Admitted("v3"))
			}
			if n := dials.Load(); n < 4 || n > x.most {
				t.Errorf("%s: it was asked %d times in ten seconds", name, n)
			}
			cancel()
			if err := <-ran; err != nil {
				t.Error(err)
			}
		})
	}
}
