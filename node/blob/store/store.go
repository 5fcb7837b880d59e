package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coveyproject/covey/internal/wake"
	"github.com/coveyproject/covey/node/blob/piece"
)

// Config is what a Store is told.
type Config struct {
	Quota int64            // bytes of the disk for what is kept for others; 0: none; negative: a fair share of the disk
	Leave int64            // bytes of the disk that stay free; 0: as many as the peer needs to work; negative: none
	Now   func() time.Time // nil: time.Now
	Log   *slog.Logger     // nil: nobody is told
}

// Store keeps blobs. Its methods may be called by anybody.
type Store struct {
	disk disk
	now  func() time.Time
	log  *slog.Logger
	seq  atomic.Uint64 // of names in tmp

	damaged  wake.Signal
	repinned wake.Signal

	pinning sync.Mutex // one pin is written at a time; taken before mu

	mu      sync.Mutex
	shelf   *shelf
	pins    map[string]Pin
	reasons map[string]int // of leases
	foreign int            // files that are not the store's
	trash   []string       // renamed, to be removed without the lock
}

// Open opens the store in a folder, which it makes if it is not there, and tidies up after a
// process that was killed. It reads no blobs.
func Open(dir string, cfg Config) (*Store, error) {
	leave := cfg.Leave
	switch {
	case leave == 0:
		leave = -1
	case leave < 0:
		leave = 0
	}
	d, err := openFolder(dir, leave)
	if err != nil {
		return nil, fmt.Errorf("open the store of files: %w", err)
	}
	return open(d, cfg)
}

func open(d disk, cfg Config) (*Store, error) {
	s := &Store{
		disk: d, now: cfg.Now, log: cfg.Log, damaged: wake.New(), repinned: wake.New(),
		shelf: newShelf(cfg.Quota), pins: map[string]Pin{}, reasons: map[string]int{},
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.log = cmp.Or(s.log, slog.New(slog.DiscardHandler))
	if err := s.scan(); err != nil {
		return nil, fmt.Errorf("open the store of files: %w", err)
	}
	return s, nil
}

// sweepEvery is how often Run looks what may go.
const sweepEvery = time.Minute

// Run ends pins whose time is over, and makes room on a disk that gets low, until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			s.Sweep()
		}
	}
}

// Sweep is what Run does once a minute.
func (s *Store) Sweep() {
	now := s.now()
	for _, p := range s.Pins() {
		if !p.Until.IsZero() && !now.Before(p.Until) {
			if err := s.Unpin(p.Name); err != nil {
				s.log.Warn("a pin could not be removed", "pin", p.Name, "err", err)
			}
		}
	}
	s.mu.Lock()
	defer s.unlock()
	s.trim()
}

// unlock lets go of the lock and removes what was thrown away under it, which may take long.
func (s *Store) unlock() {
	trash := s.trash
	s.trash = nil
	s.mu.Unlock()
	for _, name := range trash {
		if err := s.disk.remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.log.Warn("a file of the store could not be removed", "file", name, "err", err)
		}
	}
}

// temp is a name in tmp.
func (s *Store) temp(kind string) string { return path.Join(making, fmt.Sprint(kind, s.seq.Add(1))) }

// toss throws a file away; it is out of the way at once.
func (s *Store) toss(name string) error {
	gone := s.temp(goneKind)
	err := s.disk.rename(name, gone)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		s.trash = append(s.trash, gone)
	}
	return err
}

// reserve keeps n bytes for what is to come, and removes what has to go for it. The lock is held.
func (s *Store) reserve(n int64, own bool) error { return s.reserveFor(n, 0, own) }

// reserveFor is reserve for what has so many bytes on the disk already.
func (s *Store) reserveFor(n, here int64, own bool) error {
	free, _, err := s.disk.room()
	if err != nil {
		return err
	}
	gone, err := s.shelf.fit(n, own, free+here)
	if err != nil {
		return err
	}
	if err := s.evict(gone); err != nil {
		s.shelf.giveBack(n)
		return err
	}
	return nil
}

// trim removes what may go beyond the quota, and when the disk is low.
func (s *Store) trim() {
	if err := s.reserve(0, true); err != nil {
		s.log.Warn("the store could not make room", "err", err)
	}
}

func (s *Store) evict(gone []*blob) (err error) {
	for _, b := range gone {
		if e := s.erase(b); e != nil {
			err = e
			s.shelf.restore(b)
		}
	}
	return err
}

// erase removes what is on the disk of a blob that nobody has leased.
func (s *Store) erase(b *blob) error {
	return errors.Join(s.eraseWhole(b), s.erasePart(b))
}

// eraseWhole removes the whole copy of a blob.
func (s *Store) eraseWhole(b *blob) error {
	if !b.whole {
		return nil
	}
	if err := s.toss(wholeName(b.root)); err != nil {
		return err
	}
	b.whole, b.safe = false, false
	s.discard(wholeName(b.root) + proofEnd)
	return nil
}

// erasePart removes the partial copy of a blob, which nobody has leased, or whose lock is held and
// which is over.
func (s *Store) erasePart(b *blob) error {
	if b.part == nil {
		return nil
	}
	name := partName(b.root)
	if err := s.toss(name); err != nil {
		return err
	}
	b.part = nil
	s.discard(name + proofEnd)
	s.discard(name + mapEnd)
	return nil
}

// discard removes a small file that is of no use any more. If it stays, the next start removes it.
func (s *Store) discard(name string) {
	if err := s.disk.remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("a file of the store could not be removed", "file", name, "err", err)
	}
}

// release gives up leases; what may not stay without them goes.
func (s *Store) release(blobs ...*blob) {
	s.mu.Lock()
	defer s.unlock()
	for _, b := range blobs {
		s.shelf.release(b)
		if b.leases == 0 && !b.whole && b.part == nil {
			s.shelf.forget(b) // nothing came of it
		}
	}
	s.trim()
}

// Presence is what is here of a blob.
type Presence struct {
	Size   int64         // as far as it is known: of a partial one, what was said by who has it
	Pieces *piece.Bitmap // which of its pieces; nil: nothing is here
	Whole  bool          // it has all, and was synced
}

// Have says what is here of a blob, without looking at the disk.
func (s *Store) Have(root piece.Root) Presence {
	s.mu.Lock()
	b := s.shelf.blobs[root]
	if b == nil || !b.whole && b.part == nil {
		s.mu.Unlock()
		return Presence{}
	}
	p, size, whole := b.part, b.size, b.whole
	s.mu.Unlock()
	if whole {
		return Presence{size, piece.FullBitmap(piece.Count(size)), true}
	}
	size, have := p.claim()
	return Presence{size, have, false}
}

// touchEvery is how exactly the disk knows when a blob was used.
const touchEvery = time.Hour

// take leases what is whole, or partly here.
func (s *Store) take(root piece.Root, whole bool) (b *blob, is taken, err error) {
	s.mu.Lock()
	b = s.shelf.blobs[root]
	if b == nil || !b.whole && (whole || b.part == nil) {
		s.mu.Unlock()
		return nil, is, fmt.Errorf("%s: %w", root, ErrAbsent)
	}
	s.shelf.lease(b)
	is = taken{b.whole, b.size}
	now := s.now()
	stale := b.whole && now.Unix()-b.touched >= int64(touchEvery/time.Second)
	if stale {
		b.touched = now.Unix()
	}
	s.mu.Unlock()
	if stale {
		_ = s.disk.touch(wholeName(root), now) // else it goes a little earlier after a restart
	}
	return b, is, nil
}

// taken is how a blob was when it was leased.
type taken struct {
	whole bool
	size  int64
}

// Lease keeps a whole blob until release is called; why is for people (Usage).
func (s *Store) Lease(root piece.Root, why string) (release func(), err error) {
	b, _, err := s.take(root, true)
	if err != nil {
		return nil, err
	}
	s.reason(why, 1)
	return sync.OnceFunc(func() {
		s.reason(why, -1)
		s.release(b)
	}), nil
}

func (s *Store) reason(why string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reasons[why] += n; s.reasons[why] == 0 {
		delete(s.reasons, why)
	}
}

// Usage is what a store holds, in bytes of the disk.
type Usage struct {
	Quota    int64
	Bytes    int64          // of everything, with what is reserved for what is under way
	MayGo    int64          // of it, what makes place for other blobs
	Pinned   int64          // of it, what pins name
	DiskFree int64          // what the store could still write if there was no quota
	Whole    int            // blobs
	Partial  int            // blobs of which pieces are missing
	Leases   map[string]int // how many there are, by their reason
	Foreign  int            // files that are not the store's, which it leaves alone
}

// Usage says what the store holds.
func (s *Store) Usage() Usage {
	free, _, err := s.disk.room()
	if err != nil {
		s.log.Debug("the disk was not looked at", "err", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	u := Usage{
		Quota: s.shelf.quota, Bytes: s.shelf.bytes, MayGo: s.shelf.loose, DiskFree: max(0, free),
		Leases: maps.Clone(s.reasons), Foreign: s.foreign,
	}
	for _, b := range s.shelf.blobs {
		switch {
		case b.whole:
			u.Whole++
		case b.part != nil:
			u.Partial++
		}
		if s.shelf.pins[b.root] > 0 {
			u.Pinned += b.cost
		}
	}
	return u
}

// settled makes sure that the names of blobs are on the disk, which are leased.
func (s *Store) settled(blobs []*blob) error {
	var dirs []string
	s.mu.Lock()
	for _, b := range blobs {
		if b.whole && !b.safe {
			dirs = append(dirs, path.Dir(wholeName(b.root)))
		}
	}
	s.mu.Unlock()
	slices.Sort(dirs)
	if dirs = slices.Compact(dirs); len(dirs) > 0 {
		if err := s.disk.sync(dirs); err != nil {
			return err
		}
	}
	for _, b := range blobs {
		if err := s.settle(b); err != nil {
			return err
		}
	}
	return nil
}

// settle notes that a blob's name is synced, and removes what is left of a fetch of it.
func (s *Store) settle(b *blob) error {
	s.mu.Lock()
	p := b.part
	s.mu.Unlock()
	if p != nil {
		p.moving.Lock()
		defer p.moving.Unlock()
	}
	s.mu.Lock()
	defer s.unlock()
	if !b.whole { // it was read meanwhile, and was rotten
		return fmt.Errorf("%s: %w any more", b.root, ErrAbsent)
	}
	b.safe = true
	if p != nil && b.part == p {
		p.over = true
		if err := s.erasePart(b); err != nil {
			s.log.Warn("a partial copy could not be removed", "blob", b.root, "err", err)
		}
	}
	if cost := costAt(b.size, b.taken); cost < b.cost { // it has holes, or was claimed to be larger
		s.shelf.resize(b, cost)
	}
	return nil
}

// land gives a blob its name. Its bytes are on the disk. The lock is held.
func (s *Store) land(b *blob, size int64, from string, proof bool) error {
	name := wholeName(b.root)
	err := s.disk.rename(from, name)
	if errors.Is(err, fs.ErrNotExist) { // its folder is not there
		if err = s.disk.mkdir(path.Dir(name)); err == nil {
			if err = s.disk.sync([]string{"."}); err == nil {
				err = s.disk.rename(from, name)
			}
		}
	}
	if err != nil {
		return err
	}
	b.whole, b.safe, b.size, b.taken, b.touched = true, false, size, size, s.now().Unix()
	if size > piece.Hole {
		if n, err := s.disk.taken(name); err == nil {
			b.taken = n
		}
	}
	if proof { // it is made anew if it is lost
		if err := s.disk.rename(from+proofEnd, name+proofEnd); err != nil {
			s.log.Debug("a proof is not beside its blob", "blob", b.root, "err", err)
		}
	}
	return nil
}
