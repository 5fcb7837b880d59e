package membership

import (
	"bytes"
	"errors"
	"sync"

	"github.com/coveyproject/covey/p2p/wire"
)

// A member's record is what it says about itself, and its memberlist incarnation, under its own
// signature. Others pass it on and can change nothing of it: neither give a member another name or
// address, nor an incarnation it never had. Without the latter, somebody else could say that a
// member has the highest incarnation there is, and nothing it says would count any more.
//
// memberlist chooses the incarnation after it has asked for the words, so records are signed on
// their way out (transport) and opened where a member's words are read. In between, at other peers,
// they are memberlist's Meta.

const recordDomain = "covey/member/1\x00"

// maxSeal is what a signature and its length take of a record, in bytes.
const maxSeal = 65

// maxWords caps what a member says about itself, in bytes, so that the record fits memberlist's
// Meta.
const maxWords = maxMeta - maxSeal

type recordSigned struct {
	_           struct{} `cbor:",toarray"`
	Peer        string
	Incarnation uint32
	Words       []byte
}

func recordBytes(peer string, incarnation uint32, words []byte) ([]byte, error) {
	b, err := wire.Marshal(recordSigned{Peer: peer, Incarnation: incarnation, Words: words})
	return append([]byte(recordDomain), b...), err
}

// wordsOf takes the signature off a record.
func (c *Config) wordsOf(record []byte) []byte {
	if c.Verify == nil {
		return record
	}
	if n := len(record) - 1; n >= 0 && int(record[n]) <= n {
		return record[:n-int(record[n])]
	}
	return nil
}

// checkRecord tells whether a member signed this record as that incarnation's.
func (c *Config) checkRecord(peer string, incarnation uint32, record []byte) error {
	if c.Verify == nil {
		return nil
	}
	words := c.wordsOf(record)
	if words == nil {
		return errors.New("a record without a signature")
	}
	b, err := recordBytes(peer, incarnation, words)
	if err != nil {
		return err
	}
	return c.Verify(peer, b, record[len(words):len(record)-1])
}

// sealer signs this peer's own records; it remembers the newest.
type sealer struct {
	sign func([]byte) ([]byte, error)
	self string

	mu          sync.Mutex
	incarnation uint32 // the highest that was sent to others
	words       []byte
	record      []byte
}

func (s *sealer) seal(incarnation uint32, words []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.record != nil && s.incarnation == incarnation && bytes.Equal(s.words, words) {
		return s.record
	}
	record := words
	if s.sign != nil {
		b, err := recordBytes(s.self, incarnation, words)
		if err != nil {
			return nil
		}
		sig, err := s.sign(b)
		if err != nil || len(sig) >= maxSeal {
			return nil
		}
		record = append(append(bytes.Clone(words), sig...), byte(len(sig)))
	}
	if incarnation >= s.incarnation {
		s.incarnation, s.words, s.record = incarnation, bytes.Clone(words), record
	}
	return record
}

// newest is the highest incarnation others were told.
func (s *sealer) newest() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.incarnation
}

// outgoing is a packet to others with this peer's own records signed.
func (s *sealer) outgoing(packet []byte) []byte {
	own := false
	var msgs [][]byte
	_ = split(packet, func(msg []byte) bool {
		var a aliveBody
		if msg[0] == aliveMsg && decodeBody(msg[1:], &a) == nil && a.Node == s.self {
			if a.Meta = s.seal(a.Incarnation, a.Meta); a.Meta == nil {
				return true // left out: the next probe takes it along
			}
			own, msg = true, encodeMessage(aliveMsg, a)
		}
		msgs = append(msgs, msg)
		return true
	})
	if !own {
		return packet
	}
	return pack(msgs)
}
