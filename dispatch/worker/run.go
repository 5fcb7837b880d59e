package worker

import (
	"context"
	"errors"
	"sync"
)

// Run keeps a session to the coordinator and runs tasks until Stop or Detach has been carried
// out (nil) or ctx ends. When ctx ends, nothing is stopped or said any more, as in a crash; the
// journal is closed properly.
func (w *Loop) Run(ctx context.Context) error {
	var err error
	w.once.Do(func() {
		defer close(w.ended)
		for {
			err = w.life(ctx)
			lost, over := errors.AsType[*lostJournal](err)
			if !over {
				return
			}
			if err = w.renew(lost); err != nil {
				return
			}
		}
	})
	return err
}

// life is that of one incarnation, or what is left of it.
func (w *Loop) life(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { w.write(ctx) })
	wg.Go(func() { w.publish(ctx) })
	wg.Go(func() {
		w.headStart(ctx)
		w.sessions(ctx)
	})
	on := false
	if on, err = w.replay(ctx); on {
		err = w.own(ctx)
	}
	cancel()
	wg.Wait()
	w.local.Wait()
	w.adopting.Wait()
	if w.abandoned {
		return errors.Join(err, w.Health())
	}
	if w.journal != nil {
		err = errors.Join(err, w.journal.Close())
	}
	return err
}
