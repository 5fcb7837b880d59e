//go:build unix

package blob

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/coveyproject/covey/node/blob/piece"
	"github.com/coveyproject/covey/p2p"
)

const benchSize = 256 << 20

// BenchmarkFetch brings 256 MiB from one store into another over real connections, both in this
// process, and tells what a gigabyte costs. Its measure is raw: a TCP connection, the same hash and
// the same writes.
//
//	go test ./node/blob -run '^$' -bench Fetch -benchtime 4x
//
// Acceptance case 3, in one process; `peer bench --only files` is between two.
func BenchmarkFetch(b *testing.B) {
	data := noise(benchSize, 1)
	from, dir := disk(b, data)
	root := piece.Sum(data)
	r, err := from.Reader(root)
	if err != nil {
		b.Fatal(err)
	}
	proof := r.Blob()
	r.Close()
	path := filepath.Join(dir, root.String()[3:5], root.String()[3:])

	b.Run("raw", func(b *testing.B) {
		measure(b, func() { raw(b, path, proof) })
	})
	b.Run("peers", func(b *testing.B) {
		source, fetcher := benchHost(b, nil), benchHost(b, nil)
		srv := Serve(source, Shelved(from), ServerConfig{})
		defer srv.Close()
		fetcher.SetAddrs(source.Self(), source.Addrs())
		measure(b, func() {
			to, _ := disk(b)
			keep := Keep(to, true)
			defer keep.Close()
			f := Fetcher{Net: fetcher, Self: fetcher.Self(), Keep: keep}
			_, err := f.Fetch(b.Context(), Request{Peers: func() []string { return []string{source.Self()} }, Wants: slices.Values([]Want{{root, -1}})})
			if err != nil {
				b.Fatal(err)
			}
		})
	})
}

// BenchmarkFetchSmall brings 10,000 blobs of 4 KiB.
//
//	go test ./node/blob -run '^$' -bench FetchSmall -benchtime 1x
func BenchmarkFetchSmall(b *testing.B) {
	const n, size = 10_000, 4 << 10
	from, _ := disk(b)
	batch := from.Batch(true)
	defer batch.Close()
	var wants []Want
	for i := range n {
		data := noise(size, byte(i))
		copy(data, fmt.Sprint(i, " "))
		if err := batch.Put(piece.Sum(data), data); err != nil {
			b.Fatal(err)
		}
		wants = append(wants, want(data))
	}
	if err := batch.Done(); err != nil {
		b.Fatal(err)
	}
	source, fetcher := benchHost(b, nil), benchHost(b, nil)
	srv := Serve(source, Shelved(from), ServerConfig{})
	defer srv.Close()
	fetcher.SetAddrs(source.Self(), source.Addrs())
	before := spent(b)
	for b.Loop() {
		to, _ := disk(b)
		keep := Keep(to, true)
		f := Fetcher{Net: fetcher, Self: fetcher.Self(), Keep: keep}
		if r, err := f.Fetch(b.Context(), Request{Peers: func() []string { return []string{source.Self()} }, Wants: slices.Values(wants)}); err != nil || r.Blobs != n {
			b.Fatal(r, err)
		}
		keep.Close()
	}
	b.ReportMetric((spent(b)-before).Seconds()*1e6/float64(b.N*n), "cpu-µs/blob")
	b.ReportMetric(b.Elapsed().Seconds()*1e6/float64(b.N*n), "µs/blob")
}

func measure(b *testing.B, f func()) {
	b.SetBytes(benchSize)
	before := spent(b)
	for b.Loop() {
		f()
	}
	b.ReportMetric((spent(b)-before).Seconds()/(float64(b.N)*benchSize/1e9), "cpu-s/GB")
}

func benchHost(b *testing.B, over p2p.Sockets) *p2p.Host {
	key, err := p2p.NewIdentity()
	if err != nil {
		b.Fatal(err)
	}
	h, err := p2p.New(p2p.Config{Key: key, Listen: []string{"127.0.0.1:0"}, Sockets: over, Admitted: func(string) bool { return true }})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { h.Close() })
	return h
}

// raw copies a file over TCP, checks what comes and writes it.
func raw(b *testing.B, path string, blob piece.Blob) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		f, err := os.Open(path)
		if err != nil {
			return
		}
		defer f.Close()
		_, _ = io.CopyBuffer(struct{ io.Writer }{c}, struct{ io.Reader }{f}, make([]byte, 256<<10))
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	out, err := os.Create(filepath.Join(b.TempDir(), "out"))
	if err != nil {
		b.Fatal(err)
	}
	defer out.Close()
	buf := make([]byte, piece.Size)
	for i := range blob.Pieces() {
		off, n := piece.Span(blob.Size(), i)
		if _, err := io.ReadFull(c, buf[:n]); err != nil || !blob.Check(i, buf[:n]) {
			b.Fatal(err)
		}
		if _, err := out.WriteAt(buf[:n], off); err != nil {
			b.Fatal(err)
		}
	}
	if err := out.Sync(); err != nil {
		b.Fatal(err)
	}
}

// spent is the processor time of this process so far.
func spent(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
