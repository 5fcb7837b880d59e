package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"covey/node/api"
	"covey/node/orders"
	"covey/node/runner/supervise"
	"covey/node/sweep"
	"covey/node/view"
)

// stopGrace bounds how long an orderly end may take: hand over, last statuses, goodbyes.
const stopGrace = 12 * time.Second

// removedGrace is the same for a peer that was removed: tasks are stopped, and nobody listens any
// more.
const removedGrace = 2 * time.Second

// Run lives until ctx ends, Down or Leave is asked for, or something essential fails. ready is
// called once when the peer can be used. Before Run returns everything it started has ended.
func (n *Node) Run(ctx context.Context, ready func(api.Status)) error {
	if err := n.enter(ctx); err != nil {
		err = errors.Join(err, n.Close())
		if n.keeper.Removed() { // while this peer was away: what it left running must end
			err = errors.Join(err, n.folder.endTasks())
		}
		return n.room.explain(err)
	}
	life, end := context.WithCancelCause(context.Background()) // ends after the goodbyes, not with ctx
	defer end(nil)
	var wg sync.WaitGroup
	run := func(what string, f func(context.Context) error) {
		wg.Go(func() {
			if err := f(life); err != nil && life.Err() == nil {
				end(fmt.Errorf("%s: %w", what, err))
			}
		})
	}
	stop, err := n.wire(life)
	if err != nil {
		return errors.Join(err, n.Close())
	}
	run("ledger", func(ctx context.Context) error { return n.ledger.Run(ctx, n.lead) })
	run("membership", n.members.Run)
	run("digest", n.exchange.Run)
	run("copies", n.copies.Run)
	run("workers heard", n.heard.Run)
	run("former identity", func(ctx context.Context) error { return n.folder.giveUp(ctx, n.self, n.host.Dial, n.log) })
	run("statuses", func(ctx context.Context) error { return n.statuses.refill(ctx, n.store) })
	run("worker", n.worker.Run)
	run("room", n.room.Run)
	run("old files", sweep.New(n.sweepConfig()).Run)
	run("held jobs", n.orders.Forward)
	run("withdrawn jobs", n.orders.Recall)
	run("coordinator news", n.followLeads)
	run("roster", func(ctx context.Context) error { return n.keeper.Run(ctx, n.rosterChanged) })
	run("liars", func(ctx context.Context) error { return watchLiars(ctx, n.members.Liars, n.view.Who.Name, &n.troubles) })
	run("seat", n.tellSeat)
	listener, err := n.cfg.Machine.listenAPI(n.folder.dir)
	if err != nil {
		end(nil)
		return errors.Join(api.Errorf(api.Failed, "%v", err), n.finish(&wg, stop))
	}
	run("api", func(ctx context.Context) error { return serveAPI(ctx, listener, n.Backend()) })

	if err := n.awaitReady(ctx, life); err == nil {
		n.ready.Store(true)
		close(n.up)
		st, _ := n.Status(ctx)
		ready(st)
		select {
		case <-ctx.Done():
		case <-n.down:
		case <-life.Done():
		}
	}
	n.goodbye()
	end(nil)
	err = n.finish(&wg, stop)
	if cause := context.Cause(life); !errors.Is(cause, context.Canceled) {
		return cause
	}
	if err != nil {
		return err
	}
	if n.keeper.Removed() {
		if err := n.folder.endTasks(); err != nil || n.leaving.Load() {
			return err
		}
		return n.keeper.ErrRemoved()
	}
	return nil
}

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
		*orders.Orders
		*Node
	}{n.view, n.orders, n}
}

// serveAPI serves the local API until ctx ends.
func serveAPI(ctx context.Context, l net.Listener, b api.Backend) error {
	srv := &http.Server{
		Handler: api.NewHandler(b), ReadHeaderTimeout: 5 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
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
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
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

// Down implements api.AdminBackend.
func (n *Node) Down(context.Context) error {
	n.downOnce.Do(func() { close(n.down) })
	return nil
}
