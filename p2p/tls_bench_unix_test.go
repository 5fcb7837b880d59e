//go:build unix

package p2p

import (
	"context"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
)

// BenchmarkSecured moves bytes over TCP from one end to the other, both in this process, and tells
// how much processor time a gigabyte costs them together: that is what counts where all cores are
// busy. What it says about MB/s is true on an idle machine only.
//
//	go test ./p2p -run '^$' -bench Secured -benchtime 2000x
func BenchmarkSecured(b *testing.B) {
	b.Run("tcp", func(b *testing.B) {
		x, y := wired(b)
		stream(b, x, y)
	})
	for _, kind := range securities(b) {
		b.Run(kind.name, func(b *testing.B) {
			x, y := wired(b)
			here, there := secure(b, kind.a, kind.b, x, y, kind.to)
			send, receive := muxed(b, here, there)
			stream(b, send, receive)
		})
	}
}

// BenchmarkHandshake tells what a connection costs both ends.
func BenchmarkHandshake(b *testing.B) {
	for _, kind := range securities(b) {
		b.Run(kind.name, func(b *testing.B) {
			begun := spent(b)
			for b.Loop() {
				x, y := net.Pipe()
				secure(b, kind.a, kind.b, x, y, kind.to)
				x.Close()
				y.Close()
			}
			b.ReportMetric(float64((spent(b)-begun).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}

type pair struct {
	name string
	a, b sec.SecureTransport
	to   peer.ID // b's
}

func securities(b *testing.B) []pair {
	one, key := identity(b)
	two, other := identity(b)
	first, err := noise.New(noise.ID, key, nil)
	if err != nil {
		b.Fatal(err)
	}
	second, err := noise.New(noise.ID, other, nil)
	if err != nil {
		b.Fatal(err)
	}
	return []pair{{"tls", one, two, two.self}, {"noise", first, second, two.self}}
}

// wired is both ends of a TCP connection.
func wired(b *testing.B) (x, y net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	if x, err = net.Dial("tcp", l.Addr().String()); err != nil {
		b.Fatal(err)
	}
	if y, err = l.Accept(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { x.Close(); y.Close() })
	return x, y
}

// muxed is both ends of a stream.
func muxed(b *testing.B, x, y net.Conn) (io.Writer, io.Reader) {
	here, err := yamux.DefaultTransport.NewConn(x, false, &network.NullScope{})
	if err != nil {
		b.Fatal(err)
	}
	there, err := yamux.DefaultTransport.NewConn(y, true, &network.NullScope{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { here.Close(); there.Close() })
	send, err := here.OpenStream(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	receive, err := there.AcceptStream()
	if err != nil {
		b.Fatal(err)
	}
	return send, receive
}

// stream moves b.N pieces of a mebibyte, written in blocks of 256 KiB.
func stream(b *testing.B, to io.Writer, from io.Reader) {
	const piece, block = 1 << 20, 256 << 10
	b.SetBytes(piece)
	done := make(chan error, 1)
	begun := spent(b)
	b.ResetTimer()
	go func() {
		buf := make([]byte, block)
		_, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.LimitReader(from, int64(b.N)*piece), buf)
		done <- err
	}()
	data := make([]byte, block)
	for range b.N * piece / block {
		if _, err := to.Write(data); err != nil {
			b.Fatal(err)
		}
	}
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	b.ReportMetric((spent(b)-begun).Seconds()/(float64(b.N)*piece/1e9), "cpu-s/GB")
}

// spent is the processor time of this process so far.
func spent(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
