package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/caller"
	"github.com/coveyproject/covey/node/clinic"
	"github.com/coveyproject/covey/node/copies"
	"github.com/coveyproject/covey/node/door"
	"github.com/coveyproject/covey/node/files"
	"github.com/coveyproject/covey/node/guard"
	"github.com/coveyproject/covey/node/links"
	"github.com/coveyproject/covey/node/load"
	"github.com/coveyproject/covey/node/metrics"
	"github.com/coveyproject/covey/node/orders"
	"github.com/coveyproject/covey/node/runner/supervise"
	"github.com/coveyproject/covey/node/stdin"
	"github.com/coveyproject/covey/node/view"
)

// stopGrace bounds how long an orderly end may take: hand over, last statuses, goodbyes.
const stopGrace = 12 * time.Second

// sayEnding is when a person is told that an end takes long.
const sayEnding = time.Second

// removedGrace is the same for a peer that was removed: tasks are stopped, and nobody listens any
// more.
const removedGrace = 2 * time.Second

// endTasks ends whatever still runs here of a peer that was removed: its tasks run elsewhere by
// now. The parts are closed already.
func (f *folder) endTasks() error {
	if err := supervise.EndAll(TasksFolder(f.dir)); err != nil {
		return api.Errorf(api.Failed, "tasks of this peer, which was removed, may still run: %v; look for them and end them by hand", err)
	}
	return nil
}

// finishGrace is how long the parts may take to end and to close their files, when all has been
// said.
const finishGrace = 20 * time.Second

// finish waits for all that Run started, takes the wiring back and closes the parts. A disk that is
// stuck is not waited for: what waits for it ends with the program.
func (n *Node) finish(wg *sync.WaitGroup, unwire func()) error {
	done := make(chan error, 1)
	go func() {
		wg.Wait()
		unwire()
		done <- n.Close()
	}()
	select {
	case err := <-done:
		if err != nil {
			n.log.Warn("stopped, with trouble", "err", err)
		}
		return nil
	case <-time.After(finishGrace):
		return api.Errorf(api.Failed, "stopped without closing every file: the disk with the data folder %s did not answer for %s; what was acknowledged is on it", n.folder.dir, finishGrace)
	}
}

// lastAnswers is how long the API's last answers, to `peer down` for one, may take to be read.
const lastAnswers = time.Second

// Backend answers the local API: the view what is asked, the orders what is to change, the node
// what is this peer.
func (n *Node) Backend() api.Backend {
	return struct {
		*view.View
		*view.Shapes
		*links.Asker
		*load.Hours
		*clinic.Clinic
		*orders.Orders
		*files.Files
		*guard.OwnerView
		*stdin.Feeds
		*metrics.Meter
		*door.Door
		*Node
	}{n.view, n.view.Shapes, n.links, n.load, n.clinic, n.orders, n.files.put, n.trust, n.feeds, n.metrics, n.door, n}
}

// gate decides which calls are answered, wherever they come from.
func gate(n *Node) *api.Gate {
	return &api.Gate{Self: n.self, Note: api.Audited(n.audit), Reads: n.readers.All, Count: n.metrics.Answered}
}

// serveAPI serves the local API until ctx ends.
func (n *Node) serveAPI(ctx context.Context, l net.Listener) error {
	g := gate(n)
	if n.cfg.Machine.API == nil { // whoever simulates this machine may do everything
		var err error
		if g.Token, err = api.DrawToken(n.folder.dir); err != nil {
			n.log.Error("administration has no token: `peer ticket` and its like are refused until this peer is started again with room on its disk", "err", err)
		}
	}
	from := &caller.Listener{Listener: l, Tasks: TasksFolder(n.folder.dir), By: n.guard.By, Name: n.view.Who.Called}
	srv := &http.Server{
		Handler: api.NewHandler(n.Backend(), g), ReadHeaderTimeout: 5 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: from.Greet,
	}
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		last, cancel := context.WithTimeout(context.Background(), lastAnswers)
		defer cancel()
		if srv.Shutdown(last) != nil {
			srv.Close()
		}
	})
	if err := srv.Serve(from); !errors.Is(err, http.ErrServerClosed) {
		stop()
		return err
	}
	<-closed
	return nil
}

// goodbye ends in order: the worker's last statuses, the vote, the neighbours.
func (n *Node) goodbye() {
	grace := stopGrace
	if n.keeper.Removed() {
		grace = removedGrace
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	end := n.worker.Detach                         // back soon: processes go on and are taken up again
	if !n.runner.Lasting() || n.keeper.Removed() { // one that was removed takes nothing up again
		end = n.worker.Stop
	} else if n.cfg.Ending != nil {
		defer time.AfterFunc(sayEnding, func() { n.cfg.Ending(grace) }).Stop()
	}
	if err := end(ctx); err != nil { // at once after Leave, which has stopped it
		n.log.Warn("not everything this peer said of its tasks was acknowledged; it is journaled and follows at the next start", "err", err)
	}
	if err := n.ledger.Handover(ctx); err != nil {
		n.log.Info("vote not handed over", "err", err)
	}
	if err := n.members.Leave(ctx); err != nil {
		n.log.Debug("goodbye not heard", "err", err)
	}
}

// ending is that this peer is to end, and whether it gives its membership up.
type ending struct {
	asked   chan struct{} // closed by the first that asks
	once    sync.Once
	leaving atomic.Bool // the end of the membership is this peer's own wish
}

func (e *ending) ask() { e.once.Do(func() { close(e.asked) }) }

// Down implements api.AdminBackend.
func (n *Node) Down(context.Context) error {
	n.ending.ask()
	return nil
}

// halt takes this peer out of deciding and working, or back in.
func (n *Node) halt(on bool) {
	if on {
		n.worker.Mute(true)
		n.worker.Refrain(api.TroubleCopied, copies.Copied{})
		if err := n.ledger.Suspend(); err != nil {
			n.log.Warn("took no more part in deciding, with trouble", "err", err)
		}
		return
	}
	if err := n.ledger.Resume(); err != nil {
		n.log.Error("this peer cannot take its seat among the voters again", "err", err)
	}
	n.worker.Refrain(api.TroubleCopied, nil)
	n.worker.Mute(false)
}

// tooOld hears that a peer does not understand this version, as soon as the host listens: the
// ledger, which knows names best, may not be open yet.
func (n *Node) tooOld(peer string) {
	e, _ := n.roster.Get(peer)
	text := fmt.Sprintf("peer %s runs version 0.1, which does not understand this one (%s): install this version there and restart it", cmp.Or(e.Name, peer), n.cfg.Version)
	if n.troubles.Set(peer, api.TroubleOldVersion, text) {
		n.log.Warn(text, "peer", peer)
	}
}

// Close releases what New took. After Run it is not needed.
func (n *Node) Close() error {
	var errs []error
	if n.worker != nil {
		errs = append(errs, n.worker.Close())
	}
	if n.runner != nil {
		errs = append(errs, n.runner.Close())
	}
	if n.files != nil {
		errs = append(errs, n.files.stager.Close())
	}
	if n.ledger != nil {
		errs = append(errs, n.ledger.Close())
	}
	if n.host != nil {
		errs = append(errs, n.host.Close())
	}
	if n.folder != nil {
		errs = append(errs, n.folder.close())
	}
	return errors.Join(errs...)
}
