package process

import (
	"github.com/coveyproject/covey/node/runner/supervise"
	"github.com/coveyproject/covey/taskstate"
)

// keeper owns processes: a supervisor, by way of its client, or an engine in this process.
type keeper interface {
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

// inside is an engine in this process.
type inside struct {
	*supervise.Engine
	left []supervise.Event
}

func openInside(cfg Config, sink func(supervise.Event)) (keeper, error) {
	e, err := supervise.NewEngine(supervise.EngineConfig{
		Dir: cfg.Dir, LogCap: cfg.LogCap, Grace: cfg.Grace, Warn: func(s string) { cfg.Log.Warn(s) },
	})
	if err != nil {
		return nil, err
	}
	k := &inside{Engine: e}
	finding := true
	e.Attach(func(ev supervise.Event) {
		switch {
		case !finding:
			sink(ev)
		case ev.Task == "":
			finding = false // Attach holds the engine's lock until here: nothing else is told meanwhile
		default:
			k.left = append(k.left, ev)
		}
	})
	return k, nil
}

func (k *inside) Close() error { return k.Engine.Close(string(taskstate.ReasonInterrupted)) }

func (k *inside) Left() []supervise.Event { return k.left }

func (k *inside) Complete() bool { return false }

func (k *inside) Rebooted() bool { return false } // not known
