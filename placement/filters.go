package placement

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// A filter narrows how many tasks a peer may get; one that leaves none refuses the peer and is
// counted, together with which of several things it missed: a constraint, a named count. The order
// is the order in which reasons are looked for and shown: what would stand in the way of an idle
// peer too comes before what passes by itself, so that nobody waits for a peer that will never do.
type filter struct {
	narrow func(*ask, *candidate) (missed int)
	say    func(a *ask, missed int, on string) string // on is "2 peers"
}

// lasting are the filters that refuse a peer even if it is idle.
func lasting() []filter {
	return []filter{
		{ready, plain("%s not ready")},
		{available, plain("%s not available for new tasks")},
		{never, func(a *ask, missed int, on string) string {
			return fmt.Sprintf("insufficient %s on %s", a.resource(missed), on)
		}},
		{stores, plain("no room for what its tasks leave on %s")},
		{constrained, func(a *ask, missed int, on string) string {
			return fmt.Sprintf("constraint %s not met by %s", a.Constraints[missed], on)
		}},
		{barred, func(a *ask, missed int, on string) string {
			bar := a.bars[missed]
			if bar.peers == 1 {
				on = bar.first // so that it is known where to type what would help
			}
			return fmt.Sprintf("not allowed by the policy of %s: %s", on, bar.text)
		}},
	}
}

// filters are all of them, and the positions of two that admit treats apart.
func filters() (all []filter, busyAt, faultyAt int) {
	all = lasting()
	busyAt, faultyAt = len(all), len(all)+3
	return append(all,
		filter{busy, func(a *ask, missed int, on string) string {
			return fmt.Sprintf("no free %s on %s", a.resource(missed), on)
		}},
		filter{capped, plain("max_per_peer reached on %s")},
		filter{held, plain("all that their policy lets this key have is taken on %s")},
		filter{func(*ask, *candidate) int { return 0 }, plain("failed too often on %s")},
		filter{full, plain("queue full on %s")},
	), busyAt, faultyAt
}

func plain(format string) func(*ask, int, string) string {
	return func(_ *ask, _ int, on string) string { return fmt.Sprintf(format, on) }
}

func ready(_ *ask, c *candidate) int { return c.demand(c.Ready) }

func available(_ *ask, c *candidate) int { return c.demand(c.Available) }

// never refuses a peer that could not run such a task even if it were idle.
func never(a *ask, c *candidate) int {
	n, missed := a.howMany(c.Offer)
	c.demand(n > 0)
	return missed
}

// stores refuses a peer that would run the tasks and could not keep what they leave.
func stores(_ *ask, c *candidate) int { return c.demand(!c.NoFiles) }

func constrained(a *ask, c *candidate) int {
	broken := a.broken(c)
	c.demand(broken < 0)
	return broken
}

// barred refuses a peer whose owner does not let the job in. Reasons that are alike count together.
func barred(a *ask, c *candidate) int {
	if c.Barred == "" {
		return 0
	}
	c.keep(0)
	at := slices.IndexFunc(a.bars, func(b bar) bool { return b.text == c.Barred })
	if at < 0 {
		at = len(a.bars)
		a.bars = append(a.bars, bar{text: c.Barred, first: c.ID})
	}
	a.bars[at].peers++
	return at
}

func held(_ *ask, c *candidate) int {
	if c.Held {
		c.keep(max(c.HeldTo, 0))
	}
	return 0
}

func capped(a *ask, c *candidate) int {
	if a.MaxPerPeer > 0 {
		c.keep(max(a.MaxPerPeer-c.OfJob, 0))
	}
	return 0
}

// busy keeps what fits into the free resources, and what may queue beyond.
func busy(a *ask, c *candidate) int {
	fits, missed := a.howMany(c.Free)
	c.fits = min(c.fits, max(fits, 0))
	if fits < math.MaxInt32 {
		c.room = min(c.room, max(fits+max(c.Ahead, 0), 0))
	}
	return missed
}

func full(_ *ask, c *candidate) int {
	c.keep(max(c.Room, 0))
	return 0
}

func (c *candidate) keep(n int) { c.fits, c.room = min(c.fits, n), min(c.room, n) }

// demand refuses the candidate unless something is so.
func (c *candidate) demand(ok bool) int {
	if !ok {
		c.keep(0)
	}
	return 0
}

// admit runs the filters over the peers. Those where the job failed too often stand aside until it
// is known whether there is another one. One that is only busy or full counts: where tasks fail at
// once there is always room, and all would end there. One that has reached max_per_peer does not:
// waiting for it may be for ever.
func (a *ask) admit(peers []Peer) ([]candidate, refusals) {
	fs, busyAt, faultyAt := filters()
	ref := refusals{counts: make([][]int, len(fs))}
	cands := make([]candidate, 0, len(peers)) // judged in place: a candidate that is refused makes room for the next
	var faulty []candidate
	sound := false
	for i := range peers {
		if a.Only != "" && peers[i].ID != a.Only {
			continue
		}
		ref.considered++
		cands = append(cands, candidate{Peer: &peers[i], at: i, fits: math.MaxInt32, room: math.MaxInt32})
		c := &cands[len(cands)-1]
		passed := false
		switch at := ref.pass(a, fs, 0, faultyAt, c); {
		case c.Faulty && at == faultyAt:
			faulty = append(faulty, *c)
		case at == faultyAt:
			sound = true
			passed = ref.pass(a, fs, faultyAt, len(fs), c) == len(fs)
		case at == busyAt && !c.Faulty && (a.MaxPerPeer == 0 || c.OfJob < a.MaxPerPeer):
			sound = true
		}
		if !passed {
			cands = cands[:len(cands)-1]
		}
	}
	for i := range faulty {
		if sound {
			ref.count(faultyAt, 0)
		} else if ref.pass(a, fs, faultyAt, len(fs), &faulty[i]) == len(fs) {
			cands = append(cands, faulty[i])
		}
	}
	return cands, ref
}

// refusals counts the peers that filters refused: per filter and what was missed.
type refusals struct {
	counts     [][]int
	considered int // peers there were at all
}

// pass runs some of the filters, counts the one that refuses and tells which it was; to if none
// did.
func (r *refusals) pass(a *ask, fs []filter, from, to int, c *candidate) int {
	for f := from; f < to; f++ {
		if missed := fs[f].narrow(a, c); c.room == 0 {
			r.count(f, missed)
			return f
		}
	}
	return to
}

func (r *refusals) count(f, missed int) {
	for len(r.counts[f]) <= missed {
		r.counts[f] = append(r.counts[f], 0)
	}
	r.counts[f][missed]++
}

// list words what was counted.
func (r *refusals) list(a *ask) []Refusal {
	var out []Refusal
	fs, _, _ := filters()
	for f, missed := range r.counts {
		for m, n := range missed {
			if n > 0 {
				out = append(out, Refusal{Text: fs[f].say(a, m, count(n)), Peers: n})
			}
		}
	}
	return out
}

// reason words why a plan came up short. Peers that took tasks until they were full stand beside
// those that were refused.
func reason(a *ask, refused []Refusal, suitable, considered int) string {
	parts := make([]string, 0, len(refused)+1)
	if suitable > 0 {
		parts = append(parts, "no more room on "+count(suitable))
	}
	for _, r := range refused {
		parts = append(parts, r.Text)
	}
	switch why := strings.Join(parts, "; "); {
	case suitable > 0:
		return why
	case considered > 0:
		return "no suitable peer (" + why + ")"
	case a.Only != "":
		return "no suitable peer (the only one it may run on is not here)"
	}
	return "no suitable peer (no peers)"
}

func count(peers int) string {
	if peers == 1 {
		return "1 peer"
	}
	return fmt.Sprintf("%d peers", peers)
}
