//go:build unix

package testnet_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
)

// copiedScenes: a peer's folder is copied, and the copy runs beside it.
func copiedScenes() []diskScene {
	return []diskScene{
		{"a copy of a peer runs beside it", withWork(func(w *workRound) {
			k := 1 + w.r.IntN(3)
			w.work()
			clone := filepath.Join(w.t.TempDir(), "clone")
			if w.r.IntN(2) == 0 {
				w.kill(k)
				w.copyFolder(w.net.Data(k), clone)
				w.start(k)
				w.hurt[k] = "copied when it was stopped"
			} else {
				w.copyFrozen(k, w.net.Data(k), clone)
				w.hurt[k] = "copied when it ran"
			}
			w.busy(k)
			at, end := w.startCopy(k, clone)
			for _, c := range []*client.Client{w.net.Client(k), at} {
				w.await("both say that there are two", func() string {
					if told := w.troubles(c); !slices.Contains(told, api.TroubleCopied) {
						return fmt.Sprint(told)
					}
					return ""
				})
			}
			w.give(workJob{count: 2, once: true}, 1+k%3) // the others go on
			w.ranOnce()
			end()
			w.kill(k)
			if w.r.IntN(2) == 0 { // a person keeps the copy
				w.hurt[k] += ", and the copy kept"
				w.copyFolder(clone, w.net.Data(k))
			}
			w.t.Logf("peer %d: %s", k, w.hurt[k])
			w.start(k)
			w.busy(k)
			if told := w.troubles(w.net.Client(k)); slices.Contains(told, api.TroubleCopied) {
				w.t.Errorf("there is one again, and it says %v", told)
			}
		})},
		{"of two halves that cannot reach each other, the one with a copy decides nothing", func(d *diskRound) {
			w := newWork(d)
			defer os.Remove(w.stay)
			defer w.lastWords()
			order := w.r.Perm(3)
			k, here, there := order[0]+1, order[1]+1, order[2]+1
			w.keepsAll()
			w.acquainted()
			w.kill(1, 2, 3)
			clone := filepath.Join(w.t.TempDir(), "clone")
			w.copyFolder(w.net.Data(k), clone)
			w.hurt[k] = "copied"
			// Each half lives while the other does not, as if there were a cut between them; then
			// both do.
			w.start(there)
			copied, end := w.startCopy(k, clone)
			w.await("the copy gives no vote", func() string {
				if told := w.troubles(copied); !slices.Contains(told, api.TroubleStaleSeat) {
					return fmt.Sprint(told)
				}
				return ""
			})
			if pause.For(w.t.Context(), 12*time.Second) == nil && noCoordinator(w.t.Context(), copied, w.net.Client(there)) == "" {
				w.t.Error("the copy decides with another voter, as the peer that was copied may do")
			}
			end()
			w.kill(there)
			w.start(here, k)
			w.await("the peer that was copied decides with the third", func() string {
				return noCoordinator(w.t.Context(), w.net.Client(k), w.net.Client(here))
			})
			w.give(workJob{count: 2, once: true}, k)
			w.start(there)
			copied, end = w.startCopy(k, clone)
			for _, c := range []*client.Client{w.net.Client(k), copied} {
				w.await("both say that there are two", func() string {
					if told := w.troubles(c); !slices.Contains(told, api.TroubleCopied) {
						return fmt.Sprint(told)
					}
					return ""
				})
			}
			end()
			w.kill(k)
			w.start(k)
		}},
	}
}

// acquainted waits until every peer has on disk where the others are, so that any two find each
// other after all were down.
func (w *workRound) acquainted() {
	w.t.Helper()
	w.await("every peer knows where the others are", func() string {
		for k := 1; k <= w.net.N(); k++ {
			book, err := os.ReadFile(filepath.Join(w.net.Data(k), "book"))
			for j := 1; j <= w.net.N(); j++ {
				if j != k && !strings.Contains(string(book), w.net.ID(j)) {
					return fmt.Sprintf("peer %d does not know peer %d: %v", k, j, err)
				}
			}
		}
		return ""
	})
}

// noCoordinator says which of some peers knows nobody who decides.
func noCoordinator(ctx context.Context, peers ...*client.Client) string {
	for _, c := range peers {
		if st, err := c.Status(ctx); err != nil || st.Coordinator == "" {
			return fmt.Sprint(st.Warnings, err)
		}
	}
	return ""
}

// startCopy starts a second process from a copy of peer k's folder, and returns who asks it and
// what ends it.
func (w *workRound) startCopy(k int, dir string) (*client.Client, func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	cmd := exec.CommandContext(ctx, exe(w.t), "--data", dir, "up", "--testnet", "--no-mdns", "--name", fmt.Sprintf("p%d", k), "--listen", "127.0.0.1:0")
	out, err := os.Create(filepath.Join(w.t.TempDir(), "copy.log"))
	if err != nil {
		w.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	at := client.Of(dir)
	end := func() {
		cancel()
		_ = cmd.Wait()
		_ = out.Close()
		at.Close()
	}
	w.t.Cleanup(end)
	return at, end
}

var restarts = flag.Int("restarts", 5, "how often TestPlainRestarts… kills a peer and starts it again: 200 for a thorough look")

// alarms are what no plain end and new start of a peer may raise.
var alarms = []string{api.TroubleCopied, api.TroubleJournalLost, api.TroubleMoved, api.TroubleStaleSeat, api.TroubleSetAside}

func TestPlainRestartsRaiseNoAlarmAndRunNothingTwice(t *testing.T) {
	long.Test(t)
	if testing.Short() {
		t.Skip("real processes")
	}
	playDisks(t, rand.New(rand.NewPCG(*diskSeed, 8)), diskScene{"restarts", withWork(func(w *workRound) {
		w.work()
		for i := range *restarts {
			k := 1 + w.r.IntN(3)
			if w.r.IntN(4) == 0 {
				w.give(workJob{count: 2, once: w.r.IntN(2) == 0, stays: w.r.IntN(8) == 0}, 0)
			}
			w.calm(i)
			w.kill(k)
			w.start(k)
			if w.r.IntN(3) > 0 { // else it is killed again perhaps before it met anybody
				w.await("it is back", func() string {
					if err := w.net.AwaitReady(t.Context()); err != nil {
						return err.Error()
					}
					return ""
				})
			} else {
				_ = pause.For(t.Context(), time.Duration(w.r.IntN(500))*time.Millisecond)
			}
			w.calm(i)
		}
	})})
}

// calm fails if any peer raises an alarm, about itself or another one.
func (w *workRound) calm(i int) {
	w.t.Helper()
	for k := 1; k <= w.net.N(); k++ {
		told := w.troubles(w.net.Client(k))
		if all, err := w.net.Client(k).Peers(w.t.Context()); err == nil {
			for _, p := range all.Peers {
				for _, x := range p.Troubles {
					told = append(told, x.Code)
				}
			}
		}
		for _, code := range told {
			if slices.Contains(alarms, code) {
				w.t.Fatalf("after %d plain restarts peer %d tells of %v", i, k, told)
			}
		}
	}
}
