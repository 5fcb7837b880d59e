package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

const benchSize = 128 * mib

// cpu reports how many bytes a second of processor time does.
func cpu(b *testing.B, bytes int64) {
	b.Helper()
	used := func() float64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
	}
	b.SetBytes(bytes)
	before := used()
	b.Cleanup(func() { b.ReportMetric(float64(bytes)*float64(b.N)/1e9/(used()-before), "GB/CPU-s") })
	b.ResetTimer()
}

func benchBlob(b *testing.B) sample {
	b.Helper()
	return samples(benchSize)[0]
}

// BenchmarkPlain is what the disk costs by itself: create, write by the MiB, sync.
func BenchmarkPlain(b *testing.B) {
	k, dir := benchBlob(b), b.TempDir()
	cpu(b, benchSize)
	for b.Loop() {
		name := filepath.Join(dir, "f")
		f, err := os.Create(name)
		if err != nil {
			b.Fatal(err)
		}
		for i := range k.blob.Pieces() {
			if _, err := f.Write(k.piece(i)); err != nil {
				b.Fatal(err)
			}
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		_ = f.Close()
		_ = os.Remove(name)
	}
}

func BenchmarkAdd(b *testing.B) {
	k := benchBlob(b)
	s := openStore(b, b.TempDir(), Config{})
	cpu(b, benchSize)
	for b.Loop() { // it goes at once: the quota is 0
		if _, _, err := s.Add(b.Context(), bytes.NewReader(k.data), true); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFetch(b *testing.B) {
	k := benchBlob(b)
	s := openStore(b, b.TempDir(), Config{})
	cpu(b, benchSize)
	for b.Loop() {
		f, err := s.Begin(b.Context(), k.blob, true)
		if err != nil {
			b.Fatal(err)
		}
		for i := range k.blob.Pieces() {
			if err := f.Piece(i, k.piece(i)); err != nil {
				b.Fatal(err)
			}
		}
		if err := f.Done(); err != nil {
			b.Fatal(err)
		}
		f.Close()
	}
}

func BenchmarkRead(b *testing.B) {
	k := benchBlob(b)
	s := openStore(b, b.TempDir(), Config{Quota: 1 << 30})
	add(b, s, k)
	r, err := s.Reader(k.root())
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	buf := make([]byte, 128<<10)
	for name, read := range map[string]func([]byte, int64) (int, error){"checked": r.ReadAt, "raw": r.Raw} {
		b.Run(name, func(b *testing.B) {
			cpu(b, benchSize)
			for b.Loop() {
				for off := int64(0); off < benchSize; off += int64(len(buf)) {
					if _, err := read(buf, off); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkSmall is a batch of 2,000 blobs of 4 KiB, against as many files and one sync.
func BenchmarkSmall(b *testing.B) {
	const many = 2000
	data := make([]byte, 4<<10)
	each := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/many, "µs/blob")
	}
	b.Run("plain", func(b *testing.B) {
		cpu(b, many*int64(len(data)))
		for b.Loop() {
			d, err := openFolder(b.TempDir(), 0)
			if err != nil {
				b.Fatal(err)
			}
			for i := range many {
				if err := d.root.WriteFile(fmt.Sprint(i), data, 0o600); err != nil {
					b.Fatal(err)
				}
			}
			if err := d.syncAll(); err != nil {
				b.Fatal(err)
			}
			_ = d.root.Close()
		}
		each(b)
	})
	b.Run("store", func(b *testing.B) {
		n := uint64(0)
		s := openStore(b, b.TempDir(), Config{Quota: 1 << 30})
		cpu(b, many*int64(len(data)))
		for b.Loop() {
			batch := s.Batch(false)
			for range many {
				n++
				binary.LittleEndian.PutUint64(data, n)
				if _, err := batch.add(data); err != nil {
					b.Fatal(err)
				}
			}
			if err := batch.Done(); err != nil {
				b.Fatal(err)
			}
			batch.Close()
		}
		each(b)
	})
}
