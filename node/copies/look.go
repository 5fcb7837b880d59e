package copies

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net"
	"slices"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/p2p/starts"
	"github.com/coveyproject/covey/p2p/wire"
)

// look asks on every connection to a peer who is there. Two looks at one peer at once are one.
func (c *Copies) look(ctx context.Context, peer string) {
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
		for _, j := range first {
			if i != j {
				c.introduce(talks[i], talks[j])
			}
		}
	}
	c.judge(peer, answers, first)
}

// judge keeps what a look came to.
func (c *Copies) judge(peer string, answers []starts.Answer, first []int) {
	halted := slices.ContainsFunc(answers, func(a starts.Answer) bool { return a.Proof.Halted })
	double := len(first) > 1 || halted
	newest := answers[first[len(first)-1]]
	c.mu.Lock()
	was := c.double[peer]
	if double {
		c.double[peer] = true
	} else {
		delete(c.double, peer)
		c.known[peer] = known{newest.Proof.Start.Number, true}
	}
	c.mu.Unlock()
	switch {
	case double && !was:
		text := fmt.Sprintf("two processes go by the identity of %s: a machine or a data folder was copied. Neither votes nor takes tasks until one of them is stopped and given another with `peer up --new-identity --join TICKET` there", c.cfg.Name(peer))
		c.cfg.Say.Set(peer, api.TroubleCopied, text)
		c.cfg.Log.Error(text, "peer", peer)
	case !double && was:
		c.cfg.Say.Clear(peer, api.TroubleCopied)
		c.cfg.Log.Info("only one process goes by this identity again", "peer", peer)
	}
}

type talk struct {
	c      net.Conn
	r      *wire.Reader
	w      *wire.Writer
	answer starts.Answer
}

func (t *talk) ask(q ask) (a answer, err error) {
	if err = t.w.Send(q); err == nil {
		err = t.r.Read(&a)
	}
	return a, err
}

// challenge has the peer at the other end of each connection say which start it is.
func (c *Copies) challenge(ctx context.Context, peer string) (talks []*talk) {
	for _, s := range c.cfg.OnEach(ctx, peer, Protocol) {
		if deadline, ok := ctx.Deadline(); ok {
			_ = s.SetDeadline(deadline)
		}
		t := &talk{c: s, r: wire.NewReader(s, askCap), w: wire.NewWriter(s, askCap)}
		nonce := drawNonce()
		a, err := t.ask(ask{Nonce: nonce})
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
func (c *Copies) introduce(to, other *talk) {
	a, err := to.ask(ask{Meet: true})
	if err != nil || a.Nonce == 0 {
		return
	}
	b, err := other.ask(ask{Nonce: a.Nonce})
	if err != nil || b.Proof == nil {
		return
	}
	_, _ = to.ask(ask{Other: b.Proof})
}

func drawNonce() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return binary.BigEndian.Uint64(b[:]) | 1
}
