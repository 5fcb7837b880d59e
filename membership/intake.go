package membership

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"github.com/hashicorp/memberlist"
	"golang.org/x/time/rate"
)

// What one neighbour may send. A message costs one, a record whose signature must be checked
// verifyCost.
const (
	neighbourPace  = 2000 // a second
	neighbourBurst = 4000
	verifyCost     = 20

	maxPacket      = packetBytes + 4<<10 // bytes, with the signatures of records in it
	maxIncarnation = 1 << 31             // no life is long enough for more
	maxEpoch       = 1 << 48             // of a hint
	hintAhead      = 1 << 20             // elections and recoveries a hint may be ahead of what is known here
	defendPace     = 2                   // claims of this peer itself that it answers in a second
	defendBurst    = 6
)

// intake stands between what others send and memberlist, which believes everybody: it decompresses
// what arrives, takes anybody's word for who is dead and for what others say about themselves, and
// an incarnation as high as can be for the truth. Only messages that peers of this program send get
// through; records must be signed by their subject; claims are looked into (see claimedGone).
//
// Each neighbour's messages come from its own goroutine, which waits here when there are too many.
type intake struct {
	m    *Membership
	self string

	mu      sync.Mutex
	known   map[string]signedRecord // of admitted members: the newest they signed
	paces   map[string]*rate.Limiter
	defence *rate.Limiter
}

// signedRecord is what a member said about itself last.
type signedRecord struct {
	incarnation uint32
	signed      []byte
}

func newIntake(m *Membership) *intake {
	return &intake{
		m: m, self: m.self, known: map[string]signedRecord{}, paces: map[string]*rate.Limiter{}, defence: rate.NewLimiter(defendPace, defendBurst),
	}
}

// pace waits until a neighbour may send n more. Only admitted peers have a pace, and it goes with
// them.
func (in *intake) pace(ctx context.Context, from string, n int) error {
	in.mu.Lock()
	p := in.paces[from]
	if p == nil {
		p = rate.NewLimiter(neighbourPace, neighbourBurst)
		in.paces[from] = p
	}
	in.mu.Unlock()
	if p.Tokens() < float64(n) {
		in.m.refusals.note(from, tooMuch, "")
	}
	return p.WaitN(ctx, min(n, neighbourBurst))
}

func (in *intake) forget(peer string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.known, peer)
	delete(in.paces, peer)
}

// packet is what of a neighbour's packet memberlist may see; nil if nothing.
func (in *intake) packet(ctx context.Context, from string, b []byte) []byte {
	var keep [][]byte
	n := 0
	err := split(b, func(msg []byte) bool {
		n++
		if msg = in.message(ctx, from, msg); msg != nil {
			keep = append(keep, msg)
		}
		return ctx.Err() == nil
	})
	if err != nil {
		in.m.refusals.note(from, notOurs, err.Error())
	}
	if in.pace(ctx, from, n) != nil {
		return nil
	}
	return pack(keep)
}

// message is one message as memberlist may see it, or nil.
func (in *intake) message(ctx context.Context, from string, msg []byte) []byte {
	body := msg[1:]
	switch msg[0] {
	case ackMsg, nackMsg:
		return msg
	case pingMsg, indirectMsg:
		var p pingBody
		// The answer goes to the source, and the question on to the node: both name a peer, and get
		// a stream.
		if decodeBody(body, &p) == nil && p.SourceNode == from {
			if p.Node == in.self || in.m.cfg.Admitted(p.Node) {
				if msg[0] == indirectMsg {
					return wantedPing(body)
				}
				return msg
			}
			if msg[0] == indirectMsg {
				return nil // who asks may not have heard yet that this peer has left
			}
		}
	case userMsg:
		if in.hint(from, body) {
			return msg
		}
		return nil
	case aliveMsg:
		var a aliveBody
		if decodeBody(body, &a) == nil {
			if !in.alive(ctx, from, &a) {
				return nil
			}
			return encodeMessage(aliveMsg, a)
		}
	case suspectMsg, deadMsg:
		var a accuseBody
		if decodeBody(body, &a) == nil {
			if !in.m.claimedGone(from, claim{dead: msg[0] == deadMsg, accuseBody: a}) {
				return nil
			}
			return encodeMessage(msg[0], a)
		}
	}
	in.m.refusals.note(from, notOurs, word(msg[0]))
	return nil
}

// hint tells whether a hint may be one. A term as high as can be would be the last that anybody
// hears of.
func (in *intake) hint(from string, b []byte) bool {
	h, ok := decodeHint(b)
	known := in.m.Hint().Epoch
	switch {
	case !ok:
		in.m.refusals.note(from, notOurs, "a hint that is none")
	case h.Epoch.Generation > maxEpoch || h.Epoch.Term > maxEpoch,
		!known.IsZero() && (h.Epoch.Generation > known.Generation+hintAhead || h.Epoch.Term > known.Term+hintAhead):
		in.m.refusals.note(from, notOurs, "a coordinator of epoch "+h.Epoch.String())
	default:
		return true
	}
	return false
}

// alive tells whether memberlist may see what a member is said to say of itself. A record of this
// peer itself loses its signature: memberlist compares it to what it knows.
func (in *intake) alive(ctx context.Context, from string, a *aliveBody) bool {
	if why := odd(a); why != nil {
		in.m.refusals.note(from, forged, why.Error())
		return false
	}
	if a.Node == in.self {
		return in.ownRecord(from, a.Incarnation, &a.Meta)
	}
	return in.believes(ctx, from, a.Node, a.Incarnation, a.Meta)
}

// odd tells what is wrong with what everybody can work out for themselves.
func odd(a *aliveBody) error {
	switch {
	case a.Node == "" || len(a.Node) > maxName:
		return errors.New("a member without a proper name")
	case !bytes.Equal(a.Addr, syntheticIP(a.Node)) || a.Port != memberPort:
		return errors.New("a member with another's address")
	case !bytes.Equal(a.Vsn, versions[:]):
		return errors.New("other protocol versions")
	case a.Incarnation >= maxIncarnation || len(a.Meta) > maxMeta:
		return errors.New("an incarnation or record beyond all bounds")
	}
	return nil
}

// maxName caps a member's name in bytes.
const maxName = 128

// believes checks the signature of a record that is news.
func (in *intake) believes(ctx context.Context, from, peer string, incarnation uint32, signed []byte) bool {
	in.mu.Lock()
	known, ok := in.known[peer]
	in.mu.Unlock()
	switch {
	case ok && incarnation < known.incarnation:
		if from == peer {
			in.remind(peer, known)
		}
		return false
	case ok && incarnation == known.incarnation && bytes.Equal(signed, known.signed):
		return true
	}
	if in.pace(ctx, from, verifyCost) != nil {
		return false
	}
	if err := in.m.cfg.checkRecord(peer, incarnation, signed); err != nil {
		in.m.refusals.note(from, forged, "of "+peer+": "+err.Error())
		return false
	}
	if in.m.cfg.Admitted(peer) {
		in.mu.Lock()
		if known = in.known[peer]; known.incarnation <= incarnation {
			in.known[peer] = signedRecord{incarnation: incarnation, signed: bytes.Clone(signed)}
		}
		in.mu.Unlock()
	}
	return true
}

// remind tells a peer that counts its incarnations anew, since it was restarted, how far it had
// counted: it goes on from there.
func (in *intake) remind(peer string, last signedRecord) {
	in.m.sendAlive(peer, aliveBody{
		Incarnation: last.incarnation, Node: peer, Addr: syntheticIP(peer), Port: memberPort, Meta: last.signed, Vsn: versions[:],
	})
}

// ownRecord is what others have of this peer. It is believed if this peer signed it, perhaps in an
// earlier life: memberlist then goes on from that incarnation.
func (in *intake) ownRecord(from string, incarnation uint32, meta *[]byte) bool {
	if err := in.m.cfg.checkRecord(in.self, incarnation, *meta); err != nil {
		in.m.refusals.note(from, forged, "of this peer itself: "+err.Error())
		return false
	}
	*meta = in.m.cfg.wordsOf(*meta)
	return true
}

// highest is the incarnation a member is known to have; false if it is not known.
func (in *intake) highest(peer string) (uint32, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	k, ok := in.known[peer]
	return k.incarnation, ok
}

// state tells whether memberlist may see an entry of another's list of all members.
func (in *intake) state(ctx context.Context, from string, s *stateBody) bool {
	if s.State == memberlist.StateAlive || s.Name == in.self && s.Incarnation > in.m.seal.newest() {
		a := aliveBody{Incarnation: s.Incarnation, Node: s.Name, Addr: s.Addr, Port: s.Port, Meta: s.Meta, Vsn: s.Vsn}
		ok := in.alive(ctx, from, &a)
		s.Meta = a.Meta
		return ok
	}
	a := claim{dead: s.State != memberlist.StateSuspect, accuseBody: accuseBody{Incarnation: s.Incarnation, Node: s.Name, From: from}}
	if s.State == memberlist.StateLeft {
		a.From = s.Name
	}
	s.Meta = in.m.cfg.wordsOf(s.Meta) // of this peer itself; of others memberlist takes the state only
	return in.m.claimedGone(from, a)
}

// sendAlive tells one peer of a member, as gossip would.
func (m *Membership) sendAlive(peer string, a aliveBody) {
	m.mu.Lock()
	t := m.transport
	m.mu.Unlock()
	if t != nil {
		t.write(encodeMessage(aliveMsg, a), peer)
	}
}
