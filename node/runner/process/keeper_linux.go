package process

import "github.com/coveyproject/covey/node/runner/supervise"

func openKeeper(cfg Config, sink func(supervise.Event)) (k processOwner, lasting bool, err error) {
	if cfg.InProcess {
		k, err = openInside(cfg, sink)
		return k, false, err
	}
	c, err := supervise.Open(supervise.ClientConfig{
		Dir: cfg.Dir, Sink: sink, LogCap: cfg.LogCap, Grace: cfg.Grace, Idle: cfg.Idle, Guard: cfg.Guard, Born: cfg.Sandbox != nil && tried[1]().Mounts,
		Warn: func(s string) { cfg.Log.Warn(s) },
	})
	return c, true, err
}
