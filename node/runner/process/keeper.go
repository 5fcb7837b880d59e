package process

import (
	"github.com/coveyproject/covey/internal/mailbox"
	"github.com/coveyproject/covey/node/runner/supervise"
	"github.com/coveyproject/covey/taskstate"
)

// keeper owns processes: a supervisor, by way of its client, or an engine in this process.
type processOwner interface {
	Start(supervise.Spec)
	Stop(task, reason string)
	Ack(tasks []string)
	// Close lets go of a supervisor; processes in this process end.
	Close() error
	// Left is what an earlier peer left.
	Left() []supervise.Event
	// Complete tells whether Left is all there was.
	Complete() bool
	// Rebooted tells whether the machine was started again since.
	Rebooted() bool
}

// inside is an engine in this process. An engine tells under its lock, so what it tells waits in a
// box: who hears of it takes locks of its own, under which the engine is given orders.
type inside struct {
	*supervise.Engine
	left  []supervise.Event
	told  *mailbox.Box[supervise.Event] // at most two of a task
	ended chan struct{}                 // the engine tells nothing any more
	done  chan struct{}                 // all it told was heard
}

func openInside(cfg Config, sink func(supervise.Event)) (processOwner, error) {
	e, err := supervise.NewEngine(supervise.EngineConfig{
		Dir: cfg.Dir, LogCap: cfg.LogCap, Grace: cfg.Grace, Warn: func(s string) { cfg.Log.Warn(s) },
	})
	if err != nil {
		return nil, err
	}
	k := &inside{Engine: e, told: mailbox.New[supervise.Event](), ended: make(chan struct{}), done: make(chan struct{})}
	finding := true
	e.Attach(func(ev supervise.Event) {
		switch {
		case !finding:
			k.told.Put(ev)
		case ev.Task == "":
			finding = false // Attach holds the engine's lock until here: nothing else is told meanwhile
		default:
			k.left = append(k.left, ev)
		}
	})
	go k.hear(sink)
	return k, nil
}

// hear hands on what the engine tells, until it has ended.
func (k *inside) hear(sink func(supervise.Event)) {
	defer close(k.done)
	for over := false; !over; {
		select {
		case <-k.told.News():
		case <-k.ended:
			over = true
		}
		for _, ev := range k.told.Take() {
			sink(ev)
		}
	}
}

// Close is called once.
func (k *inside) Close() error {
	err := k.Engine.Close(string(taskstate.ReasonInterrupted))
	close(k.ended)
	<-k.done
	return err
}

func (k *inside) Left() []supervise.Event { return k.left }

func (k *inside) Complete() bool { return false }

func (k *inside) Rebooted() bool { return false } // not known
