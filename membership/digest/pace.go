package digest

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// What one author may bring in, whichever way its batches come. A batch costs what it holds and
// envelopeCost: checking a signature is dear, too. What is above that is not looked at; it is a
// hole, which exchanges fill when the author's pace allows.
const (
	authorPace   = 2 << 20 // bytes a second
	authorBurst  = 16 << 20
	envelopeCost = 1 << 10
	maxPaces     = 4096
)

// paces is how much each author brought in.
type paces struct {
	mu sync.Mutex
	of map[string]*rate.Limiter
}

func (p *paces) author(name string) *rate.Limiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.of[name]
	if l == nil {
		if p.of == nil || len(p.of) >= maxPaces { // only admitted authors get so far
			p.of = map[string]*rate.Limiter{}
		}
		l = rate.NewLimiter(authorPace, authorBurst)
		p.of[name] = l
	}
	return l
}

// Allows tells whether an author may bring in this envelope now. It is asked before the signature
// is checked, so it takes nothing off the author's pace: somebody else may have written its name.
func (x *Exchange) Allows(e Envelope) bool {
	return e.Author == x.cfg.Net.Self() || x.paces.author(e.Author).Tokens() >= float64(e.cost())
}

// wantsOf tells whether there is room for more of an author: what it may not bring in now would
// only keep others' envelopes out of a turn.
func (x *Exchange) wantsOf(author string) bool {
	return author == x.cfg.Net.Self() || x.paces.author(author).Tokens() >= authorBurst/8
}

// charge takes a new envelope whose signature was checked off its author's pace.
func (x *Exchange) charge(e Envelope) {
	if e.Author != x.cfg.Net.Self() {
		x.paces.author(e.Author).ReserveN(time.Now(), e.cost())
	}
}

func (e Envelope) cost() int { return len(e.Body) + envelopeCost }
