package node

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/coveyproject/covey/internal/atomicfile"
	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/copies"
	"github.com/coveyproject/covey/node/runner/supervise"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/p2p/starts"
	"github.com/coveyproject/covey/taskstate"
)

// renouncedName is the file in which a peer remembers that it gave an identity up, until the peer
// that keeps that has heard of it.
const renouncedName = "renounced"

// keptFiles stay when a peer takes another identity: nothing in them acts in the old one's name.
func keptFiles() []string {
	return []string{lockName, keyFile, renouncedName, "name", "port", "peer.yaml", "peer.log", "peer.log.1"}
}

// newIdentity makes a folder ready for another identity. What it holds of the old one is set aside,
// for people, but for the key, which is destroyed last: until then the same command does the rest.
// What still runs in the old one's name is ended.
func (f *folder) newIdentity(joining bool) error {
	if !joining {
		return api.Errorf(api.Usage, "--new-identity needs a ticket, for no peer knows it under its new identity: make one at another peer (`peer ticket`) and type `peer up --new-identity --join TICKET`")
	}
	if _, err := os.Stat(f.path(keyFile)); errors.Is(err, fs.ErrNotExist) {
		return nil // there is none yet
	}
	key, err := p2p.LoadIdentity(f.path(keyFile))
	if err != nil {
		return api.Errorf(api.Failed, "%v", err)
	}
	self, err := p2p.ID(key)
	if err != nil {
		return api.Errorf(api.Failed, "%v", err)
	}
	last, err := f.lastStart()
	if err != nil {
		return api.Errorf(api.Failed, "%v", err)
	}
	if last.Number != 0 { // else nobody knows of a start of it, or it was written before
		r := copies.Renounced{Peer: self, Number: last.Number}
		if r.Sig, err = key.Sign(starts.Renunciation(r.Peer, r.Number)); err == nil {
			err = f.writeRenounced(r)
		}
		if err != nil {
			return api.Errorf(api.Failed, "cannot give the old identity up: %v", err)
		}
	}
	if err := supervise.EndAll(f.path("tasks")); err != nil {
		return api.Errorf(api.Failed, "tasks of the old identity cannot be ended: %v", err)
	}
	if err := f.setAside("was-" + self); err != nil {
		return api.Errorf(api.Failed, "cannot set aside what was of the old identity: %v", err)
	}
	if err := os.Remove(f.path(keyFile)); err != nil {
		return api.Errorf(api.Failed, "cannot remove the old identity's key: %v", err)
	}
	return atomicfile.FlushDir(f.dir)
}

func (f *folder) writeRenounced(r copies.Renounced) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return atomicfile.Write(f.path(renouncedName), append(b, '\n'))
}

// setAside moves everything of a folder but what stays into one inside it.
func (f *folder) setAside(name string) error {
	list, err := os.ReadDir(f.dir)
	if err != nil {
		return err
	}
	side := f.path(name)
	if err := os.MkdirAll(side, 0o700); err != nil {
		return err
	}
	for _, e := range list {
		if e.Name() == name || slices.Contains(keptFiles(), e.Name()) {
			continue
		}
		to := filepath.Join(side, e.Name())
		if err := errors.Join(os.RemoveAll(to), os.Rename(f.path(e.Name()), to)); err != nil {
			return err
		}
	}
	return nil
}

// tellAgain is how long a peer waits until it tries once more to say that it gave an identity up.
const tellAgain = 2 * time.Second

// giveUp tells the peer that keeps the identity this peer has given up, until it has heard of it or
// ctx ends.
func (f *folder) giveUp(ctx context.Context, self taskstate.PeerID, dial copies.Dial, log *slog.Logger) error {
	b, err := os.ReadFile(f.path(renouncedName))
	if err != nil {
		return nil //nolint:nilerr // most peers never gave one up
	}
	var r copies.Renounced
	if json.Unmarshal(b, &r) != nil || r.Peer == self {
		return nil
	}
	for {
		if err := r.Tell(ctx, dial); err == nil {
			if err := os.Remove(f.path(renouncedName)); err != nil {
				log.Warn("a note about an identity that was given up stays", "err", err)
			}
			return nil
		}
		if pause.For(ctx, tellAgain) != nil {
			return nil
		}
	}
}
