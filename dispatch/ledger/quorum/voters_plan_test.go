package quorum

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/coveyproject/covey/taskstate"
)

// The tables are written in small words. A server: "a" votes, "a?" listens and is ready, "a-"
// listens and is not. "b/2" is another life of b. A candidate: "a" lives, "a!20s" is dead for so
// long, "a~" lives and is not eligible.
func parsePlan(servers, cands string) planInput {
	now := time.Unix(1_000_000, 0)
	in := planInput{Self: "a", Now: now, Replace: 30 * time.Second, Shrink: 10 * time.Minute}
	life := func(w string) (string, taskstate.Incarnation) {
		p, inc, ok := strings.Cut(w, "/")
		if !ok {
			inc = "1"
		}
		return p, taskstate.Incarnation(inc)
	}
	for _, w := range strings.Fields(servers) {
		s := seatView{Voter: Voter{Voting: !strings.HasSuffix(w, "?") && !strings.HasSuffix(w, "-")}, Ready: strings.HasSuffix(w, "?")}
		s.Peer, s.Incarnation = life(strings.TrimRight(w, "?-"))
		in.Servers = append(in.Servers, s)
	}
	for i, w := range strings.Fields(cands) {
		c := Candidate{Alive: true, Eligible: !strings.HasSuffix(w, "~"), Since: now.Add(time.Duration(i)*time.Second - time.Hour)}
		name, dead, isDead := strings.Cut(strings.TrimSuffix(w, "~"), "!")
		c.Peer, c.Incarnation = life(name)
		if isDead {
			d, err := time.ParseDuration(dead)
			if err != nil {
				panic(err)
			}
			c.Alive, c.Since = false, now.Add(-d)
		}
		in.Candidates = append(in.Candidates, c)
	}
	return in
}

func (c change) words() string {
	var who []string
	for _, v := range c.Servers {
		if v.Incarnation != "1" {
			who = append(who, v.server())
		} else {
			who = append(who, v.Peer)
		}
	}
	s := strings.TrimSpace(string(c.Kind) + " " + strings.Join(who, " "))
	if c.Kind == changeReplace {
		s += " for " + c.Old.server()
	}
	return s
}

func TestTheVotersRulesNameTheNextStep(t *testing.T) {
	for _, c := range []struct{ why, servers, candidates, want string }{
		{"alone", "a", "a", ""},
		{"two peers have one voter", "a", "a b", ""},
		{"three peers: two begin to listen", "a", "a b c", "add b c"},
		{"those here longest come first", "a", "a d c b", "add d c"},
		{"the third is dead: nobody to make it three", "a", "a b c!5s", ""},
		{"one has caught up: not alone", "a b? c-", "a b c", ""},
		{"both have: back to back", "a b? c?", "a b c", "promote b c"},
		{"one of two is dead now: wait", "a b? c?", "a b c!5s", "remove b"},
		{"a coordinator died between the two promotions", "a b c?", "a b c", "promote c"},
		{"even, and nobody can join: back to one", "a b", "a b", "remove b"},
		{"even, and somebody can", "a b", "a b c", "add c"},
		{"three of four", "a b c", "a b c d", ""},
		{"three of five", "a b c", "a b c d e", "add d e"},
		{"five at most", "a b c d e", "a b c d e f g", ""},
		{"four more at once listen, two at a time vote", "a b? c? d? e?", "a b c d e", "promote b c"},
		{"a voter dead for a moment stays", "a b c", "a b c!29s d", ""},
		{"dead for long: a live one begins to listen", "a b c", "a b c!30s d", "add d"},
		{"and takes its place", "a b c d?", "a b c!30s d", "replace d for c/1"},
		{"not before it has caught up", "a b c d-", "a b c!30s d", ""},
		{"it came back meanwhile: the spare goes", "a b c d?", "a b c d", "remove d"},
		{"nobody to replace it: three stay three", "a b c", "a b c!24h", ""},
		{"another disk: its own new life listens at once", "a b c", "a b c/2", "add c/2"},
		{"and replaces the old one", "a b c c/2?", "a b c/2", "replace c/2 for c/1"},
		{"a listener with another disk goes", "a b? c-", "a b c/2", "remove c"},
		{"a listener long dead goes", "a b- c-", "a b c!30s", "remove c"},
		{"five, one dead, nobody else: nine minutes", "a b c d e", "a b c d e!9m", ""},
		{"five, one dead for ten minutes: it goes", "a b c d e", "a b c d e!10m", "remove e"},
		{"then four: one more goes", "a b c d", "a b c d e!10m", "remove d"},
		{"then three stay", "a b c", "a b c d e!10m", ""},
		{"five, two dead, one spare: one is replaced", "a b c d e", "a b c d!1m e!1m f", "add f"},
		{"a removed peer loses its vote", "a b c", "a b", "remove c"},
		{"one without the role, too", "a b c", "a b c~", "remove c"},
		{"with another dead, the dead one goes first", "a b c", "a b~ c!5s", "remove c"},
		{"two left of three: one", "a b", "a b c~", "remove b"},
		{"a dead one goes before a live one", "a b c d", "a b!5s c d", "remove b"},
		{"the coordinator is never removed by the rules", "a", "", ""},
	} {
		if got := planVoters(parsePlan(c.servers, c.candidates)).words(); got != c.want {
			t.Errorf("%s: servers %q, candidates %q: %q, want %q", c.why, c.servers, c.candidates, got, c.want)
		}
	}
}

func TestLeavingShrinksToThoseWhoStay(t *testing.T) {
	for _, c := range []struct{ why, servers, candidates, want string }{
		{"all here: nothing to do", "a b c", "a b c", ""},
		{"of three one is off: it goes, then the one that leaves", "a b c", "a b c!1s", "c a"},
		{"of five two are off: they go", "a b c d e", "a b c d!1s e!1s", "d e"},
		{"two", "a b", "a b", "a"},
		{"alone", "a", "a", ""},
		{"nobody else lives", "a b c", "a b!1s c!1s", ""},
	} {
		in := parsePlan(c.servers, c.candidates)
		alive := aliveAmong(in.Candidates, Voter{})
		var voters []Voter
		for _, s := range in.Servers {
			voters = append(voters, s.Voter)
		}
		leaving, got := voters[0], ""
		for range 10 {
			next, ok := planHandover(voters, leaving, alive)
			if !ok {
				break
			}
			got += " " + next.Peer
			voters = slices.DeleteFunc(voters, func(v Voter) bool { return v == next })
			if next == leaving {
				break
			}
		}
		if got = strings.TrimSpace(got); got != c.want {
			t.Errorf("%s: removed %q, want %q", c.why, got, c.want)
		}
	}
}

// Whatever the cluster looks like: if the living are a majority before a step, they are after it;
// the number of voters stays within bounds; the rules come to rest, at an odd number of voters, if
// nothing else changes.
func TestTheVotersRulesComeToRestAndNeverLoseTheMajority(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := parsePlan("a", "a")
		for i := range rapid.IntRange(0, 7).Draw(t, "others") {
			p := string(rune('b' + i))
			inc := taskstate.Incarnation(rapid.SampledFrom([]string{"1", "1", "2"}).Draw(t, "life"))
			alive := rapid.IntRange(0, 3).Draw(t, "alive") > 0
			ago := rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour}).Draw(t, "since")
			if rapid.IntRange(0, 9).Draw(t, "listed") > 0 {
				in.Candidates = append(in.Candidates, Candidate{Peer: p, Incarnation: inc, Alive: alive, Since: in.Now.Add(-ago), Eligible: rapid.IntRange(0, 5).Draw(t, "eligible") > 0})
			}
			switch rapid.IntRange(0, 3).Draw(t, "server") {
			case 0:
				in.Servers = append(in.Servers, seatView{Voter: Voter{Peer: p, Incarnation: "1", Voting: true}})
			case 1:
				in.Servers = append(in.Servers, seatView{Voter: Voter{Peer: p, Incarnation: "1"}})
			}
		}
		answers := func(v Voter) bool {
			return v.Peer == "a" || slices.ContainsFunc(in.Candidates, func(c Candidate) bool {
				return c.Peer == v.Peer && c.Incarnation == v.Incarnation && c.Alive
			})
		}
		check := func(when string) {
			voting, living := 0, 0
			for _, s := range in.Servers {
				if s.Voting {
					voting++
					if answers(s.Voter) {
						living++
					}
				}
			}
			if living < majority(voting) {
				t.Fatalf("%s: %d of %d voters live: %v", when, living, voting, in.Servers)
			}
		}
		living, voting := 0, 0
		for _, s := range in.Servers {
			if s.Voting {
				voting++
				if answers(s.Voter) {
					living++
				}
			}
		}
		if living < majority(voting) || voting > MaxVoters+2 {
			t.Skip("nobody could lead")
		}
		for step := range 60 {
			for i := range in.Servers {
				in.Servers[i].Ready = answers(in.Servers[i].Voter)
			}
			c := planVoters(in)
			if c.Kind == changeNone {
				if n := len(newPlanner(in).voters); n%2 == 0 {
					t.Fatalf("at rest with %d voters: %v of %v", n, in.Servers, in.Candidates)
				}
				return
			}
			drop := func(v Voter) {
				in.Servers = slices.DeleteFunc(in.Servers, func(s seatView) bool { return s.Voter == v })
				check(fmt.Sprintf("step %d, %s", step, c.words()))
			}
			switch c.Kind {
			case changeAdd:
				for _, v := range c.Servers {
					in.Servers = append(in.Servers, seatView{Voter: v})
				}
				continue
			case changeRemove:
				drop(c.Servers[0])
				continue
			case changeReplace:
				drop(c.Old)
			}
			for _, v := range c.Servers {
				i := slices.IndexFunc(in.Servers, func(s seatView) bool { return s.Voter == v })
				in.Servers[i].Voting = true
				check(fmt.Sprintf("step %d, %s", step, c.words()))
			}
		}
		t.Fatalf("no rest after 60 steps: %v of %v", in.Servers, in.Candidates)
	})
}
