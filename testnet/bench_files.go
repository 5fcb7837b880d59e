package testnet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/api/client"
	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/node/blob/tree"
)

const (
	filesBytes  = 1 << 30
	filesRounds = 5
)

// files: how long one blob takes from one peer's store into another's, and how much processor time
// of both, beside a raw copy over TCP that hashes and writes the same bytes. The two take turns, so
// that both meet the same machine.
func (b *bench) files(ctx context.Context) error {
	if b.net.N() < 2 {
		fmt.Fprintln(b.cfg.Talk, "one peer alone copies nothing: files left out")
		return nil
	}
	size := int64(filesBytes)
	if b.cfg.Quick {
		size >>= 2
	}
	if err := b.revive(ctx); err != nil {
		return err
	}
	boss, err := b.coordinator(ctx)
	if err != nil {
		return err
	}
	from := boss
	to := b.notOneOf(from)
	root, err := putNoise(ctx, b.net.Client(from), size)
	if err != nil {
		return fmt.Errorf("put: %w", err)
	}
	path, err := b.stored(ctx, from, root)
	if err != nil {
		return err
	}
	var raw, stored []copied
	for range filesRounds {
		r, err := b.rawCopy(ctx, path, size)
		if err != nil {
			return fmt.Errorf("raw copy: %w", err)
		}
		s, err := b.storeCopy(ctx, from, to, root, size)
		if err != nil {
			return fmt.Errorf("copy between peers: %w", err)
		}
		raw, stored = append(raw, r), append(stored, s)
	}
	name := fmt.Sprintf("%d MiB ", size>>20)
	b.addCopies(name+"from store to store", stored)
	b.addCopies(name+"over plain TCP, hashed and written", raw)
	rate := func(c copied) float64 { return c.rate }
	cpu := func(c copied) float64 { return c.cpu }
	b.add(Measure{Name: "store to store, of the plain rate", Value: 100 * middle(stored, rate) / middle(raw, rate), Unit: "%", N: filesRounds})
	b.add(Measure{Name: "store to store, of the plain processor time", Value: 100 * middle(stored, cpu) / middle(raw, cpu), Unit: "%", N: filesRounds})
	return nil
}

// copied is what one copy came to.
type copied struct {
	rate float64 // MB per second
	cpu  float64 // seconds of processor time per GB, both sides
}

func newCopied(size int64, took time.Duration, cpu float64) copied {
	return copied{rate: float64(size) / 1e6 / took.Seconds(), cpu: cpu / (float64(size) / 1e9)}
}

// middle is the median of what of returns.
func middle(all []copied, of func(copied) float64) float64 {
	var v []float64
	for _, c := range all {
		v = append(v, of(c))
	}
	slices.Sort(v)
	return v[len(v)/2]
}

func (b *bench) addCopies(name string, all []copied) {
	b.add(Measure{Name: name, Value: middle(all, func(c copied) float64 { return c.rate }), Unit: "MB/s", N: len(all)})
	b.add(Measure{Name: name + ", both sides", Value: middle(all, func(c copied) float64 { return c.cpu }), Unit: "CPU s/GB", N: len(all)})
}

// noiseOf is bytes that nothing makes smaller, the same each time.
func noiseOf(size int64) io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{1}), size)
}

// putNoise has a peer keep a blob.
func putNoise(ctx context.Context, c *client.Client, size int64) (piece.Root, error) {
	h := piece.NewHasher()
	if _, err := h.ReadFrom(noiseOf(size)); err != nil {
		return piece.Root{}, err
	}
	root, _, _ := h.Sum()
	_, err := c.PutFiles(ctx, func(w *api.PutWriter) error {
		if err := w.Blob(api.PutBlob{Path: "noise", Blob: root, Size: size}, noiseOf(size)); err != nil {
			return err
		}
		return w.End(api.PutEnd{Ref: tree.Ref{Root: root}, Name: "noise"})
	})
	return root, err
}

// stored is the file of a blob in peer k's store.
func (b *bench) stored(ctx context.Context, k int, root piece.Root) (string, error) {
	u, err := b.net.Client(k).StoreUsage(ctx)
	hex := strings.TrimPrefix(root.String(), "b3:")
	return filepath.Join(u.Dir, hex[:2], hex), err
}

// storeCopy brings a blob from one peer into the store of another, which has nothing of it.
func (b *bench) storeCopy(ctx context.Context, from, to int, root piece.Root, size int64) (out copied, err error) {
	u, err := b.net.Client(to).StoreUsage(ctx)
	if err != nil {
		return out, err
	}
	if err := b.net.Halt(ctx, to); err != nil {
		return out, err
	}
	if err := os.RemoveAll(u.Dir); err != nil {
		return out, err
	}
	if err := b.revive(ctx, to); err != nil {
		return out, err
	}
	before, err := b.spent(ctx, from, to)
	if err != nil {
		return out, err
	}
	began := time.Now()
	r, err := b.net.Client(to).GetFiles(ctx, api.GetFiles{Root: root, Stay: true})
	if err != nil {
		return out, err
	}
	defer r.Close()
	if _, _, err := r.Next(); !errors.Is(err, io.EOF) {
		return out, fmt.Errorf("not only brought: %w", err)
	}
	took := time.Since(began)
	after, err := b.spent(ctx, from, to)
	return newCopied(size, took, after-before), err
}

// spent is the processor time of peers so far, in seconds.
func (b *bench) spent(ctx context.Context, peers ...int) (sum float64, err error) {
	for _, k := range peers {
		st, err := b.net.Client(k).Stats(ctx)
		if err != nil {
			return 0, err
		}
		sum += st.CPU
	}
	return sum, nil
}

// rawCopy is a copy by a process of its own.
func (b *bench) rawCopy(ctx context.Context, path string, size int64) (out copied, err error) {
	to := filepath.Join(b.cfg.Dir, "raw")
	defer os.Remove(to)
	c := exec.CommandContext(ctx, b.cfg.Exe, "testnet", "copy", path, to)
	c.Stderr = b.cfg.Talk
	text, err := c.Output()
	if err != nil {
		return out, err
	}
	var took RawCopied
	if err := json.Unmarshal(text, &took); err != nil {
		return out, err
	}
	cpu := c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	return newCopied(size, time.Duration(took.Seconds*float64(time.Second)), cpu.Seconds()), nil
}

// RawCopied is what the hidden command `peer testnet copy` tells.
type RawCopied struct {
	Seconds float64 `json:"seconds"`
}

// RawCopy copies a file over TCP as the measure for copies between peers: the same hash of what
// comes, the same writes, and at the end it is on the disk.
func RawCopy(ctx context.Context, from, to string) (out RawCopied, err error) {
	began := time.Now()
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return out, err
	}
	defer l.Close()
	sent := make(chan error, 1)
	go func() { sent <- rawSend(l, from) }()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", l.Addr().String())
	if err != nil {
		return out, err
	}
	defer c.Close()
	f, err := os.Create(to)
	if err != nil {
		return out, err
	}
	defer f.Close()
	if info, err := os.Stat(from); err == nil && info.Size() > 0 {
		reserve(f, info.Size()) // as stores do, for which writing is cheaper then
	}
	if err := rawReceive(c, f); err != nil {
		return out, err
	}
	if err := errors.Join(<-sent, f.Sync()); err != nil {
		return out, err
	}
	out.Seconds = time.Since(began).Seconds()
	return out, nil
}

func rawSend(l net.Listener, path string) error {
	c, err := l.Accept()
	if err != nil {
		return err
	}
	defer c.Close()
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.CopyBuffer(struct{ io.Writer }{c}, struct{ io.Reader }{f}, make([]byte, 256<<10)) // as a peer, which encrypts what it reads
	return err
}

// rawReceive reads one piece while the one before is hashed and written.
func rawReceive(c net.Conn, f *os.File) error {
	free, come := make(chan []byte, 2), make(chan []byte, 2)
	for range cap(free) {
		free <- make([]byte, piece.Size)
	}
	read := make(chan error, 1)
	go func() {
		defer close(come)
		for buf := range free {
			n, err := io.ReadFull(c, buf)
			come <- buf[:n]
			if err != nil {
				read <- err
				return
			}
		}
	}()
	var err error
	off := int64(0)
	for buf := range come {
		if err == nil {
			_ = piece.Sum(buf)
			_, err = f.WriteAt(buf, off)
			off += int64(len(buf))
		}
		free <- buf[:piece.Size]
	}
	if end := <-read; !errors.Is(end, io.EOF) && !errors.Is(end, io.ErrUnexpectedEOF) {
		return errors.Join(err, end)
	}
	return err
}
