package node

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	mrand "math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"covey/internal/wake"
	"covey/node/api"
	"covey/node/troubles"
	"covey/p2p"
	"covey/p2p/starts"
	"covey/p2p/wire"
	"covey/taskstate"
)

// A machine may be cloned, restored from a backup, or resumed from a snapshot: then two processes
// go by one key, each with its own idea of what was decided and what runs. Neither can see the
// other, but everybody else can: it has connections to both. A peer that sees a second connection
// to a peer, or another start number than before, asks on each connection who is there. If two
// processes answer now, it brings them together: each gets, from the other, an answer to a
// challenge of its own, signed with the key both have. No word of anybody else counts. A process
// that has seen such an answer stops voting and taking tasks until a person has decided which of
// the two keeps the identity.

// startProtocol asks a process which start of its peer it is. It is for members.
const startProtocol = "/covey/start/1"

const (
	startAskCap  = 8 << 10
	startAsks    = 32               // on one stream
	startTime    = 10 * time.Second // of one stream
	lookTime     = 2 * time.Second  // to answer now
	lookAgain    = 2 * time.Second  // while there are two
	firstLook    = 10 * time.Second // after a peer was met, for its proof; up to twice that
	maxLookQueue = 1024
)

type startAsk struct {
	Nonce    uint64        `cbor:"1,keyasint,omitempty"` // who are you? answered by Proof
	Meet     bool          `cbor:"2,keyasint,omitempty"` // somebody else is you: answered by a Nonce for it
	Other    *starts.Proof `cbor:"3,keyasint,omitempty"` // its answer to that
	Past     *pastProof    `cbor:"4,keyasint,omitempty"` // who you were before
	Renounce *renounced    `cbor:"5,keyasint,omitempty"` // who was you is not any more
}

type startAnswer struct {
	Proof *starts.Proof `cbor:"1,keyasint,omitempty"`
	Nonce uint64        `cbor:"2,keyasint,omitempty"`
	Taken bool          `cbor:"3,keyasint,omitempty"`
}

// renounced is a start that gave its identity up, with `peer up --new-identity`.
type renounced struct {
	Peer   taskstate.PeerID `cbor:"1,keyasint" json:"peer"`
	Number uint64           `cbor:"2,keyasint" json:"number"`
	Sig    []byte           `cbor:"3,keyasint" json:"sig"`
}

// copiesConfig is what copies act on.
type copiesConfig struct {
	self   taskstate.PeerID
	start  starts.Start
	chain  startChain // the starts before, as far as the folder knows
	sign   func([]byte) ([]byte, error)
	onEach func(ctx context.Context, peer, protocol string) []net.Conn
	say    *troubles.Troubles
	halt   func(on bool)    // stop voting and taking tasks, or go on
	back   func(why string) // this folder was turned back
	name   func(string) string
	met    string // the file that remembers whom it met
	log    *slog.Logger
}

// copies finds processes that go by one key. Run owns the looking; what others ask is answered on
// their own goroutines.
type copies struct {
	cfg     copiesConfig
	history starts.History
	met     met
	queue   chan string
	turn    wake.Signal // the halt changed

	mu     sync.Mutex
	known  map[taskstate.PeerID]starts.Start
	proofs map[taskstate.PeerID]pastProof
	asked  map[taskstate.PeerID]bool // in the queue
	double map[taskstate.PeerID]bool // there are two of them
	others map[uint64]bool           // numbers of other holders of our key
	looks  map[taskstate.PeerID]chan struct{}
	unkept bool // the file has less than proofs
}

func newCopies(cfg copiesConfig) *copies {
	c := &copies{
		cfg: cfg, met: met{path: cfg.met}, queue: make(chan string, maxLookQueue), turn: wake.New(),
		known: map[taskstate.PeerID]starts.Start{}, proofs: map[taskstate.PeerID]pastProof{}, asked: map[taskstate.PeerID]bool{},
		double: map[taskstate.PeerID]bool{}, others: map[uint64]bool{}, looks: map[taskstate.PeerID]chan struct{}{},
	}
	for p, past := range c.met.load() {
		c.proofs[p], c.known[p] = past, past.Proof.Start
	}
	return c
}

// Run looks at peers until ctx ends.
func (c *copies) Run(ctx context.Context) error {
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	defer c.keep()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.turn:
			c.cfg.halt(c.Halted())
		case p := <-c.queue:
			c.mu.Lock()
			delete(c.asked, p)
			c.mu.Unlock()
			c.look(ctx, p)
		case <-again.C:
			c.keep() // of many that are met at once in one write
			for _, p := range c.doubles() {
				c.look(ctx, p)
			}
		}
	}
}

func (c *copies) doubles() (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range c.double {
		all = append(all, p)
	}
	slices.Sort(all)
	return all
}

// Ask has a peer looked at soon. It never blocks: if very many wait, one that is met again is asked
// then.
func (c *copies) Ask(peer string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked[peer] || peer == c.cfg.self {
		return
	}
	select {
	case c.queue <- peer:
		c.asked[peer] = true
	default:
	}
}

// Heard hears which start a peer says it is. It never blocks.
func (c *copies) Heard(peer string, start starts.Start) {
	if start.IsZero() || peer == c.cfg.self {
		return
	}
	c.mu.Lock()
	was, met := c.known[peer]
	if !met {
		c.known[peer] = start
	}
	c.mu.Unlock()
	switch {
	case !met:
		time.AfterFunc(firstLook+mrand.N(firstLook), func() { c.Ask(peer) })
	case was.Number != start.Number:
		c.Ask(peer)
	}
}

// Vet tells whether a peer that says Hello as a start may have a session: not while two processes
// answer for it.
func (c *copies) Vet(peer string, start starts.Start) error {
	if peer == c.cfg.self {
		return nil
	}
	c.mu.Lock()
	past, shown := c.proofs[peer]
	c.mu.Unlock()
	if !start.IsZero() && (!shown || past.Proof.Start.Number != start.Number) {
		ctx, cancel := context.WithTimeout(context.Background(), lookTime)
		defer cancel()
		c.look(ctx, peer)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.double[peer] {
		return errors.New("another process goes by the same identity: both wait for a person (`peer status` there)")
	}
	return nil
}

// Halted tells whether another process goes by our key.
func (c *copies) Halted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.others) > 0
}

// look asks on every connection to a peer who is there. Two looks at one peer at once are one.
func (c *copies) look(ctx context.Context, peer string) {
	c.mu.Lock()
	if under := c.looks[peer]; under != nil {
		c.mu.Unlock()
		select {
		case <-under:
		case <-ctx.Done():
		}
		return
	}
	done := make(chan struct{})
	c.looks[peer] = done
	past, shown := c.proofs[peer]
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.looks, peer)
		c.mu.Unlock()
		close(done)
	}()
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	talks := c.challenge(ctx, peer)
	defer func() {
		for _, t := range talks {
			_ = t.c.Close()
		}
	}()
	if len(talks) == 0 {
		return // nobody answers: nothing is known
	}
	answers := make([]starts.Answer, 0, len(talks))
	for _, t := range talks {
		answers = append(answers, t.answer)
	}
	first := starts.Processes(answers)
	for _, i := range first {
		if shown && answers[i].Proof.Start.Number != past.Proof.Start.Number {
			_, _ = talks[i].ask(startAsk{Past: &past})
		}
		for _, j := range first {
			if i != j {
				c.introduce(talks[i], talks[j])
			}
		}
	}
	c.judge(peer, answers, first)
}

// judge keeps what a look came to.
func (c *copies) judge(peer string, answers []starts.Answer, first []int) {
	halted := slices.ContainsFunc(answers, func(a starts.Answer) bool { return a.Proof.Halted })
	double := len(first) > 1 || halted
	newest := answers[first[len(first)-1]]
	c.mu.Lock()
	was, before := c.double[peer], c.proofs[peer].Proof.Start.Number
	if double {
		c.double[peer] = true
	} else {
		delete(c.double, peer)
		c.known[peer] = newest.Proof.Start
		c.proofs[peer] = pastProof{Nonce: newest.Nonce, Proof: newest.Proof}
		c.unkept = c.unkept || before != newest.Proof.Start.Number
	}
	c.mu.Unlock()
	switch {
	case double && !was:
		text := fmt.Sprintf("two processes go by the identity of %s: a machine or a data folder was copied. Neither votes nor takes tasks until one of them is stopped and given another with `peer up --new-identity --join TICKET`", c.cfg.name(peer))
		c.cfg.say.Set(peer, api.TroubleCopied, text)
		c.cfg.log.Error(text, "peer", peer)
	case !double && was:
		c.cfg.say.Clear(peer, api.TroubleCopied)
		c.cfg.log.Info("only one process goes by this identity again", "peer", peer)
	}
}

// keep writes down whom this peer met since the last time.
func (c *copies) keep() {
	c.mu.Lock()
	news := c.unkept
	c.unkept = false
	c.mu.Unlock()
	if !news {
		return
	}
	if err := c.met.save(c.pasts); err != nil {
		c.cfg.log.Warn("whom this peer met cannot be remembered", "err", err)
	}
}

func (c *copies) pasts() map[taskstate.PeerID]pastProof {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.proofs)
}

type talk struct {
	c      net.Conn
	r      *wire.Reader
	w      *wire.Writer
	answer starts.Answer
}

func (t *talk) ask(q startAsk) (a startAnswer, err error) {
	if err = t.w.Send(q); err == nil {
		err = t.r.Read(&a)
	}
	return a, err
}

// challenge has the peer at the other end of each connection say which start it is.
func (c *copies) challenge(ctx context.Context, peer string) (talks []*talk) {
	for _, s := range c.cfg.onEach(ctx, peer, startProtocol) {
		if deadline, ok := ctx.Deadline(); ok {
			_ = s.SetDeadline(deadline)
		}
		t := &talk{c: s, r: wire.NewReader(s, startAskCap), w: wire.NewWriter(s, startAskCap)}
		nonce := drawNonce()
		a, err := t.ask(startAsk{Nonce: nonce})
		if err != nil || a.Proof == nil || !a.Proof.Sane() {
			_ = s.Close()
			continue
		}
		t.answer = starts.Answer{Nonce: nonce, Proof: *a.Proof}
		talks = append(talks, t)
	}
	return talks
}

// introduce brings to one process what another one answers to its challenge.
func (c *copies) introduce(to, other *talk) {
	a, err := to.ask(startAsk{Meet: true})
	if err != nil || a.Nonce == 0 {
		return
	}
	b, err := other.ask(startAsk{Nonce: a.Nonce})
	if err != nil || b.Proof == nil {
		return
	}
	_, _ = to.ask(startAsk{Other: b.Proof})
}

func drawNonce() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return binary.BigEndian.Uint64(b[:]) | 1
}

func (c *copies) serve(peer string, conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(startTime))
	r, w := wire.NewReader(conn, startAskCap), wire.NewWriter(conn, startAskCap)
	var nonce uint64 // for the one we are told of
	for range startAsks {
		var q startAsk
		if err := r.Read(&q); err != nil {
			return
		}
		var a startAnswer
		switch {
		case q.Nonce != 0:
			p, err := c.prove(q.Nonce)
			if err != nil {
				return
			}
			a.Proof = &p
		case q.Meet:
			nonce = drawNonce()
			a.Nonce = nonce
		case q.Other != nil:
			a.Taken = nonce != 0 && c.meet(peer, nonce, *q.Other)
			nonce = 0
		case q.Past != nil:
			a.Taken = c.wasSomebody(peer, *q.Past)
		case q.Renounce != nil:
			a.Taken = c.renounce(*q.Renounce)
		}
		if err := w.Send(a); err != nil {
			return
		}
	}
}

func (c *copies) prove(nonce uint64) (p starts.Proof, err error) {
	p = starts.Proof{Start: c.cfg.start, Recent: c.history.Answer(nonce), Halted: c.Halted()}
	p.Sig, err = c.cfg.sign(p.Statement(c.cfg.self, nonce))
	return p, err
}

// own tells whether a proof is signed with our key.
func (c *copies) own(nonce uint64, p starts.Proof) bool {
	return p.Sane() && p2p.Verify(c.cfg.self, p.Statement(c.cfg.self, nonce), p.Sig) == nil
}

// meet takes the answer to a challenge of ours that another process gave with our key.
func (c *copies) meet(from string, nonce uint64, p starts.Proof) bool {
	if !c.own(nonce, p) || p.Start.Number == c.cfg.start.Number && c.history.Has(nonce) {
		return false // nobody's, or our own
	}
	c.mu.Lock()
	news := len(c.others) == 0
	if len(c.others) < startAsks {
		c.others[p.Start.Number] = true
	}
	c.mu.Unlock()
	if news {
		text := "another process goes by this peer's identity right now: this machine or its data folder was copied. Neither votes nor takes tasks until a person decides: stop one of them and give it an identity of its own with `peer up --new-identity --join TICKET` (`peer ticket` at another peer); if the other one is gone for good, restart this one"
		c.cfg.say.Set(c.cfg.self, api.TroubleCopied, text)
		c.cfg.log.Error(text, "told by", c.cfg.name(from), "start", c.cfg.start.Number, "other start", p.Start.Number)
		c.turn.Set()
	}
	return true
}

// wasSomebody is shown an answer that this peer gave before. If the start that gave it is none of
// those the folder remembers, the folder was turned back to what it was before that.
func (c *copies) wasSomebody(from string, p pastProof) bool {
	n := p.Proof.Start.Number
	if !c.own(p.Nonce, p.Proof) || n == c.cfg.start.Number || !c.cfg.chain.outrun(p.Proof.Start) || c.knowsOther(n) {
		return false
	}
	if c.cfg.start.Before == 0 {
		return false // a folder that begins with this start was lost, not turned back: its journal is as new as it is
	}
	if c.cfg.say.Set(c.cfg.self, api.TroubleTurnedBack, "this peer's data folder was turned back: others know a later state of it. What its worker had is settled by each job's rule, and its log counts only as far as the others bear it out") {
		c.cfg.log.Error("this data folder was turned back: there was a later start of this peer", "told by", c.cfg.name(from), "start", n)
		c.cfg.back("others know a later start of this peer than its data folder does: it was turned back")
	}
	return true
}

func (c *copies) knowsOther(n uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.others[n]
}

// renounce hears that another holder of our key has taken an identity of its own.
func (c *copies) renounce(r renounced) bool {
	if r.Peer != c.cfg.self || p2p.Verify(c.cfg.self, starts.Renunciation(r.Peer, r.Number), r.Sig) != nil {
		return false
	}
	c.mu.Lock()
	free := len(c.others) > 0 && r.Number != c.cfg.start.Number
	if free {
		clear(c.others) // its earlier starts, too; should there be a third one, somebody meets it again
	}
	c.mu.Unlock()
	if free {
		c.cfg.say.Clear(c.cfg.self, api.TroubleCopied)
		c.cfg.log.Info("the other process that went by this peer's identity has one of its own now")
		c.turn.Set()
	}
	return true
}

// errCopied is why a worker takes nothing on while there are two of it.
type errCopied struct{}

func (errCopied) Error() string {
	return "another process goes by this peer's identity: it takes nothing until a person decides (`peer status` there)"
}

// Code implements worker.Coded.
func (errCopied) Code() string { return api.TroubleCopied }
