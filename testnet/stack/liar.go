package stack

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/membership"
	"github.com/coveyproject/covey/membership/digest"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/p2p/memnet"
	"github.com/coveyproject/covey/taskstate"

	"github.com/hashicorp/go-msgpack/v2/codec"
)

// liar is a peer's key in bad hands: its process is dead, and a host with its key tells the others
// that each of them is silent, gone or has left, and signs statuses of tasks that are not its own,
// now and then a flood of them. If it held no seat in the ledger, it acts as if it did. None of it
// may cost anybody else anything.
type liar struct {
	w       *world
	seat    *pretender // nil: it held one
	flood   int        // batches in a round
	host    *p2p.Host
	machine *memnet.Machine
	cancel  context.CancelFunc
	done    chan struct{}
}

// badHands kills a peer and lets a liar have its machine for a while.
func (w *world) badHands() {
	p := w.anyone()
	if p.usable() == nil {
		return
	}
	heal := w.hurt(p)
	p.kill(true)
	p.downs++
	w.tellf("%s is in bad hands", p.name)
	seated, _ := w.voters()
	_, index := w.voters() // asked anew: what unseated somebody is not newer than that, or the very next
	l, err := w.newLiar(p, seated, index)
	if err != nil {
		w.fail("bug", "no host with the key of %s: %v", p.name, err)
		return
	}
	w.count(func(s *Stats) { s.Liars++ })
	if l.seat != nil {
		w.tellf("%s pretends to hold a seat", p.name)
		w.count(func(s *Stats) { s.Pretenders++ })
		w.check.pretends(l.host.Self(), true)
		w.at(w.now()+time.Second, w.whoLeads)
	}
	w.until(w.spell(), func() {
		l.stop()
		w.check.pretends(l.host.Self(), false)
		p.downs--
		heal()
		p.boot()
	})
}

// whoLeads asks everybody.
func (w *world) whoLeads() {
	for _, p := range w.peers {
		if l := p.usable(); l != nil {
			if ps, err := l.node.Backend().Peers(context.Background()); err == nil {
				w.check.asked(l, ps)
			}
		}
	}
}

// floods is how many batches one that floods signs in a round, five times a second.
const floods = 20

func (w *world) newLiar(p *peer, seated []string, index uint64) (*liar, error) {
	key, err := p2p.LoadIdentity(filepath.Join(p.dir, "identity.key"))
	if err != nil {
		return nil, err
	}
	l := &liar{w: w, machine: w.wires.Machine(p.ip), done: make(chan struct{})}
	l.host, err = p2p.New(p2p.Config{Key: key, Listen: []string{p.ip.String()}, Sockets: l.machine, Admitted: func(string) bool { return true }})
	if err != nil {
		return nil, err
	}
	others := l.book(filepath.Join(p.dir, "book"))
	l.seat, l.flood = l.newPretender(p.dir, index, seated), 1
	if w.chance(0.3) {
		l.flood = floods
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	go func() { // ends with stop
		defer close(l.done)
		l.lie(ctx, others)
	}()
	return l, nil
}

func (l *liar) stop() {
	l.cancel()
	l.machine.Kill(false)
	<-l.done
	_ = l.host.Close()
}

func (l *liar) book(path string) (ids []string) {
	f, err := os.Open(path)
	if err != nil {
		return nil // killed before it knew anybody
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var r struct {
			ID    string
			Addrs []string
		}
		if json.Unmarshal(lines.Bytes(), &r) == nil && r.ID != "" {
			l.host.SetAddrs(r.ID, r.Addrs)
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// lie goes round until ctx ends.
func (l *liar) lie(ctx context.Context, others []string) {
	topic, err := l.host.Topic("/covey/status/1", func(string, []byte) p2p.Acceptance { return p2p.Ignore })
	if err != nil {
		return
	}
	defer topic.Close()
	for number := uint64(1); ctx.Err() == nil; {
		for _, to := range others {
			l.defame(ctx, to, others)
		}
		if l.seat != nil {
			l.seat.forge(ctx)
		}
		for range l.flood {
			if raw := l.batch(number); raw != nil {
				_ = topic.Publish(ctx, raw)
			}
			number++
		}
		_ = pause.For(ctx, 200*time.Millisecond)
	}
}

// defame accuses all others to one.
func (l *liar) defame(ctx context.Context, to string, others []string) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	c, err := l.host.Dial(ctx, to, membership.PacketProtocol)
	if err != nil {
		return
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	for _, of := range others {
		for _, inc := range []uint32{1, 2, 3, 4, math.MaxUint32} {
			for _, kind := range []byte{3, 5} { // suspect, dead
				var body []byte
				words := map[string]any{"Incarnation": inc, "Node": of, "From": of}
				if codec.NewEncoderBytes(&body, &codec.MsgpackHandle{}).Encode(words) != nil {
					return
				}
				packet := binary.BigEndian.AppendUint16(nil, uint16(len(body)+1))
				if _, err := c.Write(append(append(packet, kind), body...)); err != nil {
					return
				}
			}
		}
	}
}

func (l *liar) batch(number uint64) []byte {
	b := taskstate.Batch{Author: l.host.Self(), Incarnation: "liar", Number: number}
	for i := range 50 {
		b.Statuses = append(b.Statuses, taskstate.Status{
			Task: taskstate.Task(taskstate.JobID(fmt.Sprintf("z%09d", number)), 1+i, 1), Seq: 1, State: taskstate.Complete, Index: 1 << (number % 40),
		})
	}
	body, err := taskstate.EncodeBatch(b)
	if err != nil {
		return nil
	}
	env, err := digest.Seal(b.Author, string(b.Incarnation), number, body, l.host.Sign)
	if err != nil {
		return nil
	}
	raw, err := env.Encode()
	if err != nil {
		return nil
	}
	return raw
}
