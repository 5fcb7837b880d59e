package admission

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/coveyproject/covey/internal/strain"
	"github.com/coveyproject/covey/p2p/wire"
)

// JoinProtocol is the stream protocol of joining; strangers may open it. One request, one answer.
const JoinProtocol = "/covey/join/2"

// OldJoinProtocol is what newcomers of version 0.1 open: they are told why they cannot come in.
const OldJoinProtocol = "/covey/join/1"

// Net is the part of the network port this package needs; p2p.Host and memnet.Host have it.
type Net interface {
	Self() string
	Dial(ctx context.Context, peer, protocol string) (net.Conn, error)
	Handle(protocol string, h func(peer string, c net.Conn))
}

// JoinRequest is what a newcomer shows. It is at most 4 KiB encoded.
type JoinRequest struct {
	Secret      []byte   `cbor:"-"`                    // of the invite, which stays here; none to try an open cluster
	Key         []byte   `cbor:"1,keyasint,omitempty"` // of the invite (TicketKey)
	Proof       []byte   `cbor:"7,keyasint,omitempty"` // that the newcomer holds its secret (Prove)
	Cluster     string   `cbor:"2,keyasint,omitempty"` // the cluster it means to join, "" if it does not know
	Name        string   `cbor:"3,keyasint,omitempty"`
	Addrs       []string `cbor:"4,keyasint,omitempty"` // where it listens, multiaddrs
	Incarnation string   `cbor:"5,keyasint,omitempty"`
	Dialect     int      `cbor:"6,keyasint,omitempty"` // the newest it reads; 0 is 1
}

// JoinAnswer is a peer's way in, or the reason there is none: with Refusal set everything else is
// empty.
type JoinAnswer struct {
	Entry   Entry      `cbor:"1,keyasint"`           // the newcomer's own
	Roster  []Entry    `cbor:"2,keyasint,omitempty"` // all entries, tombstones included
	Voters  []string   `cbor:"3,keyasint,omitempty"` // peer ids that hold the ledger
	Peers   []PeerAddr `cbor:"4,keyasint,omitempty"` // where some peers are
	Cluster string     `cbor:"5,keyasint,omitempty"`
	Refusal *Refusal   `cbor:"6,keyasint,omitempty"`
	Seats   []Seats    `cbor:"7,keyasint,omitempty"` // who holds a seat in the ledger, and the proof
	Roots   []string   `cbor:"8,keyasint,omitempty"` // for a newcomer whose ticket names none: see Roster.Pin
}

// Admitter decides about newcomers: a node forwards to the coordinator. from is the authenticated
// peer id. It refuses with JoinAnswer.Refusal or an error that is a *Refusal; any other error is
// logged and told as no-coordinator. ctx ends after Config.Timeout.
type Admitter interface {
	Admit(ctx context.Context, from string, req JoinRequest) (JoinAnswer, error)
}

// Check tells whether the request keeps its limits; the coordinator's side calls it on what was
// forwarded.
func (q JoinRequest) Check() error {
	switch {
	case len(q.Key) > maxID || len(q.Proof) > maxSig:
		return errors.New("the proof of a ticket is too long")
	case len(q.Cluster) > maxID || len(q.Incarnation) > maxID:
		return errors.New("an id is longer than 128 bytes")
	case len(q.Name) > maxName || !utf8.ValidString(q.Name):
		return errors.New("the name is longer than 64 bytes or not UTF-8")
	case strings.ContainsFunc(q.Name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return errors.New("the name has characters that cannot be printed")
	case len(q.Addrs) > 32:
		return errors.New("more than 32 addresses")
	}
	return nil
}

// trimmed drops addresses from the end until the request fits a stranger's frame: with the first
// few it can be reached as well.
func (q JoinRequest) trimmed() JoinRequest {
	for len(q.Addrs) > 0 {
		b, err := wire.Marshal(q)
		if err == nil && len(b) <= StrangerFrame && len(q.Addrs) <= 32 {
			break
		}
		q.Addrs = q.Addrs[:len(q.Addrs)-1]
	}
	return q
}

// answerFrame carries an answer in parts: the first has Answer, all but the last have More, each
// has up to chunk roster entries.
type answerFrame struct {
	Answer *JoinAnswer `cbor:"1,keyasint,omitempty"`
	Roster []Entry     `cbor:"2,keyasint,omitempty"`
	More   bool        `cbor:"3,keyasint,omitempty"`
}

// chunk is how many roster entries go into one frame; an entry is at most about 900 bytes. maxPeers
// is how many addresses of peers an answer carries: enough to begin with, membership finds the
// rest.
const (
	chunk    = 500
	maxPeers = 64
)

// ErrNoContact is what Join fails with when nobody was reached; all else is an answer, or a peer
// too busy for one.
var ErrNoContact = errors.New("no contact")

// Join asks via, which n can dial, to be let in. The error is a *Refusal if the cluster said no,
// and otherwise says why there was no answer; another peer may then be tried. The caller hands the
// answer to Roster.Adopt.
func Join(ctx context.Context, n Net, via string, req JoinRequest) (JoinAnswer, error) {
	ctx, cancel := strain.Timeout(ctx, DefaultTimeout)
	defer cancel()
	if len(req.Secret) > 0 {
		req.Key, req.Proof = TicketKey(req.Secret), Prove(req.Secret, n.Self())
	}
	req = req.trimmed() // a machine may have more addresses than anybody needs to find it
	if err := req.Check(); err != nil {
		return JoinAnswer{}, fmt.Errorf("cannot ask to join: %w", err)
	}
	c, err := dial(ctx, n, via, JoinProtocol)
	if err != nil {
		return JoinAnswer{}, err
	}
	defer c.Close()
	if err := wire.NewWriter(c, StrangerFrame).Send(req); err != nil {
		return JoinAnswer{}, lost(ctx, via, err)
	}
	a, err := readAnswer(wire.NewReader(c, 0))
	if err != nil {
		return JoinAnswer{}, lost(ctx, via, err)
	}
	if a.Refusal != nil {
		return JoinAnswer{Refusal: a.Refusal}, a.Refusal
	}
	return a, a.fits(n.Self(), req.Cluster)
}

func (a JoinAnswer) fits(self, cluster string) error {
	switch {
	case a.Entry.Peer != self || a.Entry.Removed:
		return fmt.Errorf("the answer to our joining admits %q, not this peer", a.Entry.Peer)
	case a.Cluster == "" || a.Entry.Cluster != a.Cluster:
		return fmt.Errorf("the answer to our joining contradicts itself: cluster %q, entry of %q", a.Cluster, a.Entry.Cluster)
	case cluster != "" && cluster != a.Cluster:
		return &Refusal{Code: WrongCluster}
	}
	return nil
}

func readAnswer(r *wire.Reader) (JoinAnswer, error) {
	var a JoinAnswer
	for first := true; ; first = false {
		var f answerFrame
		if err := r.Read(&f); err != nil {
			return JoinAnswer{}, err
		}
		if first != (f.Answer != nil) {
			return JoinAnswer{}, errors.New("the answer's parts do not fit together")
		}
		if first {
			a = *f.Answer
			a.Roster = nil
		}
		a.Roster = append(a.Roster, f.Roster...)
		if len(a.Roster) > MaxRoster {
			return JoinAnswer{}, fmt.Errorf("the answer holds more than %d roster entries", MaxRoster)
		}
		if !f.More {
			return a, nil
		}
	}
}

func writeAnswer(w *wire.Writer, a JoinAnswer) error {
	rest := a.Roster
	a.Roster, a.Peers = nil, a.Peers[:min(maxPeers, len(a.Peers))]
	f := answerFrame{Answer: &a}
	for {
		n := min(chunk, len(rest))
		f.Roster, rest = rest[:n], rest[n:]
		f.More = len(rest) > 0
		if err := w.Write(f); err != nil {
			return err
		}
		if !f.More {
			return w.Flush()
		}
		f = answerFrame{}
	}
}

// dial opens a stream that ends with ctx: its deadline is the stream's.
func dial(ctx context.Context, n Net, via, protocol string) (net.Conn, error) {
	c, err := n.Dial(ctx, via, protocol)
	if err != nil {
		return nil, fmt.Errorf("%w with %s: %w", ErrNoContact, via, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	if until, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(until); err != nil {
			stop()
			_ = c.Close()
			return nil, err
		}
	}
	return &boundConn{Conn: c, stop: stop}, nil
}

// boundConn is a stream that a context closes.
type boundConn struct {
	net.Conn
	stop func() bool
}

func (b *boundConn) Close() error {
	b.stop()
	return b.Conn.Close()
}

func lost(ctx context.Context, via string, err error) error {
	if e := ctx.Err(); e != nil {
		err = e
	}
	return fmt.Errorf("%s was reached but gave no answer: %w", via, err)
}
