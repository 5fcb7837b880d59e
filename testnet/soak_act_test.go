//go:build unix

package testnet

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/coveyproject/covey/node/api/client"
	"github.com/coveyproject/covey/taskstate/jobfile"

	"pgregory.net/rapid"
)

// undo is a hurt that lasts.
type undo struct {
	h       hurt
	victims []int
}

// Nobody is killed, paused or halted twice at a time, there is one cut at most, and when all is
// undone nothing is left of it.
func TestHurtsThatOverlapDoNotHitTheSamePeerTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const peers = 5
		s := &soak{hurting: make([]int, peers), touched: make([]int, peers), report: SoakReport{Hurts: map[string]int{}}}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		var lasting []undo
		var cut []int
		done := 0
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				s.boss = rapid.IntRange(0, peers).Draw(t, "boss")
				h, before := drawHurt(r, peers), slices.Clone(s.touched)
				v := s.take(h)
				switch {
				case h.What == "cut" && cut != nil:
					if len(v) > 0 {
						t.Fatalf("a second cut: %v beside %v", v, cut)
					}
				case h.What == "cut":
					if !slices.Equal(v, h.victims(s.boss)) {
						t.Fatalf("%s cuts off %v", h, v)
					}
					cut = v
				}
				for _, k := range v {
					for _, u := range lasting {
						if h.What != "cut" && slices.Contains(u.victims, k) {
							t.Fatalf("%s hits peer %d, which %s holds", h, k, u.h)
						}
					}
				}
				for i := range peers {
					if hit := slices.Contains(v, i+1) || h.What == "cut" && len(v) > 0; (s.touched[i] > before[i]) != hit {
						t.Fatalf("%s of %v touched %v after %v", h, v, s.touched, before)
					}
				}
				if len(v) > 0 {
					lasting, done = append(lasting, undo{h, v}), done+1
				}
			},
			"release": func(t *rapid.T) {
				if len(lasting) > 0 {
					i := rapid.IntRange(0, len(lasting)-1).Draw(t, "which")
					s.release(lasting[i].h, lasting[i].victims)
					if lasting[i].h.What == "cut" {
						cut = nil
					}
					lasting = slices.Delete(lasting, i, i+1)
				}
			},
			"": func(t *rapid.T) {
				whole := peers
				for k := 1; k <= peers; k++ {
					if quiet, _ := s.untouched(k); !quiet {
						whole--
					}
				}
				if s.split != (cut != nil) || !slices.Equal(s.minor, cut) {
					t.Fatalf("cut %v, noted as %v %v", cut, s.split, s.minor)
				}
				if s.majorityAble() != (2*whole > peers && 2*len(cut) <= peers) {
					t.Fatalf("%d are whole, cut off are %v, and a majority is able: %v", whole, cut, s.majorityAble())
				}
				total := 0
				for _, n := range s.report.Hurts {
					total += n
				}
				if total != done || len(lasting) == 0 && whole != peers {
					t.Fatalf("%d hurts are counted, %d were done; %d lasting, %d whole", total, done, len(lasting), whole)
				}
			},
		})
	})
}

func TestASlowPeerIsSlowUntilItIsUndoneAndOneThatCannotBeToldIsNoTrouble(t *testing.T) {
	s, all := soaking(t, 2, nil)
	h := hurt{What: "slow", Rate: 1000}
	s.begin(t.Context(), h, 2)
	if all[0].rate != 0 || all[1].rate != 1000 {
		t.Errorf("told %d and %d", all[0].rate, all[1].rate)
	}
	s.undo(t.Context(), 2, func(context.Context, int) error { return errors.New("it was started again") })
	if all[1].rate != 0 || s.net.Slowed(2) {
		t.Errorf("still told %d", all[1].rate)
	}
	all[1].end()
	s.begin(t.Context(), h, 2)
	if len(s.report.Trouble) != 0 {
		t.Errorf("%q", s.report.Trouble)
	}
}

// What a client submits is a valid job, and what is expected of it fits what it is.
func TestEveryJobOfASoakIsValidAndItsExpectationsFit(t *testing.T) {
	s := &soak{cfg: SoakConfig{Dir: t.TempDir(), Seed: 7}}
	seen := map[string]int{}
	r := rand.New(rand.NewPCG(1, 1))
	for range 500 {
		x := s.drawJob(r)
		seen[x.kind]++
		if err := jobfile.Validate(&x.job); err != nil {
			t.Fatalf("%s: %v", x.kind, err)
		}
		p := x.job.Run.Process
		switch {
		case x.marks != (p != nil), x.cancel != (x.end == "shutdown"), (x.exit != 0) != (x.end == "failed"), x.wait != x.job.Unreachable.Wait:
			t.Fatalf("%+v", x)
		case x.end == "" && !x.wait:
			t.Fatalf("%s may run again and may end anyhow: nothing is proven by it", x.kind)
		case p != nil && !strings.Contains(p.Command[0], s.marks()+"/"+string(x.job.ID)+"'"):
			t.Fatalf("%s leaves no marks of its own: %q", x.kind, p.Command)
		case (x.kind == "files") != (x.job.Outputs != nil):
			t.Fatalf("%+v", x)
		case x.cancel && !strings.Contains(p.Command[0], s.longSleep()):
			t.Fatalf("what is left of it would not be found: %q", p.Command)
		}
	}
	for _, kind := range []string{"noops", "naps", "processes", "sleeps", "once", "failures", "cancelled", "files"} {
		if seen[kind] == 0 {
			t.Errorf("never drawn: %s (drawn: %v)", kind, seen)
		}
	}
	if other := (&soak{cfg: SoakConfig{Seed: 8}}); other.longSleep() == s.longSleep() {
		t.Error("two runs would take each other's processes for their own")
	}
}

func TestTheCoordinatorOfASoakIsWhomAMajorityOfAllNames(t *testing.T) {
	for what, x := range map[string]struct {
		named  []int // by peer: whom it names, 0: nobody
		dumb   []int
		ended  []int
		paused []int
		want   int
	}{
		"all":                         {named: []int{2, 2, 2, 2, 2}, want: 2},
		"a majority":                  {named: []int{2, 2, 2, 4, 4}, want: 2},
		"no majority":                 {named: []int{2, 2, 4, 4, 0}},
		"nobody":                      {named: []int{0, 0, 0, 0, 0}},
		"a majority of those who say": {named: []int{2, 2, 2, 2, 2}, dumb: []int{1, 3, 4}},
		"it has ended":                {named: []int{2, 2, 2, 2, 2}, ended: []int{2}},
		"it is paused":                {named: []int{2, 2, 2, 2, 2}, paused: []int{2}},
		"others have ended":           {named: []int{2, 2, 2, 2, 2}, ended: []int{1}, paused: []int{5}, want: 2},
		"the paused have no voice":    {named: []int{2, 2, 2, 4, 4}, paused: []int{1}},
	} {
		s, all := soaking(t, 5, nil)
		for i, b := range x.named {
			if b > 0 {
				all[i].status.Coordinator = all[b-1].proc.id
			}
			all[i].dumb = slices.Contains(x.dumb, i+1)
			all[i].proc.paused = slices.Contains(x.paused, i+1)
			if slices.Contains(x.ended, i+1) {
				all[i].end()
			}
		}
		if got := s.namedBoss(t.Context()); got != x.want {
			t.Errorf("%s: %d", what, got)
		}
	}
}

func TestAQuestionThatNobodyCanBeAskedIsNotTakenForAnAnswer(t *testing.T) {
	s, all := soaking(t, 2, nil)
	r := rand.New(rand.NewPCG(1, 1))
	ask := func() (asked []int, err error) {
		err = s.once(t.Context(), r, "ask", func(_ context.Context, c *client.Client) error {
			for k := range all {
				if s.net.Client(k+1) == c {
					asked = append(asked, k+1)
				}
			}
			return nil
		})
		return asked, err
	}
	all[0].end()
	for range 20 {
		if asked, err := ask(); err != nil || !slices.Equal(asked, []int{2}) {
			t.Fatalf("asked %v, %v", asked, err)
		}
	}
	if s.report.SlowWhat == "" || !strings.HasPrefix(s.report.SlowWhat, "ask at peer 2") {
		t.Errorf("the slowest was %q", s.report.SlowWhat)
	}
	all[1].end()
	if _, err := ask(); !errors.Is(err, errNobodyUp) {
		t.Errorf("%v", err)
	}
}

func TestACommandOfAPeerThatIsBeingHurtDoesNotCountAsSlow(t *testing.T) {
	s, _ := soaking(t, 1, nil)
	r := rand.New(rand.NewPCG(1, 1))
	h := hurt{What: "pause", Other: 1, Order: []int{1}}
	for what, f := range map[string]func(){
		"before it":     func() { s.release(h, []int{1}) },
		"after it":      func() { s.take(h) },
		"in the midst":  func() { s.take(h); s.release(h, []int{1}) },
		"all the while": func() {},
	} {
		s.hurting[0] = 0
		if what == "before it" || what == "all the while" {
			s.take(h)
		}
		_ = s.once(t.Context(), r, what, func(context.Context, *client.Client) error { f(); return nil })
	}
	if s.report.SlowWhat != "" {
		t.Errorf("%q counts", s.report.SlowWhat)
	}
}

// Scripts read it.
func TestASoaksReportHasTheFieldsItAlwaysHad(t *testing.T) {
	b, err := json.Marshal(SoakReport{Hurts: map[string]int{"kill": 1}, Trouble: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(b, &fields); err != nil {
		t.Fatal(err)
	}
	names := slices.Sorted(maps.Keys(fields))
	want := "accepted cancels copies_owed double_runs files forbidden_double_runs held hung hurts longest_without_coordinator longest_without_coordinator_at lost" +
		" peers runs seconds seed settled slowest_command slowest_command_was strays trouble wrong"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("fields %s\nnot    %s", got, want)
	}
	if none, ok := fields["trouble"].([]any); !ok || len(none) > 0 {
		t.Errorf("no trouble is %v", fields["trouble"])
	}
}
