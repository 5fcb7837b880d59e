package membership

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coveyproject/covey/internal/far"
	"github.com/coveyproject/covey/p2p"
)

// sender owns the stream of packets to one neighbour.
type sender struct {
	t     *transport
	peer  string
	queue chan []byte
	met   atomic.Bool  // it was dialled once, with whatever outcome
	left  atomic.Int64 // packets that are neither written nor given up
	mu    sync.Mutex   // for unblock; run alone sets conn
	conn  net.Conn
}

// put queues a packet; the oldest one makes room: of two probes the newer counts. The transport's
// lock is held.
func (s *sender) put(b []byte) {
	s.left.Add(1)
	for {
		select {
		case s.queue <- b:
			return
		default:
		}
		select {
		case <-s.queue:
			s.left.Add(-1)
		default:
		}
	}
}

// run sends until nothing came for senderIdle. A packet that cannot be sent is lost, like a
// datagram, and so is what waits behind it.
func (s *sender) run() {
	defer s.hangUp()
	defer context.AfterFunc(s.t.ctx, s.unblock)()
	idle := time.NewTimer(senderIdle)
	defer idle.Stop()
	for {
		select {
		case <-s.t.ctx.Done():
			return
		case <-idle.C:
			if s.retire() {
				return
			}
		case b := <-s.queue:
			n, err := s.send(b)
			s.left.Add(-int64(n))
			if err != nil {
				s.drop()
			}
		}
		idle.Reset(senderIdle)
	}
}

// unblock ends a write that is under way. To close a stream to somebody who does not answer takes
// seconds: not under the lock.
func (s *sender) unblock() {
	s.mu.Lock()
	c := s.conn
	s.mu.Unlock()
	if c != nil {
		c.Close()
	}
}

func (s *sender) hangUp() {
	s.unblock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn = nil
}

// retire takes the idle sender out of the table, unless a packet has just come.
func (s *sender) retire() bool {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	if len(s.queue) > 0 {
		return false
	}
	delete(s.t.senders, s.peer)
	return true
}

func (s *sender) drop() {
	for {
		select {
		case <-s.queue:
			s.left.Add(-1)
		default:
			return
		}
	}
}

// send writes b and whatever waits behind it in one go, and tells how many packets that were. A
// stream that broke since the last packet is replaced once.
func (s *sender) send(b []byte) (n int, err error) {
	buf, n := appendPacket(nil, b), 1
	for more := true; more && len(buf) < packetBytes; {
		select {
		case b := <-s.queue:
			buf, n = appendPacket(buf, b), n+1
		default:
			more = false
		}
	}
	if s.conn != nil && s.write(buf) == nil {
		return n, nil
	}
	s.hangUp()
	if err = s.dial(); err != nil {
		return n, err
	}
	if err = s.write(buf); err != nil {
		s.hangUp()
	}
	return n, err
}

func (s *sender) write(buf []byte) error {
	if err := s.conn.SetWriteDeadline(time.Now().Add(writeDeadline)); err != nil {
		return err
	}
	_, err := s.conn.Write(buf)
	return err
}

func (s *sender) dial() error {
	ctx, cancel := context.WithTimeout(s.t.ctx, far.For(s.t.net, s.peer, writeDeadline))
	defer cancel()
	c, err := s.t.net.Dial(ctx, s.peer, PacketProtocol)
	s.met.Store(true)
	if err != nil {
		if p2p.Refused(err) {
			s.t.refused(s.peer)
		}
		return err
	}
	s.mu.Lock()
	s.conn = c
	s.mu.Unlock()
	if err := s.t.ctx.Err(); err != nil { // unblock came first
		c.Close()
		return err
	}
	return nil
}

func appendPacket(buf, b []byte) []byte {
	if len(b) > 1<<16-1 {
		return buf // does not happen: memberlist packs up to packetBytes
	}
	buf = binary.BigEndian.AppendUint16(buf, uint16(len(b)))
	return append(buf, b...)
}
