package copies

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/node/troubles"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/p2p/starts"
	"github.com/coveyproject/covey/p2p/wire"
)

// process is one that goes by a key, and what it came to.
type process struct {
	*Copies
	troubles troubles.Troubles
	halts    int
}

// village is one observer and processes that all go by one key; those in up can be reached.
type village struct {
	t   *testing.T
	id  string
	all []*process
	mu  sync.Mutex
	up  []*process
	eye *process
}

func newVillage(t *testing.T) *village {
	v := &village{t: t}
	key, err := p2p.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	if v.id, err = p2p.ID(key); err != nil {
		t.Fatal(err)
	}
	v.eye = v.process(starts.Start{}.Next())
	v.eye.cfg.Self = "observer"
	v.eye.cfg.OnEach = func(context.Context, string, string) (list []net.Conn) {
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, p := range v.up {
			here, there := net.Pipe()
			go p.Serve("observer", there)
			list = append(list, here)
		}
		return list
	}
	v.all = nil
	for _, p := range []*process{v.eye} {
		p.cfg.Sign = key.Sign
	}
	return v
}

func (v *village) process(start starts.Start) *process {
	p := &process{}
	sign := func([]byte) ([]byte, error) { return nil, nil }
	if v.eye != nil {
		sign = v.eye.cfg.Sign
	}
	p.Copies = New(Config{
		Self: v.id, Start: start, Sign: sign, Say: &p.troubles, Log: slog.New(slog.DiscardHandler),
		Halt: func(bool) { p.halts++ }, Name: func(s string) string { return s },
	})
	v.all = append(v.all, p)
	return p
}

func (v *village) look(up ...*process) {
	v.mu.Lock()
	v.up = up
	v.mu.Unlock()
	v.eye.look(v.t.Context(), v.id)
}

func has(x *troubles.Troubles, peer, code string) bool {
	for _, t := range x.List(peer) {
		if t.Code == code {
			return true
		}
	}
	return false
}

func TestTwoHundredRestartsAreNoCopy(t *testing.T) {
	t.Parallel()
	v := newVillage(t)
	s := starts.Start{}.Next()
	for range 200 {
		p := v.process(s)
		v.look(p)
		v.look(p, p) // with a second connection
		if has(&v.eye.troubles, v.id, api.TroubleCopied) || p.Halted() || len(p.troubles.List(v.id)) > 0 {
			t.Fatalf("a restart is taken for a copy: %v", p.troubles.List(v.id))
		}
		s = s.Next()
	}
}

func TestTwoThatAnswerNowKnowOfEachOtherAndOneThatDoesNotAnswerIsNone(t *testing.T) {
	t.Parallel()
	first := starts.Start{}.Next()
	for name, second := range map[string]starts.Start{
		"a successor while its predecessor runs": first.Next(),
		"another successor of the same start":    {Number: first.Number + 7, Before: first.Before},
		"the same start, resumed twice":          first,
	} {
		t.Run(name, func(t *testing.T) {
			v := newVillage(t)
			a, b := v.process(first), v.process(second)
			v.look(a)
			v.look(b)
			if a.Halted() || b.Halted() || has(&v.eye.troubles, v.id, api.TroubleCopied) {
				t.Fatal("only one of them answers, and still there are two")
			}
			v.look(a, b)
			if !a.Halted() || !b.Halted() || !has(&a.troubles, v.id, api.TroubleCopied) || !has(&b.troubles, v.id, api.TroubleCopied) || !has(&v.eye.troubles, v.id, api.TroubleCopied) {
				t.Fatal("two answer, and not all know")
			}
			if v.eye.Vet(v.id, second) == nil {
				t.Fatal("one of them gets a session")
			}
			v.look(b)
			if !b.Halted() || !has(&v.eye.troubles, v.id, api.TroubleCopied) {
				t.Fatal("that the other one is out of reach is taken for its end")
			}
		})
	}
}

func TestWhatAnotherHolderGaveUpIsBelievedByItsSignatureOnly(t *testing.T) {
	t.Parallel()
	v := newVillage(t)
	s := starts.Start{}.Next()
	a, b := v.process(s), v.process(s.Next())
	v.look(a, b)
	forged := Renounced{Peer: v.id, Number: b.cfg.Start.Number, Sig: []byte("trust me")}
	if a.renounce(forged) || !a.Halted() {
		t.Fatal("anybody can say so")
	}
	sig, err := v.eye.cfg.Sign(starts.Renunciation(v.id, b.cfg.Start.Number))
	if err != nil {
		t.Fatal(err)
	}
	if !a.renounce(Renounced{Peer: v.id, Number: b.cfg.Start.Number, Sig: sig}) || a.Halted() || has(&a.troubles, v.id, api.TroubleCopied) {
		t.Fatal("it waits on")
	}
	v.look(a)
	if has(&v.eye.troubles, v.id, api.TroubleCopied) || v.eye.Vet(v.id, s) != nil {
		t.Fatal("others do not see that it is over")
	}
}

func TestAMemberCannotSayThatAnotherIsACopy(t *testing.T) {
	t.Parallel()
	v := newVillage(t)
	s := starts.Start{}.Next()
	a := v.process(s)
	p := starts.Proof{Start: s.Next(), Recent: []uint64{7}, Sig: []byte("trust me")}
	if a.meet("liar", 7, p) || a.Halted() {
		t.Fatal("an unsigned answer halts it")
	}
	mine, err := a.prove(7) // its own answer, brought back
	if err != nil {
		t.Fatal(err)
	}
	if a.meet("liar", 7, mine) || a.Halted() {
		t.Fatal("what it said itself counts against it")
	}
	old, err := v.process(s.Next()).prove(9) // signed, but to another challenge
	if err != nil {
		t.Fatal(err)
	}
	if a.meet("liar", 8, old) || a.Halted() {
		t.Fatal("an answer to another challenge counts")
	}
}

func TestAPeerOfVersion02MayShowWhichStartThisOneWasBefore(t *testing.T) {
	t.Parallel()
	p := newVillage(t).process(starts.Start{}.Next())
	here, there := net.Pipe()
	go p.Serve("somebody", there)
	defer here.Close()
	x := &talk{c: here, r: wire.NewReader(here, askCap), w: wire.NewWriter(here, askCap)}
	var a answer
	err := errors.Join(x.w.Send(ask{Past: &pastProof{Nonce: 7, Proof: starts.Proof{Start: starts.Start{}.Next()}}}), x.r.Read(&a))
	if err != nil || a.Taken {
		t.Errorf("answered %+v, %v", a, err)
	}
	if a, err = x.ask(ask{Nonce: 5}); err != nil || a.Proof == nil {
		t.Errorf("afterwards answered %+v, %v", a, err)
	}
}
