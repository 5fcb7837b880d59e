package membership

import (
	"bytes"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coveyproject/covey/p2p/memnet"
	"github.com/coveyproject/covey/taskstate"

	"github.com/hashicorp/memberlist"
	"pgregory.net/rapid"
)

// gate says who is admitted, and may change its mind.
type gate map[string]bool

// quiet is a membership that nobody has given a life: what memberlist would tell it is told by the
// test.
func quiet(t *testing.T, open gate, tweak ...func(*Config)) *Membership {
	t.Helper()
	h := memnet.New().Host("self")
	cfg := Config{
		Net: h, Host: h, Name: "me", Incarnation: "inc", Version: "1.0", Addrs: func() []string { return []string{"/mem/self"} },
		Admitted: func(id string) bool { return open[id] },
	}
	for _, f := range tweak {
		f(&cfg)
	}
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// node is a member as memberlist has it.
func node(id string, state memberlist.NodeStateType, words meta) *memberlist.Node {
	return &memberlist.Node{Name: id, State: state, Meta: words.encode()}
}

func TestAStrangerIsTurnedAwayAndTriedOnceItIsAdmitted(t *testing.T) {
	open := gate{"friend": true}
	m := quiet(t, open)
	d := delegate{m}
	if err := d.NotifyAlive(node("friend", memberlist.StateAlive, meta{})); err != nil {
		t.Errorf("who is admitted: %v", err)
	}
	if err := d.NotifyAlive(&memberlist.Node{Name: "self", Meta: []byte("nonsense")}); err != nil {
		t.Errorf("this peer itself: %v", err)
	}
	if err := d.NotifyAlive(&memberlist.Node{Name: "friend", Meta: []byte("nonsense")}); err == nil || !strings.Contains(err.Error(), "member's meta") {
		t.Errorf("who does not speak our words: %v", err)
	}
	if err := d.NotifyAlive(node("stranger", memberlist.StateAlive, meta{Addrs: []string{"/mem/stranger"}})); err == nil || !strings.Contains(err.Error(), "stranger is not admitted") {
		t.Errorf("a stranger: %v", err)
	}
	m.Recheck()
	if len(m.reach.kicks) != 0 || len(m.Peers()) != 0 {
		t.Fatalf("a stranger is tried: %v", m.Peers())
	}
	open["stranger"] = true
	m.Recheck()
	if who := <-m.reach.kicks; who != "stranger" || len(m.Peers()) != 1 || !slices.Equal(m.Peers()[0].Addrs, []string{"/mem/stranger"}) {
		t.Errorf("tried is %s, known are %v", who, m.Peers())
	}
	for range len(m.reach.kicks) {
		<-m.reach.kicks
	}
	m.mu.Lock()
	m.welcomeStrangers()
	m.mu.Unlock()
	if len(m.reach.kicks) != 0 {
		t.Error("a stranger is welcomed twice")
	}
}

func TestNoCrowdOfStrangersFillsTheMemory(t *testing.T) {
	m := quiet(t, gate{})
	for i := range 2 * maxStrangers {
		_ = delegate{m}.NotifyAlive(node(fmt.Sprint("s", i), memberlist.StateAlive, meta{}))
	}
	if len(m.strangers) != maxStrangers {
		t.Errorf("%d strangers are remembered, the cap is %d", len(m.strangers), maxStrangers)
	}
}

func TestAClusterOfStrangersIsNotJoined(t *testing.T) {
	d := delegate{quiet(t, gate{"friend": true})}
	for what, c := range map[string]struct {
		nodes []*memberlist.Node
		ok    bool
	}{
		"nobody":                      {nil, true},
		"strangers":                   {[]*memberlist.Node{node("a", memberlist.StateAlive, meta{}), node("b", memberlist.StateAlive, meta{})}, false},
		"a friend among strangers":    {[]*memberlist.Node{node("a", memberlist.StateAlive, meta{}), node("friend", memberlist.StateDead, meta{})}, true},
		"strangers who know this one": {[]*memberlist.Node{node("a", memberlist.StateAlive, meta{}), node("self", memberlist.StateAlive, meta{})}, true},
	} {
		if err := d.NotifyMerge(c.nodes); (err == nil) != c.ok {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestWhoHasAnOutdatedPictureOfThisPeerIsNoticed(t *testing.T) {
	m := quiet(t, gate{})
	for i, n := range []*memberlist.Node{
		{Name: "self", State: memberlist.StateAlive, Meta: m.ownMeta()}, // as it is
		{Name: "self", State: memberlist.StateSuspect, Meta: m.ownMeta()},
		{Name: "self", State: memberlist.StateDead, Meta: m.ownMeta()},
		node("self", memberlist.StateAlive, meta{Name: "an older name"}),
	} {
		_ = delegate{m}.NotifyMerge([]*memberlist.Node{n})
		if got := int(m.reach.outdated.Load()); got != i {
			t.Errorf("after picture %d: %d were outdated", i, got)
		}
	}
}

// What memberlist tells after the end of Run, from timers of its own, changes nothing.
func TestNothingIsBelievedAfterTheEnd(t *testing.T) {
	m := quiet(t, gate{"a": true, "b": true})
	d := delegate{m}
	d.NotifyJoin(node("a", memberlist.StateAlive, meta{Name: "first"}))
	m.mu.Lock()
	m.stopped = true
	m.mu.Unlock()
	d.NotifyJoin(node("b", memberlist.StateAlive, meta{}))
	d.NotifyUpdate(node("a", memberlist.StateAlive, meta{Name: "second"}))
	d.NotifyLeave(node("a", memberlist.StateDead, meta{}))
	m.Heard("c")
	m.overheard(message(suspectMsg, "a", 1))
	if got := m.View().String(); got != "a=alive self=alive" {
		t.Errorf("it is seen that %s", got)
	}
	if a, _ := m.View().Get("a"); a.Name != "first" {
		t.Errorf("a is called %s", a.Name)
	}
}

func TestAViewShowsWhatWasToldAndIsNeverChanged(t *testing.T) {
	m := quiet(t, gate{"a": true, "b": true})
	d := delegate{m}
	before := m.View()
	d.NotifyJoin(node("b", memberlist.StateAlive, meta{Name: "bee", Incarnation: "i2", Version: "2", Addrs: []string{"/mem/b"}}))
	d.NotifyJoin(node("a", memberlist.StateAlive, meta{}))
	d.NotifyLeave(node("a", memberlist.StateDead, meta{}))
	d.NotifyPingComplete(node("b", memberlist.StateAlive, meta{}), 8*time.Millisecond, nil)
	v := m.View()
	if before.String() != "self=alive" || v.String() != "a=dead b=alive self=alive" {
		t.Fatalf("before %s, now %s", before, v)
	}
	if b, ok := v.Get("b"); !ok || b.Name != "bee" || b.Incarnation != "i2" || b.RTT != 8*time.Millisecond || v.Verdict("b") != Alive {
		t.Errorf("b is %+v", b)
	}
	if _, ok := v.Get("c"); ok || v.Verdict("c").String() != "unknown" || v.Verdict("a").String() != "dead" {
		t.Error("who was never heard of is seen")
	}
	if !slices.Equal(v.Others(), []string{"b"}) {
		t.Errorf("others are %v", v.Others())
	}
	for x := range v.Alive() {
		if x.ID != "b" {
			t.Errorf("the first alive is %s", x.ID)
		}
		break
	}
}

func TestTheHighestHintIsKeptInWhateverOrderTheyCome(t *testing.T) {
	anyHint := rapid.Custom(func(t *rapid.T) Hint {
		small := rapid.Uint64Range(0, 3)
		return Hint{Epoch: taskstate.At(small.Draw(t, "generation"), small.Draw(t, "term")), Coordinator: rapid.SampledFrom([]string{"", "a", "b", "stranger"}).Draw(t, "who")}
	})
	rapid.Check(t, func(r *rapid.T) {
		m := quiet(t, gate{"a": true, "b": true})
		var best Hint
		for range rapid.IntRange(0, 8).Draw(r, "hints") {
			h := anyHint.Draw(r, "hint")
			mine := rapid.Bool().Draw(r, "its own word")
			if mine {
				m.SetHint(h)
			} else {
				delegate{m}.NotifyMsg(h.encode())
			}
			rank := func(h Hint) string {
				return fmt.Sprintf("%d %d %s", h.Epoch.Generation, h.Epoch.Term, h.Coordinator)
			}
			sound := !h.Epoch.IsZero() && h.Coordinator != "" && (mine || h.Coordinator != "stranger")
			if sound && (best.Epoch.IsZero() || rank(h) > rank(best)) {
				best = h
			}
			if got := m.Hint(); got != best {
				r.Fatalf("the hint is %v, want %v", got, best)
			}
		}
		other := quiet(t, gate{"a": true, "b": true, "stranger": true})
		delegate{other}.MergeRemoteState(delegate{m}.LocalState(false), false)
		if other.Hint() != best {
			r.Fatalf("with everything else came %v, want %v", other.Hint(), best)
		}
	})
}

func TestANewerHintTakesThePlaceOfAnOlderOneThatIsStillGossiped(t *testing.T) {
	m := quiet(t, gate{"a": true})
	for term := range uint64(5) {
		m.SetHint(Hint{Epoch: taskstate.At(1, term+1), Coordinator: "a"})
	}
	msgs := delegate{m}.GetBroadcasts(0, 10_000)
	if len(msgs) != 1 {
		t.Fatalf("%d hints are gossiped", len(msgs))
	}
	if h, ok := decodeHint(msgs[0]); !ok || h.Epoch != taskstate.At(1, 5) {
		t.Errorf("gossiped is %+v", h)
	}
}

func TestABookThatCannotBeSavedIsTriedAgain(t *testing.T) {
	var out bytes.Buffer
	dir := t.TempDir()
	m := quiet(t, gate{"a": true}, func(c *Config) {
		c.Book, c.Log = filepath.Join(dir, "not", "there", "book"), slog.New(slog.NewTextHandler(&out, nil))
	})
	delegate{m}.NotifyJoin(node("a", memberlist.StateAlive, meta{Addrs: []string{"/mem/a"}}))
	m.save(false)
	if !strings.Contains(out.String(), "may not find the others after a restart") {
		t.Errorf("it said %s", out.String())
	}
	m.cfg.Book = filepath.Join(dir, "book")
	m.save(false)
	if b, _, err := openBook(m.cfg.Book); err != nil || len(b.peers) != 1 {
		t.Errorf("it was not tried again: %v, %v", b, err)
	}
}

func TestAMembershipWithoutANetworkIsRefused(t *testing.T) {
	h := memnet.New().Host("self")
	for _, cfg := range []Config{{}, {Net: h}, {Host: h}} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "required") {
			t.Errorf("%v", err)
		}
	}
}

func TestTimingsThatWereChosenStayAndTheRestAreDefaults(t *testing.T) {
	d := DefaultTimings(10)
	if got := (Timings{}).or(d); got != d {
		t.Errorf("nothing chosen: %+v", got)
	}
	mine := Timings{Probe: 200 * time.Millisecond, Suspicion: 5, Retry: time.Hour}
	got := mine.or(d)
	want := d
	want.Probe, want.Suspicion, want.Retry, want.ProbeTimeout = mine.Probe, mine.Suspicion, mine.Retry, 100*time.Millisecond
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	all := Timings{1, 2, 3, 4, 5, 6, 7, 8, 9}
	if got := all.or(d); got != all {
		t.Errorf("all chosen: %+v", got)
	}
}
