package quorum

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/internal/pause"
	"github.com/coveyproject/covey/taskstate"
)

const (
	// maxSkew is how far above the lower median of the voters' clocks a coordinator stamps, and how
	// far its own clock may be above that before it hands leadership on.
	maxSkew = 5 * time.Minute
	// lagging is how far a clock may be behind the ledger's time and still be counted. It is twice
	// maxSkew: a stamp can be maxSkew above a right clock, and right clocks differ.
	lagging = 2 * maxSkew
	// clockLook is how often a coordinator compares its clock with the other voters'.
	clockLook = time.Second
	// clockOld is the age from which a coordinator asks for a reading again.
	clockOld = 10 * time.Second
	// clockJump is how far the own clock may move against the monotonic one between two looks. From
	// there on it was set, or the machine slept, and all readings are old.
	clockJump = 10 * time.Second
)

// stampLimit returns the highest stamp that a coordinator may give, in milliseconds since 1970:
// maxSkew above the lower median of the clocks that count. clocks are those of the voters as far as
// they are known, the own one among them; voters is how many voters there are; newest is the
// ledger's time. A clock that lags behind the ledger does not count: its machine may have no
// battery for it. ok is false where no majority can outvote a clock: with one or two voters, and
// where fewer than two clocks count.
func stampLimit(clocks []int64, voters int, newest int64) (limit int64, ok bool) {
	counted := slices.DeleteFunc(slices.Clone(clocks), func(c int64) bool { return c < newest-lagging.Milliseconds() })
	if voters <= 2 || len(counted) < 2 {
		return 0, false
	}
	return lowerMedian(counted) + maxSkew.Milliseconds(), true
}

// lowerMedian returns the median of at least one clock, the lower one of two.
func lowerMedian(clocks []int64) int64 {
	sorted := slices.Sorted(slices.Values(clocks))
	return sorted[(len(sorted)-1)/2]
}

// clockReading is what a voter's clock showed, and when that was heard here.
type clockReading struct {
	wall  int64 // milliseconds since 1970
	heard time.Time
}

// at is what that clock shows at now.
func (r clockReading) at(now time.Time) int64 { return r.wall + now.Sub(r.heard).Milliseconds() }

// clockTable remembers the newest reading of each other voter's clock. Voters tell each other what
// their clocks show with each question and answer. It is safe for concurrent use.
type clockTable struct {
	cfg    *Config
	voters func() []Voter

	mu       sync.Mutex
	readings map[taskstate.PeerID]clockReading
}

// own is what this machine's clock shows, in milliseconds since 1970.
func (c *clockTable) own() int64 { return c.cfg.Now().UnixMilli() }

// hear notes what a voter's clock shows; 0 is from a peer that does not tell. Readings of peers
// that vote no longer are dropped.
func (c *clockTable) hear(peer taskstate.PeerID, wall int64) {
	voters := peersOf(c.voters())
	if wall == 0 || peer == c.cfg.Self || !slices.Contains(voters, peer) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.readings == nil {
		c.readings = map[taskstate.PeerID]clockReading{}
	}
	maps.DeleteFunc(c.readings, func(p taskstate.PeerID, _ clockReading) bool { return !slices.Contains(voters, p) })
	c.readings[peer] = clockReading{wall: wall, heard: time.Now()}
}

// known returns what the voters' clocks show now, as far as that was heard, this peer's first, and
// how many voters there are.
func (c *clockTable) known() (clocks []int64, voters int) {
	clocks = []int64{c.own()}
	now := time.Now()
	for _, v := range c.voters() {
		if !v.Voting {
			continue
		}
		voters++
		if r, ok := c.reading(v.Peer); ok {
			clocks = append(clocks, r.at(now))
		}
	}
	return clocks, voters
}

func (c *clockTable) reading(peer taskstate.PeerID) (r clockReading, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok = c.readings[peer]
	return r, ok
}

// limit is stampLimit for what is known now, and what the own clock shows.
func (c *clockTable) limit(newest int64) (own, limit int64, ok bool) {
	clocks, voters := c.known()
	limit, ok = stampLimit(clocks, voters, newest)
	return clocks[0], limit, ok
}

// Clock is what this machine's clock shows, in milliseconds since 1970; while this peer
// coordinates, at most what the other voters' clocks let it stamp. newest is the ledger's time.
func (n *Node) Clock(newest int64) int64 {
	if n.terms.lead.Load() == nil {
		return n.clocks.own()
	}
	return n.clocks.held(newest)
}

// Clocks is what most voters' clocks show, in milliseconds since 1970: the lower median of those
// that are known here, this peer's own among them.
func (n *Node) Clocks() int64 {
	clocks, _ := n.clocks.known()
	return lowerMedian(clocks)
}

// held is what the own clock shows, at most the limit.
func (c *clockTable) held(newest int64) int64 {
	own, limit, ok := c.limit(newest)
	if ok {
		return min(own, limit)
	}
	return own
}

// timekeeper holds a coordinator's clock against those of the other voters, in one term.
type timekeeper struct {
	log    *slog.Logger
	clocks *clockTable
	ask    func(context.Context, taskstate.PeerID, voterAsk, time.Duration) (voterAnswer, error)

	last clockReading // of the own clock, at the last look
}

// stamp is what the next entry is stamped with: by this machine's clock, held at the limit.
func (t *timekeeper) stamp(stamps *ledger.Stamps) int64 {
	now := time.Now()
	return stamps.At(t.clocks.held(stamps.Time(now)), now)
}

// watch compares this machine's clock with the other voters' while this peer coordinates, and has
// leadership handed on while it is beyond the limit. Until that has come about, stamps stay at the
// limit. newest is the ledger's time.
func (t *timekeeper) watch(ctx context.Context, newest func() int64, handOn func(context.Context, []Voter) error) {
	for pause.For(ctx, clockLook) == nil {
		ahead, right := t.look(ctx, newest)
		if len(right) == 0 {
			continue
		}
		t.log.Warn("the clock of this machine is ahead of those of most voters: another voter is to coordinate", "ahead", ahead)
		if err := handOn(ctx, right); err != nil && ctx.Err() == nil {
			t.log.Info("no other voter coordinates yet", "err", err)
		}
	}
}

// look asks the voters whose readings are old. If the own clock is beyond the limit, it returns how
// far it is ahead of the lower median, and the voters whose clocks are not.
func (t *timekeeper) look(ctx context.Context, newest func() int64) (ahead time.Duration, right []Voter) {
	began := time.Now()
	since, own := began.Add(-clockOld), clockReading{wall: t.clocks.own(), heard: began}
	if moved := own.wall - t.last.at(began); max(moved, -moved) > clockJump.Milliseconds() {
		since = began
	}
	t.last = own
	voters := slices.DeleteFunc(t.clocks.voters(), func(v Voter) bool { return !v.Voting || v.Peer == t.clocks.cfg.Self })
	var wg sync.WaitGroup
	for _, v := range voters {
		if r, _ := t.clocks.reading(v.Peer); r.heard.Before(since) {
			wg.Go(func() { _, _ = t.ask(ctx, v.Peer, voterAsk{}, voterTimeout) }) // a voter that is away is asked again at the next look
		}
	}
	wg.Wait()
	now, limit, ok := t.clocks.limit(newest())
	if !ok || now <= limit {
		return 0, nil
	}
	right = slices.DeleteFunc(voters, func(v Voter) bool {
		r, _ := t.clocks.reading(v.Peer)
		return r.heard.Before(since) || r.at(time.Now()) > limit
	})
	return time.Duration(now-limit)*time.Millisecond + maxSkew, right
}

// handOn makes the first of some voters that takes it the leader.
func (s *seat) handOn(ctx context.Context, voters []Voter) (err error) {
	for _, v := range voters {
		if err = s.transfer(ctx, v); err == nil || ctx.Err() != nil {
			break
		}
	}
	return err
}
