package process

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/coveyproject/covey/internal/atomicfile"
	"github.com/coveyproject/covey/node/runner/sandbox"
)

// Users that tasks are given: numbers nobody has. The first range is one that systemd leaves free
// (systemd.io/UIDS-GIDS), the second the one it takes such users from itself, for containers that
// know no others.
var userRanges = [2]struct{ first, count int }{{1_900_000_000, 100_000_000}, {61184, 4336}}

// users gives every submitter a user of its own: always the same one, so that its tasks find what
// others of its tasks left outside of this peer, and nobody else's do. The file says who has which:
// a line each, the number and the submitter.
type users struct {
	path string

	mu    sync.Mutex
	known map[string]int
	taken map[int]bool
}

func openUsers(path string) (u *users, err error) {
	u = &users{path: path, known: map[string]int{}, taken: map[int]bool{}}
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for line := range strings.Lines(string(b)) {
		number, who, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		uid, err := strconv.Atoi(number)
		if err != nil || !ok || uid <= 0 || u.taken[uid] {
			return nil, fmt.Errorf("%s: %q does not say which user somebody's tasks run as; remove that line", path, strings.TrimSpace(line))
		}
		u.known[who], u.taken[uid] = uid, true
	}
	return u, nil
}

// of is the user of a submitter. It is on disk before anything runs as it.
func (u *users) of(who string) (*sandbox.User, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	uid, ok := u.known[who]
	if !ok {
		var err error
		if uid, err = u.free(who); err != nil {
			return nil, err
		}
		u.known[who], u.taken[uid] = uid, true
		if err := u.keep(); err != nil {
			delete(u.known, who)
			delete(u.taken, uid)
			return nil, err
		}
	}
	return &sandbox.User{UID: uid, GID: uid}, nil
}

// free finds a number nobody has, beginning at the same on every peer: so tasks of one submitter
// may share files of a disk that several peers have, and those of two submitters hardly ever.
func (u *users) free(who string) (int, error) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(who))
	for _, r := range userRanges {
		if !mapped(r.first) {
			continue
		}
		at := int(h.Sum64() % uint64(r.count))
		for range r.count {
			if uid := r.first + at; !u.taken[uid] {
				return uid, nil
			}
			at = (at + 1) % r.count
		}
	}
	return 0, errors.New("no user is left for it on this peer")
}

func (u *users) keep() error {
	var b bytes.Buffer
	for who, uid := range u.known {
		fmt.Fprintln(&b, uid, who)
	}
	return atomicfile.Write(u.path, b.Bytes())
}
