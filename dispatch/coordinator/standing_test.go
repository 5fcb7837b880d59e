package coordinator

import (
	"testing"

	"github.com/coveyproject/covey/membership/verdict"
)

func TestStandings(t *testing.T) {
	for _, c := range []struct {
		why  string
		f    Facts
		want Standing
	}{
		{"alive with a session", Facts{Session: true, Back: true, Verdict: verdict.Alive}, Ready},
		{"a session before gossip has heard of the peer", Facts{Session: true, Back: true}, Ready},
		{"gossip doubts a peer with an old session", Facts{Session: true, Back: true, Verdict: verdict.Suspect}, Suspect},
		{"gossip buries a peer with an old session: no new tasks, nothing replaced", Facts{Session: true, Back: true, Verdict: verdict.Dead}, Suspect},
		{"a session newer than the verdict", Facts{Session: true, Newer: true, Back: true, Verdict: verdict.Dead}, Ready},
		{"alive, but its session broke", Facts{Back: true, Verdict: verdict.Alive}, Detached},
		{"doubted, without a session", Facts{Back: true, Verdict: verdict.Suspect}, Suspect},
		{"dead and without a session", Facts{Back: true, Verdict: verdict.Dead}, Unreachable},
		{"just elected: not back yet", Facts{Verdict: verdict.Alive}, Unknown},
		{"just elected: never heard of", Facts{}, Unknown},
		{"just elected: dead by gossip alone", Facts{Verdict: verdict.Dead}, Unknown},
		{"just elected: does not answer, but gossip says nothing", Facts{Unanswered: true}, Unknown},
		{"just elected: dead by gossip, and does not answer", Facts{Verdict: verdict.Dead, Unanswered: true}, Unreachable},
		{"double grace is over: dead by gossip", Facts{Settled: true, Verdict: verdict.Dead}, Unreachable},
		{"double grace is over: alive", Facts{Settled: true, Verdict: verdict.Alive}, Detached},
		{"double grace is over: suspect", Facts{Settled: true, Verdict: verdict.Suspect}, Suspect},
		{"double grace is over: never heard of", Facts{Settled: true}, Detached},
		{"double grace is over: never heard of, and does not answer", Facts{Settled: true, Unanswered: true}, Unreachable},
		{"left, whatever else", Facts{Left: true, Session: true, Back: true, Verdict: verdict.Alive}, Left},
	} {
		if got := StandingOf(c.f); got != c.want {
			t.Errorf("%s: %s, want %s", c.why, got, c.want)
		}
	}
}

// Whatever the facts are: only who has no session can be given up, and only who has one gets tasks.
func TestOnlyPeersWithoutASessionAreUnreachableAndOnlyPeersWithOneAreReady(t *testing.T) {
	for bits := range 1 << 6 {
		for v := verdict.None; v <= verdict.Dead; v++ {
			f := Facts{
				Left: bits&1 != 0, Session: bits&2 != 0, Newer: bits&4 != 0, Back: bits&8 != 0,
				Unanswered: bits&16 != 0, Settled: bits&32 != 0, Verdict: v,
			}
			switch s := StandingOf(f); {
			case s == Unreachable && (f.Session || v == verdict.Alive || v == verdict.Suspect):
				t.Errorf("%+v is unreachable", f)
			case s == Ready && !f.Session:
				t.Errorf("%+v is ready", f)
			}
		}
	}
}
