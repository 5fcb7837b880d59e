package stager

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/coveyproject/covey/node/blob/disk"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/store"
	"github.com/coveyproject/covey/node/blob/tree"
)

// fileKey is a copy: files that may be executed are not those that may not.
type fileKey struct {
	root piece.Root
	exec bool
}

func (k fileKey) name() string {
	name := hex.EncodeToString(k.root[:])
	if k.exec {
		name += "x"
	}
	return name
}

func (k fileKey) mode() fs.FileMode {
	if k.exec {
		return 0o555
	}
	return 0o444
}

// copies are the files that tasks are given names of. Each is looked at before it is used.
type copies struct {
	store *store.Store
	root  *os.Root
	dir   *os.File

	mu sync.Mutex
	of map[fileKey]*copied
}

// copied is one, and how it looked when it was made.
type copied struct {
	mu   sync.Mutex
	made fs.FileInfo
	uses int // sets that need it; guarded by the copies' lock
}

// openCopies begins with an empty folder: what an earlier life left there nobody vouches for.
func openCopies(s *store.Store, path string) (*copies, error) {
	if err := os.RemoveAll(path); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	dir, err := root.Open(".")
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return &copies{store: s, root: root, dir: dir, of: map[fileKey]*copied{}}, nil
}

func (c *copies) close() error { return errors.Join(c.dir.Close(), c.root.Close()) }

// use notes that a file is needed.
func (c *copies) use(k fileKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.of[k]
	if x == nil {
		x = &copied{}
		c.of[k] = x
	}
	x.uses++
}

// release takes use back; what nobody needs goes.
func (c *copies) release(keys []fileKey) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range keys {
		x := c.of[k]
		if x == nil {
			continue
		}
		if x.uses--; x.uses > 0 {
			continue
		}
		delete(c.of, k)
		if e := c.root.Remove(k.name()); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = e
		}
	}
	return err
}

// ensure sees to it that a copy is there, and is what it should be.
func (c *copies) ensure(ctx context.Context, k fileKey) error {
	c.mu.Lock()
	x := c.of[k]
	c.mu.Unlock()
	if x == nil {
		return fmt.Errorf("%s: %w", k.root, errForgotten)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.made != nil {
		if now, err := c.root.Lstat(k.name()); err == nil && untouched(now, x.made) {
			return nil
		}
		x.made = nil
	}
	made, err := c.make(ctx, k)
	if err == nil {
		x.made = made
	}
	return err
}

var errForgotten = errors.New("its job is over here")

// untouched tells whether a file is the one that was made, and nobody wrote to it.
func untouched(now, made fs.FileInfo) bool {
	return os.SameFile(now, made) && now.Size() == made.Size() && now.Mode() == made.Mode() && now.ModTime().Equal(made.ModTime())
}

// make writes a copy. What it replaces stays where tasks have it.
func (c *copies) make(ctx context.Context, k fileKey) (fs.FileInfo, error) {
	part := k.name() + ".part"
	if err := c.root.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := c.root.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	err = c.fill(ctx, f, k.root)
	if err == nil {
		err = f.Chmod(k.mode())
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = c.root.Rename(part, k.name())
	}
	if err != nil {
		return nil, errors.Join(err, c.root.Remove(part))
	}
	return c.root.Lstat(k.name())
}

func (c *copies) fill(ctx context.Context, f *os.File, root piece.Root) error {
	r, err := c.store.Reader(root)
	if err != nil {
		return err
	}
	defer r.Close()
	buf, sparse := make([]byte, min(piece.Size, r.Size())), piece.Sparse{To: f}
	for off := int64(0); off < r.Size(); off += int64(len(buf)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := r.ReadAt(buf[:min(int64(len(buf)), r.Size()-off)], off)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if _, err := sparse.WriteAt(buf[:n], off); err != nil {
			return err
		}
	}
	return sparse.End(r.Size())
}

// link gives a task a name of a copy, and tells whether it could: a disk may know no second name,
// or no more of them.
func (c *copies) link(ctx context.Context, dir *os.Root, name string, e tree.Entry) (bool, error) {
	if e.Size == 0 {
		return false, nil
	}
	k := fileKey{e.Root, e.Exec}
	if err := c.ensure(ctx, k); err != nil {
		return false, err
	}
	err := disk.LinkInto(c.dir, k.name(), dir, name)
	if err == nil {
		return true, nil
	}
	if errors.Is(err, fs.ErrExist) {
		return false, err
	}
	return false, nil
}
