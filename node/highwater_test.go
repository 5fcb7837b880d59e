package node

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/coveyproject/covey/dispatch/worker/journal"
	"github.com/coveyproject/covey/internal/long"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/highwater"
	"github.com/coveyproject/covey/node/troubles"
	"github.com/coveyproject/covey/taskstate"
)

// turned is a cluster of which everybody is down. A copy of one peer's journal was put back that
// was made while it ran: the start that used it is the right one, and nobody has in memory what
// came after it.
type turned struct {
	t    *testing.T
	all  []*living
	peer *living
	inc  taskstate.Incarnation
}

// turnBack makes one of a cluster; only one peer's file remembers what came after the copy.
func turnBack(t *testing.T, all []*living, peer, memory *living) *turned {
	t.Helper()
	w := &turned{t: t, all: all, peer: peer, inc: peer.worker.Incarnation()}
	journal := peer.folder.path(journal.FileName)
	w.remembers(peer, 0)
	old, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	w.remembers(memory, peer.statuses.known(peer.self, w.inc).Number)
	var down sync.WaitGroup
	for _, l := range all {
		down.Go(l.crash) // at once: one after the other, they would give up their seats
	}
	down.Wait()
	for _, l := range all {
		if l != memory {
			err = errors.Join(err, os.Remove(l.folder.path(highwater.Name)))
		}
	}
	if err := errors.Join(err, os.WriteFile(journal, old, 0o600)); err != nil {
		t.Fatal(err)
	}
	return w
}

// work has the peer run something.
func (w *turned) work(asked *living) {
	w.t.Helper()
	j := noopJob("there", 3, 0)
	j.Constraints = []string{"peer.name == " + w.peer.name}
	asked.t = w.t
	if row, _ := asked.outcome(asked.submit(j)); row.State != "complete" {
		w.t.Fatalf("%+v", row)
	}
}

// remembers has the peer work until somebody remembers more of its batches than that.
func (w *turned) remembers(l *living, least uint64) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("%s remembers more than %d batches", l.name, least), func() (bool, string) {
		w.work(w.all[0])
		n := l.highwater.Highest(w.peer.self, w.inc)
		return n > least, fmt.Sprint(n)
	})
}

// notices waits until the peer, which is back, says that its journal is old.
func (w *turned) notices(peer, other *living) {
	w.t.Helper()
	eventually(w.t, "the peer says that its journal is lost", func() (bool, string) {
		return has(&peer.troubles, peer.self, api.TroubleJournalLost), ""
	})
	if peer.worker.Incarnation() == w.inc {
		w.t.Error("it goes on under the numbers it has used")
	}
	w.work(other)
}

func TestAJournalPutBackWhileAllWereDownIsToldByWhatIsRememberedOnDisk(t *testing.T) {
	long.Test(t)
	t.Parallel()
	for name, memory := range map[string]int{"the peer's own": 1, "the coordinator's": 0} {
		t.Run(name, func(t *testing.T) {
			all := clusterOf(t, "one", "two")
			w := turnBack(t, all, all[1], all[memory])
			one := all[0].back()
			w.notices(all[1].back(), one)
		})
	}
}

// Who coordinates then has just started, and was not told what the worker did: another voter was.
func TestACoordinatorAsksTheOtherVotersWhatTheyRememberOfAWorkerThatComesBack(t *testing.T) {
	long.Test(t)
	t.Parallel()
	all := clusterOf(t, "one", "two", "three", "four")
	var seats []taskstate.PeerID
	eventually(t, "three hold a seat", func() (bool, string) {
		seats = all[0].statuses.asker.Seats()
		return len(seats) == 3, fmt.Sprint(seats)
	})
	var voters []*living
	var peer *living
	for _, l := range all[1:] {
		if slices.Contains(seats, l.self) {
			voters = append(voters, l)
		} else {
			peer = l
		}
	}
	w := turnBack(t, all, peer, all[0])
	cfg := voters[0].cfg
	cfg.Join, cfg.Listen = "", voters[0].host.Addrs()
	first, ready, err := begun(t, cfg) // and is ready when there are two
	if err != nil {
		t.Fatal(err)
	}
	voters[1].back()
	<-ready
	all[0].back() // to follow them, as a rule
	w.notices(peer.back(), first)
}

func has(x *troubles.Troubles, peer, code string) bool {
	for _, t := range x.List(peer) {
		if t.Code == code {
			return true
		}
	}
	return false
}
