package membership_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/p2p"
)

// TestOnRealHosts runs on libp2p over loopback: what the in-memory twin cannot show is whether a
// dead process really refuses, and whether a peer that comes back elsewhere is dialled there. It
// waits generously and measures nothing.
func TestOnRealHosts(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	start := func(key p2pKey, contact ...membership.PeerAddr) (*p2p.Host, *membership.Membership, context.CancelFunc) {
		h, err := p2p.New(p2p.Config{Key: key, Listen: []string{"127.0.0.1:0"}, Admitted: func(string) bool { return true }})
		if err != nil {
			t.Fatal(err)
		}
		m, err := membership.New(membership.Config{Net: h, Host: h, Addrs: h.Addrs, Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))})
		if err != nil {
			t.Fatal(err)
		}
		h.OnDisconnect(m.Probe)
		h.OnConnect(m.Heard)
		ctx, stop := context.WithCancel(ctx)
		done := make(chan struct{})
		work.Go(func() {
			defer close(done)
			_ = m.Run(ctx)
			_ = h.Close()
		})
		began := time.Now()
		for err := m.Join(ctx, contact); err != nil; err = m.Join(ctx, contact) { // a dial has three seconds
			if time.Since(began) > time.Minute {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		return h, m, func() { stop(); <-done }
	}
	until := func(what string, ms []*membership.Membership, ok func(*membership.View) bool) {
		t.Helper()
		for _, m := range ms {
			changed := make(chan struct{}, 1)
			stop := m.Observe(func(*membership.View) {
				select {
				case changed <- struct{}{}:
				default:
				}
			})
			for !ok(m.View()) {
				select {
				case <-changed:
				case <-time.After(time.Minute):
					t.Fatalf("%s: %s", what, m.View())
				}
			}
			stop()
		}
	}
	is := func(peer string, v membership.Verdict) func(*membership.View) bool {
		return func(view *membership.View) bool { return view.Verdict(peer) == v }
	}
	keys := []p2pKey{newKey(t), newKey(t), newKey(t)}
	h0, m0, _ := start(keys[0])
	contact := membership.PeerAddr{ID: h0.Self(), Addrs: h0.Addrs()}
	_, m1, _ := start(keys[1], contact)
	h2, m2, kill := start(keys[2], contact)
	until("all see the third", []*membership.Membership{m0, m1}, is(h2.Self(), membership.Alive))
	until("the third sees the first", []*membership.Membership{m2}, is(h0.Self(), membership.Alive))
	began := time.Now()
	kill()
	until("the third is dead", []*membership.Membership{m0, m1}, is(h2.Self(), membership.Dead))
	t.Logf("dead after %s", time.Since(began))
	began = time.Now()
	again, _, _ := start(keys[2], contact)
	until("the third is back", []*membership.Membership{m0, m1}, is(again.Self(), membership.Alive))
	t.Logf("back after %s", time.Since(began))
	until("its new address is known", []*membership.Membership{m0, m1}, func(v *membership.View) bool {
		m, _ := v.Get(again.Self())
		return slices.Equal(m.Addrs, again.Addrs())
	})
}
