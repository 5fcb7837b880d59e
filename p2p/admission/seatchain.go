package admission

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"

	"github.com/coveyproject/covey/internal/atomicfile"
	"github.com/coveyproject/covey/p2p/wire"
)

// Bounds of what is believed of seats.
const (
	maxSeatChain = 64      // records kept; the oldest go
	MaxLeap      = 1 << 20 // of a generation, a term or an index beyond what is known here: no honest peer is further ahead
)

// SeatChain is what a peer knows of who holds a seat in the ledger, and how it can prove it:
// records, each signed by one who held a seat by the one before. It is learnt from the own log
// (Hold), from a peer that can prove it back to a seat known here (Offer), and to begin with from
// whom a person named (Adopt, Assume). It survives restarts. Safe for concurrent use.
type SeatChain struct {
	path   string
	signer Signer // nil: signs nothing
	verify VerifyFunc

	mu    sync.Mutex
	chain []Seats // oldest first
	now   Seats   // the newest known; its proof may be missing in chain for a moment
	dirty bool    // not on disk yet
}

type seatsFile struct {
	Chain []Seats `cbor:"1,keyasint"`
	Now   Seats   `cbor:"2,keyasint"`
}

const (
	seatsMagic   = "covey seats 1\n"
	maxSeatsFile = 1 << 20
)

// OpenSeats reads what is known of seats at path, "" for none on disk. A file that did not survive
// is as good as none, and reported with ErrDamaged *together with* an empty chain: who holds seats
// is learnt again from the peers that were followed last.
func OpenSeats(path string, signer Signer, verify VerifyFunc) (*SeatChain, error) {
	c := &SeatChain{path: path, signer: signer, verify: verify}
	if path == "" {
		return c, nil
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the record of seats: %w", err)
	}
	var b []byte
	if info.Size() <= maxSeatsFile {
		if b, err = os.ReadFile(path); err != nil {
			return nil, fmt.Errorf("open the record of seats: %w", err)
		}
	}
	f, err := decodeSeats(b)
	if err != nil {
		return c, fmt.Errorf("the seats %w (%v): who holds one is learnt again from the ledger or the next contact", ErrDamaged, err)
	}
	c.chain, c.now = f.Chain, f.Now
	return c, nil
}

func decodeSeats(b []byte) (f seatsFile, err error) {
	body, err := summed(seatsMagic, b)
	if err == nil {
		err = wire.Unmarshal(body, &f)
	}
	if err != nil {
		return seatsFile{}, err
	}
	return f, nil
}

// Save puts on disk what is new. Nothing is lost for good without it: the next start learns it
// again.
func (c *SeatChain) Save() error {
	c.mu.Lock()
	f, dirty := seatsFile{Chain: slices.Clone(c.chain), Now: c.now}, c.dirty
	c.dirty = false
	c.mu.Unlock()
	if !dirty || c.path == "" {
		return nil
	}
	body, err := wire.Marshal(f)
	if err == nil {
		err = atomicfile.Write(c.path, withSum(seatsMagic, body))
	}
	if err != nil {
		c.mu.Lock()
		c.dirty = true
		c.mu.Unlock()
		return fmt.Errorf("save the record of seats: %w", err)
	}
	return nil
}

// Now is the newest configuration known: who holds a seat, as far as this peer knows.
func (c *SeatChain) Now() Seats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Seated tells whether a peer holds a seat now, as far as this peer knows.
func (c *SeatChain) Seated(peer string) bool { return c.Now().Holds(peer) }

// WasSeated tells whether a peer holds a seat now or held one in the past this peer remembers.
func (c *SeatChain) WasSeated(peer string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now.Holds(peer) || slices.ContainsFunc(c.chain, func(s Seats) bool { return s.Holds(peer) })
}

// SeatedAt tells whether a peer held a seat when the ledger had got to an index, as far as that is
// known here.
func (c *SeatChain) SeatedAt(peer string, generation, index uint64) bool {
	at := Seats{Generation: generation, Index: index}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now.Compare(at) <= 0 {
		return c.now.Holds(peer)
	}
	for _, s := range slices.Backward(c.chain) {
		if s.Compare(at) <= 0 {
			return s.Holds(peer)
		}
	}
	return false
}

// Proof is the chain of records, oldest first: a peer that knows one of them can follow it to the
// newest.
func (c *SeatChain) Proof() []Seats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.chain)
}

// ShortProof is a chain to the newest record with as few steps as possible, of at most limit
// records, oldest first: each is the oldest by which the signer of the next held a seat.
func (c *SeatChain) ShortProof(limit int) []Seats {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Seats
	for i := len(c.chain) - 1; i >= 0 && len(out) < limit; {
		out = append(out, c.chain[i])
		by := c.chain[i].By
		j := slices.IndexFunc(c.chain[:i], func(s Seats) bool { return s.Holds(by) })
		if j < 0 {
			break
		}
		i = j
	}
	slices.Reverse(out)
	return out
}

// Assume begins with peers that a person, or a folder of an earlier version, named as those that
// hold the ledger. What is known of seats already is not touched.
func (c *SeatChain) Assume(voters []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(voters) > 0 && len(c.now.Voters) == 0 {
		c.now = Seats{Voters: slices.Clone(voters)}
	}
}

// Forget drops everything: the peer moves to another cluster.
func (c *SeatChain) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.chain, c.now, c.dirty = nil, Seats{}, true
}

// Adopt takes the records of a join's answer on the word of the peer that gave it, as Roster.Adopt
// does.
func (c *SeatChain) Adopt(cluster string, records []Seats, voters []string) error {
	for _, s := range records {
		if err := s.check(c.verify); err != nil {
			return fmt.Errorf("the answer to our joining is unsound: %w", err)
		}
		if s.Cluster != cluster {
			return fmt.Errorf("the answer to our joining is unsound: %w: seats of %s", ErrOtherGroup, s.Cluster)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now.Cluster == cluster && len(c.chain) > 0 && (len(records) == 0 || c.now.Compare(records[len(records)-1]) >= 0) {
		return nil // what is known of this cluster already is no worse
	}
	c.chain, c.now, c.dirty = capped(sorted(records)), Seats{Voters: slices.Clone(voters)}, true
	if n := len(c.chain); n > 0 {
		c.now = c.chain[n-1]
	}
	return nil
}

// Hold records a configuration that is committed in this peer's own log, and signs it if it may:
// each peer that held a seat before, and one that founds a ledger or begins it again.
func (c *SeatChain) Hold(cluster string, generation, index uint64, voters []string) {
	s := Seats{Cluster: cluster, Generation: generation, Index: index, Voters: voters}
	c.mu.Lock()
	defer c.mu.Unlock()
	if cluster == "" || len(voters) == 0 || len(voters) > maxSeats || s.Compare(c.now) <= 0 && len(c.chain) > 0 {
		return
	}
	last := Seats{}
	if n := len(c.chain); n > 0 {
		last = c.chain[n-1]
	}
	begins := len(c.chain) == 0 || generation > last.Generation
	c.now, c.dirty = s, true
	if c.signer == nil || !last.Holds(c.signer.Self()) && !(begins && slices.Contains(voters, c.signer.Self())) {
		return // the proof comes from others
	}
	if signed, err := s.SignedBy(c.signer); err == nil {
		if begins && !last.Holds(c.signer.Self()) {
			c.chain = nil // nothing leads from the old ones to this one
		}
		c.now, c.chain = signed, capped(append(c.chain, signed))
	}
}

// Offer takes records from outside, in any order, as far as they can be proved from what is known.
// may tells whether a peer may begin a new generation of the ledger though it holds no seat: nobody
// decides any more, and it recovered what it had; it must not ask the chain. nil is never. The
// error says why the newest that was offered is not believed; what could be proved counts all the
// same.
func (c *SeatChain) Offer(may func(peer string) bool, records ...Seats) error {
	if len(records) > maxSeatChain {
		return fmt.Errorf("%w: %d records at once", ErrBadSeats, len(records))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var first error
	var news []Seats
	for _, s := range records {
		switch {
		case slices.ContainsFunc(c.chain, s.equal):
			continue
		case c.now.Cluster != "" && s.Cluster != c.now.Cluster:
			first = cmpErr(first, fmt.Errorf("%w: seats of %s, this is %s", ErrOtherGroup, s.Cluster, c.now.Cluster))
			continue
		case c.tooFar(s):
			first = cmpErr(first, fmt.Errorf("%w: generation %d, index %d is beyond what any honest peer knows", ErrBadSeats, s.Generation, s.Index))
			continue
		}
		if err := s.check(c.verify); err != nil {
			first = cmpErr(first, err)
			continue
		}
		news = append(news, s)
	}
	if len(news) == 0 {
		return first
	}
	newest := slices.MaxFunc(news, Seats.Compare)
	c.merge(may, news)
	if c.now.Compare(newest) < 0 {
		first = cmpErr(first, fmt.Errorf("seats at index %d, signed by %s: %w", newest.Index, newest.By, ErrUntrusted))
	}
	return first
}

// tooFar: numbers no honest peer can say. What was merely assumed bounds nothing. The caller holds
// mu.
func (c *SeatChain) tooFar(s Seats) bool {
	known := c.now.Generation > 0
	return known && s.Generation > c.now.Generation+MaxLeap || !known && s.Generation > MaxLeap || s.Index > 1<<62
}

// Beyond tells of numbers that no honest peer can say, by what is known here.
func (c *SeatChain) Beyond(generation, index uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tooFar(Seats{Generation: generation, Index: index})
}

// merge goes on from the newest record known, as far as signatures lead, and never looks behind it:
// who held a seat once has no say in what came after. The caller holds mu.
func (c *SeatChain) merge(may func(string) bool, news []Seats) {
	news = sorted(news)
	if n := len(c.chain); n > 0 && c.chain[n-1].Compare(c.now) < 0 { // the proof of what is known already may be among them
		proof := walk(c.chain[n-1], nil, news)
		if i := slices.IndexFunc(proof, func(s Seats) bool { return s.Compare(c.now) == 0 && slices.Equal(s.Voters, c.now.Voters) }); i >= 0 {
			c.chain, c.now, c.dirty = append(c.chain, proof[:i+1]...), proof[i], true
		}
	}
	next := walk(c.now, may, news)
	if len(next) > 0 {
		if n := len(c.chain); n == 0 || c.chain[n-1].Compare(c.now) != 0 || !c.chain[n-1].Holds(next[0].By) {
			c.chain = nil // nothing leads from there to here that others could check
		}
		c.chain, c.now, c.dirty = append(c.chain, next...), next[len(next)-1], true
	}
	c.chain = capped(c.chain)
}

// walk lists the records that lead on from one, each signed by a holder of a seat by the one
// before.
func walk(at Seats, may func(string) bool, all []Seats) (out []Seats) {
	for _, s := range all {
		begins := s.Generation > at.Generation && at.Generation > 0
		switch {
		case s.Compare(at) <= 0:
			continue
		case at.Holds(s.By) && (!begins || s.Holds(s.By)):
		case begins && s.Holds(s.By) && may != nil && may(s.By):
		default:
			continue
		}
		at = s
		out = append(out, s)
	}
	return out
}

func sorted(records []Seats) []Seats {
	slices.SortStableFunc(records, Seats.Compare)
	return records
}

func capped(chain []Seats) []Seats { return chain[max(0, len(chain)-maxSeatChain):] }

func cmpErr(first, err error) error {
	if first != nil {
		return first
	}
	return err
}
