package testnet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// hurt is one thing done to the cluster and undone after a while. Whom it hits is said by role: the
// coordinator of that moment, or others by their place in a shuffled list, so that the plan needs
// no knowledge of the run.
type hurt struct {
	What  string        // kill pause halt cut slow
	Boss  bool          // the coordinator is among the victims
	Other int           // how many others
	Hold  time.Duration // until it is undone
	Rate  int64         // bytes per second, of slow
	Order []int         // peer numbers in the order in which others are picked
}

func (h hurt) String() string {
	who := fmt.Sprintf("%d others", h.Other)
	if h.Boss {
		who = fmt.Sprintf("the coordinator and %d others", h.Other)
	}
	return fmt.Sprintf("%s %s for %s", h.What, who, h.Hold)
}

type act struct {
	Hurts []hurt
	Gap   time.Duration // between the two
	Rest  time.Duration // afterwards
}

// kinds of hurts with their weights: single losses are the rule, more than a majority survives is
// the exception.
var hurtKinds = [...]struct {
	weight int
	what   string
	boss   bool
	other  int
}{
	{16, "kill", true, 0},
	{14, "kill", false, 1},
	{8, "kill", true, 1},
	{6, "kill", false, 2},
	{4, "kill", true, 2}, // no majority until they are back
	{3, "kill", true, 4}, // a power cut for all
	{8, "pause", true, 0},
	{8, "pause", false, 1},
	{5, "pause", false, 2},
	{8, "halt", true, 0},
	{6, "halt", false, 1},
	{8, "cut", true, 0}, // the coordinator alone on one side
	{8, "cut", false, 2},
	{6, "cut", true, 1},
	{4, "cut", true, 2}, // the coordinator is with the majority
	{5, "slow", true, 0},
	{5, "slow", false, 2},
}

// soakRests is the longest time left alone between two acts; hurts last at most soakHold.
const (
	soakHold = 10 * time.Second
	soakRest = 6 * time.Second
)

// soakPlan draws what will be done for about so long. The same seed gives the same plan.
func soakPlan(seed uint64, peers int, length time.Duration) []act {
	r := rand.New(rand.NewPCG(seed, 1))
	var plan []act
	for at := time.Duration(0); at < length; {
		a := act{Rest: between(r, time.Second, soakRest)}
		for range 1 + r.IntN(4)/3 { // one time in four, two
			a.Hurts = append(a.Hurts, drawHurt(r, peers))
		}
		a.Gap = between(r, 0, 3*time.Second)
		plan = append(plan, a)
		at += a.length()
	}
	return plan
}

// length is how long an act takes by itself, without the time that its orders take.
func (a act) length() time.Duration {
	longest := time.Duration(0)
	for i, h := range a.Hurts {
		longest = max(longest, time.Duration(i)*a.Gap+h.Hold)
	}
	return longest + a.Rest
}

// soakRates are lines that a peer can work over: a bad one by radio, a home's, a good one's.
var soakRates = [...]int64{1e6 / 8, 10e6 / 8, 50e6 / 8}

func drawHurt(r *rand.Rand, peers int) hurt {
	total := 0
	for _, k := range hurtKinds {
		total += k.weight
	}
	i, x := 0, r.IntN(total)
	for x >= hurtKinds[i].weight {
		x -= hurtKinds[i].weight
		i++
	}
	k := hurtKinds[i]
	order := r.Perm(peers)
	for i := range order {
		order[i]++
	}
	h := hurt{What: k.what, Boss: k.boss, Other: min(k.other, peers-1), Hold: between(r, 200*time.Millisecond, soakHold), Order: order}
	if h.What == "slow" {
		h.Rate = soakRates[r.IntN(len(soakRates))]
	}
	return h
}

func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return (low + time.Duration(r.Int64N(int64(high-low)))).Round(10 * time.Millisecond)
}

// victims are the peers a hurt hits, given who coordinates (0: nobody, then another stands in).
func (h hurt) victims(boss int) []int {
	var out []int
	if h.Boss && boss > 0 {
		out = append(out, boss)
	}
	want := h.Other
	if h.Boss && boss == 0 {
		want++
	}
	for _, k := range h.Order {
		if k != boss && want > 0 {
			out = append(out, k)
			want--
		}
	}
	slices.Sort(out)
	return out
}
