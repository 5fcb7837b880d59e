package calls

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger/act"
	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/p2p"
	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
	"github.com/coveyproject/covey/taskstate/spell"
)

// A call is signed by the peer whose person asks. A peer that passes it on can drop it and cannot
// change or invent one, and so needs no role to do it.

// domain separates signatures over calls from all others made with the same key. The id of the
// cluster follows it: a call counts in one cluster only.
const domain = "covey call 2\x00"

const (
	window      = 5 * time.Minute // how far the time in a call may be from the coordinator's
	nonceLen    = 16              // bytes
	noncesOfOne = 4096            // remembered of one asker; above that its calls count from the newest that was forgotten
	noncesOfAll = 64 << 10        // remembered of all
)

// Signed is a call on the wire. Body is the call's encoding as its asker made it, which is what Sig
// covers: passing it on changes nothing but Hops.
type Signed struct {
	Hops int    `cbor:"1,keyasint,omitempty"` // how often it was passed on
	Body []byte `cbor:"2,keyasint"`
	Sig  []byte `cbor:"3,keyasint"`
}

// Signer makes and opens signed calls for one peer.
type Signer struct {
	Self    taskstate.PeerID
	Cluster func() string
	Sign    func([]byte) ([]byte, error)
	Now     func() int64 // milliseconds since 1970: the ledger's time, which a clock that lags does not hold up

	mu    sync.Mutex
	ahead int64 // added to now: what a coordinator said of its clock when it refused ours
}

// Seal signs a call in this peer's name, as of now.
func (s *Signer) Seal(c Call) (Signed, error) {
	c.From, c.Hops = s.Self, 0
	if c.Act == nil {
		if err := s.vouch(&c, act.Number()); err != nil {
			return Signed{}, err
		}
	}
	c.At, c.Nonce = s.Now()+s.lead(), make([]byte, nonceLen)
	_, _ = rand.Read(c.Nonce) // never fails (crypto/rand)
	body, err := wire.Marshal(c)
	if err != nil {
		return Signed{}, fmt.Errorf("encode the call: %w", err)
	}
	sig, err := s.Sign(signedPart(s.Cluster(), body))
	if err != nil {
		return Signed{}, fmt.Errorf("sign the call: %w", err)
	}
	return Signed{Body: body, Sig: sig}, nil
}

// vouch signs what a call asks of the ledger, for all who apply it there.
func (s *Signer) vouch(c *Call, number uint64) error {
	cmd, ok := c.Asked()
	if !ok {
		return nil
	}
	now := s.Now() + s.lead()
	a, err := act.Act{By: s.Self, At: now, Until: now + act.Lasts, N: number}.Signed(s.Cluster(), cmd.Asked(), s.Sign)
	if err != nil {
		return err
	}
	c.Act = &a
	return nil
}

// Order signs a job in this peer's name, as of now, in the place of another order, nil if there is
// none. It is younger than that, whatever the clocks say.
func (s *Signer) Order(j *taskstate.Job, old *taskstate.Order) error {
	at := s.Now() + s.lead()
	if old != nil {
		at = max(at, old.At+1)
	}
	return taskstate.SignOrder(j, s.Cluster(), s.Self, at, old.Digest(), s.Sign)
}

// ForDisk signs what only this disk holds: it counts in no cluster, and whether the roster, which
// names the cluster, was lost or changed does not matter to it.
func (s *Signer) ForDisk() *Signer {
	return &Signer{Self: s.Self, Cluster: func() string { return "" }, Sign: s.Sign, Now: s.Now}
}

// Open reads a call and checks that it was signed by whom it names.
func (s *Signer) Open(q Signed) (c Call, err error) {
	if c, err = s.Read(q); err != nil {
		return Call{}, err
	}
	if err := p2p.Verify(c.From, signedPart(s.Cluster(), q.Body), q.Sig); err != nil {
		return Call{}, fmt.Errorf("it is not signed by %s: %w", c.From, err)
	}
	c.Hops = q.Hops
	return c, nil
}

// Read reads a call and checks nothing but its form.
func (s *Signer) Read(q Signed) (c Call, err error) {
	if err := wire.Unmarshal(q.Body, &c); err != nil {
		return Call{}, fmt.Errorf("unreadable: %w", err)
	}
	switch {
	case c.From == "" || len(c.From) > maxWord:
		return Call{}, errors.New("it names no peer that asks")
	case c.Hops != 0 || len(c.Nonce) != nonceLen:
		return Call{}, errors.New("it is not made as calls are")
	}
	return c, nil
}

func signedPart(cluster string, body []byte) []byte {
	return append([]byte(domain+cluster+"\x00"), body...)
}

func (s *Signer) lead() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ahead
}

// correct takes the coordinator's clock for what calls say. One that is too far from this machine's
// is an error, which says by how much.
func (s *Signer) correct(theirs int64) error {
	now := s.Now()
	ahead := theirs - now
	if size := max(ahead, -ahead); size < 0 || size > taskstate.MaxSkew.Milliseconds() {
		return skewed(now, theirs)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead = ahead
	return nil
}

// ErrSkewed is that nothing was asked, as this machine's clock and the coordinator's differ by more
// than taskstate.MaxSkew.
var ErrSkewed = errors.New("the clocks differ")

type skewError struct{ said *api.Error }

// Error implements error.
func (e skewError) Error() string { return e.said.Error() }

// Is implements errors.Is.
func (skewError) Is(target error) bool { return target == ErrSkewed }

// Unwrap implements errors.Unwrap.
func (e skewError) Unwrap() error { return e.said }

// skewed words how far two clocks are apart.
func skewed(ours, theirs int64) error {
	size := "years"
	if d := time.UnixMilli(max(ours, theirs)).Sub(time.UnixMilli(min(ours, theirs))); d < 9000*time.Hour {
		size = spell.Span(d.Round(time.Minute).Milliseconds())
	}
	return skewError{api.Errorf(api.Refused, "this machine's clock and the coordinator's differ by %s: %s here, %s there; set the one right that is wrong (`peer doctor` compares them with others'; `%s`), and ask again", size, spell.Minute(ours), spell.Minute(theirs), setClock())}
}

// setClock is what sets a machine's clock.
func setClock() string {
	switch runtime.GOOS {
	case "windows":
		return "w32tm /resync"
	case "darwin":
		return "sudo sntp -sS time.apple.com"
	}
	return "sudo timedatectl set-ntp true"
}

// Guard lets each signed call through once. It knows the calls of one term: what was signed before
// the term began is not taken, and its asker signs anew.
type Guard struct {
	mu     sync.Mutex
	begin  int64 // of the term, milliseconds since 1970
	askers map[taskstate.PeerID]*askerCalls
	total  int
}

// askerCalls is what is remembered of one asker, oldest first.
type askerCalls struct {
	floor int64 // calls of up to then were forgotten, and are not taken any more
	calls []callMark
}

type callMark struct {
	at    int64
	nonce [nonceLen]byte
}

var (
	errReplayed = errors.New("this call was made before")
	errStale    = errors.New("this call was signed too long ago, or in the future")
)

// term forgets everything: this peer coordinates from now on.
func (g *Guard) term(now int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.begin, g.askers, g.total = now, map[taskstate.PeerID]*askerCalls{}, 0
}

// admit tells whether a call counts: nil, errStale (signing anew helps) or errReplayed.
func (g *Guard) admit(from taskstate.PeerID, at int64, nonce []byte, now int64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	window := window.Milliseconds()
	if at < max(g.begin, now-window) || at > now+window {
		return errStale
	}
	a := g.askers[from]
	if a == nil {
		if g.askers == nil {
			g.askers = map[taskstate.PeerID]*askerCalls{}
		}
		a = &askerCalls{}
		g.askers[from] = a
	}
	if slices.ContainsFunc(a.calls, func(m callMark) bool { return bytes.Equal(m.nonce[:], nonce) }) {
		return errReplayed
	}
	if at <= a.floor {
		return errStale
	}
	i, _ := slices.BinarySearchFunc(a.calls, at, func(m callMark, at int64) int { return int(m.at - at) })
	a.calls = slices.Insert(a.calls, i, callMark{at: at, nonce: [nonceLen]byte(nonce)})
	g.total++
	g.forget(a, now-window, noncesOfOne)
	if g.total > noncesOfAll { // halved, so that this is rare
		for _, a := range g.askers {
			g.forget(a, now-window, max(1, noncesOfAll/2/len(g.askers)))
		}
	}
	return nil
}

// forget drops what is too old to be taken again anyway, and the oldest above a limit. The caller
// holds mu.
func (g *Guard) forget(a *askerCalls, old int64, limit int) {
	n := max(0, len(a.calls)-limit)
	for n < len(a.calls) && a.calls[n].at < old {
		n++
	}
	if n == 0 {
		return
	}
	a.floor = max(a.floor, a.calls[n-1].at)
	a.calls = slices.Delete(a.calls, 0, n)
	g.total -= n
}
