//go:build !linux

package process

import "github.com/coveyproject/covey/node/runner/supervise"

func openKeeper(cfg Config, sink func(supervise.Event)) (k processOwner, lasting bool, err error) {
	k, err = openInside(cfg, sink)
	return k, false, err
}
