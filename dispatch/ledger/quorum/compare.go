package quorum

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/taskstate"
)

// comparison is how replicas are held against each other. Who follows somebody compares its chain
// with the one in each bookmark. Where they differ it asks all voters: what a majority of them came
// to is right. Who has something else says so, gives up its seat if it has one – a leader leads no
// more – and fetches a snapshot. Without a majority it is only said. Who is asked by somebody with
// another chain asks the voters as well, so that a leader that is wrong hears of it.
type comparison struct {
	self   taskstate.PeerID
	log    *slog.Logger
	rep    *ledger.Replica
	voters func() []Voter
	ask    func(context.Context, taskstate.PeerID, voterAsk, time.Duration) (voterAnswer, error)
	found  func(said string) // called when the replica, or the log of the own seat, is found to be wrong
	point  func(index uint64) *logPoint

	due  chan uint64 // of one: another peer has another chain after this entry
	logs chan uint64 // of one: another voter's log contradicts this entry of the own one

	mu        sync.Mutex
	distrust  uint64                     // the replica is wrong, after this entry at the latest; 0: not known to be
	complaint string                     // what is wrong with copies, for people; "" after it was made good
	split     string                     // the same of the voters' logs; see splits
	splitAt   uint64                     // the entry that it is about
	further   map[taskstate.PeerID]claim // followers that say they have more than this leader
	shorter   claim                      // a leader has less than this peer; zero: none has
}

// claim is a copy of the ledger that goes further than a leader's.
type claim struct {
	leader       taskstate.PeerID // "": this peer
	theirs, ours uint64           // the ends of the follower's copy, and of this peer's
	at           time.Time        // when it was said last
}

const (
	claimLasts = 30 * time.Second // who follows asks again sooner than that
	maxClaims  = 16
)

// claims notes that a follower has more than this leader, by its own word.
func (c *comparison) claims(follower taskstate.PeerID, theirs, ours uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.further, func(_ taskstate.PeerID, x claim) bool { return time.Since(x.at) >= claimLasts })
	if c.further == nil {
		c.further = map[taskstate.PeerID]claim{}
	}
	if _, known := c.further[follower]; known || len(c.further) < maxClaims {
		c.further[follower] = claim{theirs: theirs, ours: ours, at: time.Now()}
	}
}

// agrees notes that a follower has no more than this leader.
func (c *comparison) agrees(follower taskstate.PeerID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.further, follower)
}

// refusedBy notes that a leader has less than this peer; with "" that one is followed that has not.
func (c *comparison) refusedBy(leader taskstate.PeerID, ours uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shorter = (claim{}); leader != "" {
		c.shorter = claim{leader: leader, ours: ours, at: time.Now()}
	}
}

// furthest is the copy that goes furthest beyond what is decided on, as far as is known now, and
// whose it is; "" if there is none. The caller holds mu.
func (c *comparison) furthest() (whose taskstate.PeerID, most claim) {
	if time.Since(c.shorter.at) < claimLasts && c.shorter.leader != "" {
		return c.self, c.shorter
	}
	for _, peer := range slices.Sorted(maps.Keys(c.further)) {
		if x := c.further[peer]; time.Since(x.at) < claimLasts && x.theirs > most.theirs {
			whose, most = peer, x
		}
	}
	return whose, most
}

const (
	compareRest  = 2 * time.Second // between two questions to all voters
	compareAgain = time.Minute     // between two complaints that nobody can be said to be right
	disputeLook  = 5 * time.Second // until it is asked again whether a complaint still holds
)

var errDiffers = errors.New("this peer's copy of the ledger is wrong, and another is fetched")

// differs notes that somebody has another chain.
func (c *comparison) differs(index uint64) {
	select {
	case c.due <- index:
	default:
	}
}

func (c *comparison) wrong() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.distrust > 0
}

func (c *comparison) set(distrust uint64, said string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.distrust, c.complaint = distrust, said
}

// setSplit notes what is wrong with the voters' logs, of which an entry tells, or with "" that
// nothing is known to be.
func (c *comparison) setSplit(said string, at uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.split, c.splitAt = said, at
}

// splits reports whether the voters' logs contradict each other and no majority is right: then no
// vote passes between those that differ.
func (c *comparison) splits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.split != ""
}

// said is what is wrong, for people; called are the names of peers.
func (c *comparison) said(called func(taskstate.PeerID) string) string {
	c.mu.Lock()
	complaint := cmp.Or(c.split, c.complaint)
	whose, x := c.furthest()
	c.mu.Unlock() // names are looked up in the ledger
	switch {
	case complaint != "" || whose == "":
		return complaint
	case x.leader != "":
		return fmt.Sprintf("this peer's copy of the ledger goes on to entry %d, and that of the coordinator, %s, ends before it: its disk was turned back, and the copy here is kept. "+
			"To go on from this copy stop the peers that vote now, with `peer down` there; then type `peer recover` here", x.ours, called(x.leader))
	}
	return fmt.Sprintf("%s says that its copy of the ledger goes on to entry %d, and this coordinator's ends at entry %d: if that is so, disks of voters were turned back, and what was decided is missing here. "+
		"To go on from that copy stop the peers that vote now, with `peer down`; then type `peer recover` there", called(whose), x.theirs, x.ours)
}

// compare holds the own chain against somebody's.
func (c *comparison) compare(m *ledger.ChainMark) {
	if m == nil {
		return
	}
	if own, ok := c.rep.ChainAt(m.Index); ok && own.From == m.From && own.Sum != m.Sum {
		c.differs(m.Index)
	}
}

// answer tells what the own chain was after an entry, if it is known and began where the
// other's did.
func (c *comparison) answer(ask *ledger.ChainMark) voterAnswer {
	own, ok := c.rep.ChainAt(ask.Index)
	if !ok || own.From != ask.From {
		return voterAnswer{}
	}
	c.compare(ask)
	return voterAnswer{Chain: &own}
}

// rightSum is what a majority of n voters has; sums is how many different ones there are.
func rightSum(have map[taskstate.PeerID][sha256.Size]byte, n int) (sum [sha256.Size]byte, ok bool, sums int) {
	votes := map[[sha256.Size]byte]int{}
	for _, s := range have {
		if votes[s]++; votes[s] >= majority(n) {
			sum, ok = s, true
		}
	}
	return sum, ok, len(votes)
}

// run looks into differences until ctx ends.
func (c *comparison) run(ctx context.Context) {
	var complained time.Time
	for {
		c.mu.Lock()
		copies, logs, at := c.complaint != "", c.split != "", c.splitAt
		c.mu.Unlock()
		var again <-chan time.Time
		if copies || logs {
			again = time.After(disputeLook)
		}
		select {
		case <-ctx.Done():
			return
		case index := <-c.due:
			c.complain(c.investigate(ctx, index), &complained)
		case index := <-c.logs:
			c.complain(c.investigateLogs(ctx, index), &complained)
		case <-again: // whoever was wrong may have given its seat up, and says no more
			if copies {
				c.complain(c.investigate(ctx, 0), &complained)
			}
			if logs {
				c.complain(c.investigateLogs(ctx, at), &complained)
			}
		}
		_ = pause.For(ctx, compareRest)
	}
}

// complain writes into the log what a person should know, if it was not done a moment ago.
func (c *comparison) complain(said string, last *time.Time) {
	if said != "" && time.Since(*last) > compareAgain {
		*last = time.Now()
		c.log.Error(said)
	}
}

// investigate asks the voters who is right, after an entry or, with 0, after the last one. It
// returns what a person should know.
func (c *comparison) investigate(ctx context.Context, index uint64) string {
	own, ok := c.rep.ChainAt(index)
	if !ok || c.wrong() {
		return ""
	}
	index = own.Index
	voters := slices.DeleteFunc(c.voters(), func(v Voter) bool { return !v.Voting })
	have := c.askVoters(ctx, voters, own.Sum, voterAsk{Chain: &own}, func(a voterAnswer) (sum [sha256.Size]byte, ok bool) {
		if a.Chain == nil || a.Chain.From != own.From || a.Chain.Index != own.Index {
			return sum, false
		}
		return a.Chain.Sum, true
	})
	sum, ok, sums := rightSum(have, len(voters))
	var others []taskstate.PeerID
	for _, v := range voters {
		if s, ok := have[v.Peer]; ok && s != sum {
			others = append(others, v.Peer)
		}
	}
	switch {
	case !ok && sums > 1:
		said := fmt.Sprintf("the voters' copies of the ledger differ after entry %d, and no majority of them agrees: which is right cannot be told", index)
		c.set(0, said)
		return said
	case !ok:
		return "" // not all have come so far
	case sum == own.Sum && len(others) > 0:
		return fmt.Sprintf("the copy of the ledger at %v differs from that of the majority of the voters after entry %d", others, index)
	case sum == own.Sum:
		c.set(0, "")
		return ""
	}
	said := fmt.Sprintf("this peer's copy of the ledger differs from that of the majority of the voters after entry %d: its disk or its memory is bad", index)
	c.set(index, said)
	c.found(said)
	return said
}

// askVoters asks voters for a sum, this one included if it votes.
func (c *comparison) askVoters(ctx context.Context, voters []Voter, own [sha256.Size]byte, q voterAsk, sumIn func(voterAnswer) ([sha256.Size]byte, bool)) map[taskstate.PeerID][sha256.Size]byte {
	have := map[taskstate.PeerID][sha256.Size]byte{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, v := range voters {
		if v.Peer == c.self {
			mu.Lock()
			have[v.Peer] = own
			mu.Unlock()
			continue
		}
		wg.Go(func() {
			a, err := c.ask(ctx, v.Peer, q, voterTimeout)
			if err != nil {
				return
			}
			if sum, ok := sumIn(a); ok {
				mu.Lock()
				have[v.Peer] = sum
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return have
}
