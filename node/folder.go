package node

import (
	"context"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coveyproject/covey/internal/atomicfile"
	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/taskstate"
)

type folder struct {
	dir         string
	lock        *os.File
	incarnation taskstate.Incarnation
	fresh       bool       // the incarnation was drawn now: nothing was here before
	at          string     // see Machine.Place
	starts      sync.Mutex // of the file that remembers the starts
	older       bool       // no version has run here yet that makes a seal.key and an audit log, which came with policies
}

// InUse tells whether a peer holds this data folder: one that was told to stop may still be closing
// its files when it does not answer any more.
func InUse(dir string) bool {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer f.Close() // and with it the lock
	return lockFile(f) != nil
}

// lockPatience is how long a start waits for the peer before it, which may be ending.
const lockPatience = time.Second

// takeLock takes the lock. Who was killed, or is about to execute a program, holds it for a moment
// more.
func (f *folder) takeLock() error {
	for end := time.Now().Add(lockPatience); ; {
		err := lockFile(f.lock)
		if err == nil || time.Now().After(end) {
			return err
		}
		_ = pause.For(context.Background(), lockPatience/50)
	}
}

// lockName is the file that a running peer holds.
const lockName = "lock"

// keyFile holds the identity.
const keyFile = "identity.key"

// sealKeyFile holds the key that opens the secrets of tasks that run here.
const sealKeyFile = "seal.key"

// wiped tells whether there is an identity without a life: a start draws the incarnation first.
func (f *folder) wiped() bool {
	_, noLife := os.Stat(f.path("incarnation"))
	_, noKey := os.Stat(f.path(keyFile))
	return errors.Is(noLife, fs.ErrNotExist) && noKey == nil && !f.lived()
}

// lived tells whether something of a life that was begun is here, beside the files that every start
// makes first: the worker's journal and the ledger's memo say themselves whose they are.
func (f *folder) lived() bool {
	return slices.ContainsFunc([]string{"roster", "worker.db", filepath.Join("ledger", "memo")}, func(file string) bool {
		_, err := os.Stat(f.path(file))
		return err == nil
	})
}

func (f *folder) path(parts ...string) string {
	return filepath.Join(append([]string{f.dir}, parts...)...)
}

// port is the one this peer listened on last, 0 if it never did.
func (f *folder) port() int {
	b, err := os.ReadFile(f.path("port"))
	if err != nil {
		return 0
	}
	p, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || p < 1 || p > 65535 {
		return 0
	}
	return p
}

// checkName refuses what is no name for a peer. None at all is fine: there is one from before, or
// the host's.
func checkName(name string) error {
	if name == "" {
		return nil
	}
	if err := admission.CheckName(name); err != nil {
		return api.Errorf(api.Usage, "the name %q %v; choose another with --name", name, err)
	}
	return nil
}

// name is this peer's: the one given now, or else the one it was given before, or else the host's.
// A name that is given is remembered: constraints, and people, know the peer by it, also when it
// comes back by a plain `peer up`. An error says that it cannot be remembered.
func (f *folder) name(given string) (string, error) {
	b, err := os.ReadFile(f.path("name"))
	before := strings.TrimSuffix(string(b), "\n")
	switch {
	case given != "" && given == before:
		return given, nil
	case given != "":
		return given, atomicfile.Write(f.path("name"), []byte(given+"\n"))
	case err == nil && before != "" && checkName(before) == nil:
		return before, nil
	}
	h, err := os.Hostname()
	if err != nil || h == "" || checkName(h) != nil {
		return "peer", nil
	}
	return h, nil
}

func (f *folder) close() error { return f.lock.Close() }

// incarnationLen is the length of an incarnation: sixteen hexadecimal characters.
const incarnationLen = 16

func readIncarnation(path string) (taskstate.Incarnation, error) {
	b, err := os.ReadFile(path)
	switch {
	case err == nil:
		s := strings.TrimSpace(string(b))
		if _, err := hex.DecodeString(s); err != nil || len(s) != incarnationLen {
			return "", api.Errorf(api.Failed, "%s is damaged (expected %d hexadecimal characters); delete the file and type `peer up`; if that is refused, move the data folder away and join again (`peer up --join TICKET`)", path, incarnationLen)
		}
		return taskstate.Incarnation(s), nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", api.Errorf(api.Failed, "cannot read %s: %v", path, err)
	}
	inc := taskstate.NewIncarnation()
	if err := atomicfile.Write(path, []byte(inc+"\n")); err != nil {
		return "", err
	}
	return inc, nil
}

// lostRoster tells whether this folder was a member's once: found would begin another cluster in it
// unawares.
func (f *folder) lostRoster() bool {
	_, err := os.Stat(f.path("roster.damaged"))
	return err == nil
}

// TasksFolder is where the peer with this data folder keeps its tasks: what supervise.EndAll wants.
func TasksFolder(data string) string { return filepath.Join(data, "tasks") }
