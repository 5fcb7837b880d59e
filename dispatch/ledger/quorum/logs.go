package quorum

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"

	"github.com/hashicorp/raft"
)

// logPoint is an entry of a voter's log. Raft takes entries of one index and one term for the same.
// They are not where a voter whose disk was put back unnoticed votes a second time in a term: then
// that term has two coordinators, and logs that raft believes to be equal hold different decisions.
// So voters show each other a point of their logs before a vote or an entry passes between them,
// and hold entries that a leader sends against those they have.
type logPoint struct {
	Index uint64 `cbor:"1,keyasint"`
	Term  uint64 `cbor:"2,keyasint"`
	Sum   []byte `cbor:"3,keyasint"` // SHA-256 of the entry and of when its leader appended it
}

// contradicts reports whether two voters have different entries which raft takes for the same.
func (p *logPoint) contradicts(o *logPoint) bool {
	return p != nil && o != nil && p.Index == o.Index && p.Term == o.Term && string(p.Sum) != string(o.Sum)
}

// name is what tells the entry from all others.
func (p *logPoint) name() [sha256.Size]byte {
	return sha256.Sum256(append(binary.BigEndian.AppendUint64(nil, p.Term), p.Sum...))
}

// point is the newest entry of the log that is not after an index, nil if it is not there any more.
func (s *seat) point(index uint64) *logPoint {
	var l raft.Log
	last, err := s.store.LastIndex()
	if index = min(index, last); err != nil || index == 0 || s.store.GetLog(index, &l) != nil {
		return nil
	}
	return &logPoint{Index: l.Index, Term: l.Term, Sum: entrySum(&l)}
}

// entrySum tells an entry from another one of its index and term. All entries with which a term
// begins are alike but for their time.
func entrySum(l *raft.Log) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(l.Type))
	b = binary.BigEndian.AppendUint64(b, uint64(l.AppendedAt.UnixNano()))
	sum := sha256.Sum256(append(b, l.Data...))
	return sum[:]
}

// against returns an error if a point of another voter's log contradicts this one's, and has the
// voters asked which is right.
func (s *seat) against(o *logPoint, found func(index uint64)) error {
	if o == nil {
		return nil
	}
	own := s.point(o.Index)
	if !own.contradicts(o) {
		return nil
	}
	found(own.Index)
	return fmt.Errorf("the voters' logs have different entries %d of term %d: an old copy of a disk voted in it again", own.Index, own.Term)
}

// againstEntries is against for entries that a leader sends. A stream may be older than they are.
func (s *seat) againstEntries(entries []*raft.Log) error {
	last, err := s.store.LastIndex()
	if err != nil {
		return err
	}
	for _, l := range entries {
		if l.Index > last {
			break
		}
		if err := s.stream.check(&logPoint{Index: l.Index, Term: l.Term, Sum: entrySum(l)}); err != nil {
			return err
		}
	}
	return nil
}

// differsIn notes that another voter's log has another entry: of the same term, or in place of one
// that was decided.
func (c *comparison) differsIn(index uint64) {
	select {
	case c.logs <- index:
	default:
	}
}

// investigateLogs asks the voters which entry is right. It returns what a person should know. A
// seat that was taken since has another log, about which nothing was noted.
func (c *comparison) investigateLogs(ctx context.Context, index uint64) string {
	own := c.point(index)
	if own == nil || own.Index != index {
		c.setSplit("", 0) // another seat's log, or one that begins later
		return ""
	}
	voters := slices.DeleteFunc(c.voters(), func(v Voter) bool { return !v.Voting })
	have := c.askVoters(ctx, voters, own.name(), voterAsk{Log: own}, func(a voterAnswer) (name [sha256.Size]byte, ok bool) {
		if a.Log == nil || a.Log.Index != own.Index {
			return name, false
		}
		return a.Log.name(), true
	})
	sum, ok, sums := rightSum(have, len(voters))
	said := ""
	switch {
	case !ok && sums > 1:
		said = fmt.Sprintf("the voters' logs have different entries %d, for the disk of one was put back to an old copy, and no majority of them agrees. "+
			"Start `peer up` at the voters that are away; if none is, or that is impossible for good, type `peer recover`", own.Index)
		c.setSplit(said, index)
	case ok && sum != own.name() && reflect.DeepEqual(own, c.point(index)):
		said = fmt.Sprintf("this voter's log has another entry %d than those of the majority: the disk of a voter was put back to an old copy, and what was decided before with that one is only here",
			own.Index)
		c.found(said)
	case ok:
		c.setSplit("", 0)
	}
	return said
}

// point is that of the log of this peer's seat, nil if it has none.
func (p *ownSeat) point(index uint64) *logPoint {
	s := p.seat.Load()
	if s == nil {
		return nil
	}
	return s.point(index)
}
