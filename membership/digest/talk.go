package digest

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/coveyproject/covey/internal/far"
	"github.com/coveyproject/covey/p2p/wire"
)

type talk struct {
	x    *Exchange
	peer string
	c    net.Conn
	r    *wire.Reader
	w    *wire.Writer

	patience time.Duration // for one frame
}

type parcel struct {
	_         struct{} `cbor:",toarray"`
	Envelopes []Envelope
	Last      bool // of this turn
	More      bool // with Last: the turn was full, ask again
}

func newTalk(x *Exchange, peer string, c net.Conn) *talk {
	return &talk{x: x, peer: peer, c: c, r: wire.NewReader(c, 0), w: wire.NewWriter(c, 0), patience: far.For(x.cfg.Net, peer, frameDeadline)}
}

func (t *talk) send(v any) error {
	if err := t.c.SetWriteDeadline(time.Now().Add(t.patience)); err != nil {
		return err
	}
	return t.w.Send(v)
}

func (t *talk) read(v any) error {
	if err := t.c.SetReadDeadline(time.Now().Add(t.patience)); err != nil {
		return err
	}
	return t.r.Read(v)
}

func (t *talk) serve() error {
	theirs, err := t.readMarks()
	if err == nil {
		err = t.sendMarks()
	}
	if err == nil {
		_, err = t.answer()
	}
	if err == nil {
		_, err = t.ask(theirs)
	}
	return err
}

func (t *talk) sendMarks() error { return t.send(t.x.cfg.Store.Marks()) }

// readMarks takes the other side's marks and what it says is settled.
func (t *talk) readMarks() ([]Mark, error) {
	var ms []Mark
	if err := t.read(&ms); err != nil {
		return nil, err
	}
	if len(ms) > maxStreams {
		return nil, fmt.Errorf("%d marks, the cap is %d", len(ms), maxStreams)
	}
	ms = slices.DeleteFunc(ms, func(m Mark) bool { return !t.x.cfg.Accept(m.Stream.Author) })
	t.x.cfg.Store.Believe(t.peer, ms)
	return ms, nil
}

// ask wants what is missing here and takes it. more tells that there is more of it.
func (t *talk) ask(theirs []Mark) (more bool, err error) {
	wants := append(t.x.cfg.Store.Reached(t.x.cfg.Net.Self(), theirs), t.x.cfg.Store.Wants(theirs)...)
	wants = slices.DeleteFunc(wants, func(r Range) bool { return !t.x.wantsOf(r.Stream.Author) })
	wants = wants[:min(len(wants), maxWants)]
	if err := t.send(wants); err != nil {
		return false, err
	}
	news, left := false, turnBytes+parcelBytes+MaxBody
	for {
		var p parcel
		if err := t.read(&p); err != nil {
			return false, err
		}
		for _, e := range p.Envelopes {
			if left -= e.size(); left < 0 {
				return false, errors.New("more than a turn may bring")
			}
			fresh, err := t.receive(e)
			if err != nil {
				return false, err
			}
			news = news || fresh
		}
		if p.Last {
			t.x.cfg.Store.Believe(t.peer, theirs) // again: there are more signatures now that bear it out
			return p.More && news, nil
		}
	}
}

// receive checks one envelope and delivers it if it is news.
func (t *talk) receive(e Envelope) (bool, error) {
	if err := e.check(); err != nil {
		return false, err
	}
	if !t.x.cfg.Accept(e.Author) || !t.x.Allows(e) {
		return false, nil // a hole for now
	}
	if err := e.Verify(t.x.cfg.Verify); err != nil {
		return false, err
	}
	if !t.x.cfg.Store.Add(e) {
		return false, nil
	}
	t.x.charge(e)
	t.x.cfg.Deliver(e)
	return true, nil
}

// answer gives what the other side wants.
func (t *talk) answer() (more bool, err error) {
	var wants []Range
	if err := t.read(&wants); err != nil {
		return false, err
	}
	if len(wants) > maxWants {
		return false, errors.New("too many wants")
	}
	envelopes, more := t.x.cfg.Store.Missing(wants, turnBytes)
	for {
		n, size := 0, 0
		for n < len(envelopes) && (n == 0 || size+envelopes[n].size() <= parcelBytes) {
			size += envelopes[n].size()
			n++
		}
		p := parcel{Envelopes: envelopes[:n], Last: n == len(envelopes), More: more}
		if err := t.send(p); err != nil {
			return false, err
		}
		if envelopes = envelopes[n:]; p.Last {
			return more, nil
		}
	}
}
