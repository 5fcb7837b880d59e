package admission_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/wire"
)

func TestARefusalsDetailIsShortenedAndStillText(t *testing.T) {
	for what, message := range map[string]string{
		"short": "used twice", "long": strings.Repeat("x", 300), "cut within a character": "x" + strings.Repeat("é", 200), "a face": strings.Repeat("🙂", 100) + "ü",
	} {
		bubble(t, func(t *testing.T, f *testCluster) {
			f.serve("v1", refuses(&admission.Refusal{Code: admission.UsedUp, Message: message}), f.roster(f.admit("v1", "v1")))
			_, err := admission.Join(t.Context(), f.net.Host("x"), "v1", admission.JoinRequest{})
			var no *admission.Refusal
			if !errors.As(err, &no) || no.Code != admission.UsedUp {
				t.Fatalf("%s: %v", what, err)
			}
			if !strings.HasPrefix(message, no.Message) || len(no.Message) < min(len(message), 253) || len(no.Message) > 256 {
				t.Errorf("%s: told %q", what, no.Message)
			}
		})
	}
}

// parts is a frame of an answer, as it is on the wire.
type parts struct {
	Answer *admission.JoinAnswer `cbor:"1,keyasint,omitempty"`
	Roster []admission.Entry     `cbor:"2,keyasint,omitempty"`
	More   bool                  `cbor:"3,keyasint,omitempty"`
}

// A peer that answers is not one that is trusted: what it says must be about who asked, and hold
// together.
func TestAnAnswerThatDoesNotFitTheQuestionIsRefused(t *testing.T) {
	f := newCluster(t)
	founder, mine, others := f.admit("v1", "v1"), f.admit("v1", "x"), f.admit("v1", "y")
	answer := func(e admission.Entry, of string) *admission.JoinAnswer {
		return &admission.JoinAnswer{Entry: e, Cluster: of}
	}
	many := make([]admission.Entry, 1+admission.MaxRoster/20)
	for i := range many {
		many[i] = admission.Entry{Peer: fmt.Sprint(i)}
	}
	flood := []parts{{Answer: answer(mine, cluster), More: true}}
	for range 20 {
		flood = append(flood, parts{Roster: many, More: true})
	}
	for what, x := range map[string]struct {
		frames []parts
		why    string
	}{
		"as asked":               {[]parts{{Answer: answer(mine, cluster), Roster: []admission.Entry{founder}, More: true}, {Roster: []admission.Entry{mine}}}, ""},
		"about another peer":     {[]parts{{Answer: answer(others, cluster)}}, `admits "y", not this peer`},
		"of a removal":           {[]parts{{Answer: answer(f.remove("v1", "x"), cluster)}}, "not this peer"},
		"of no cluster":          {[]parts{{Answer: answer(mine, "")}}, "contradicts itself"},
		"of two clusters":        {[]parts{{Answer: answer(mine, "other")}}, "contradicts itself"},
		"a tail first":           {[]parts{{Roster: []admission.Entry{founder}}}, "do not fit together"},
		"two beginnings":         {[]parts{{Answer: answer(mine, cluster), More: true}, {Answer: answer(mine, cluster)}}, "do not fit together"},
		"no end":                 {[]parts{{Answer: answer(mine, cluster), More: true}}, "gave no answer"},
		"nothing":                {nil, "gave no answer"},
		"more than there may be": {flood, "roster entries"},
	} {
		bubble(t, func(t *testing.T, f *testCluster) {
			f.net.Host("v1").Handle(admission.JoinProtocol, func(_ string, c net.Conn) {
				defer c.Close()
				var q admission.JoinRequest
				_ = wire.NewReader(c, 0).Read(&q)
				w := wire.NewWriter(c, 0)
				for _, p := range x.frames {
					if w.Send(p) != nil {
						return
					}
				}
			})
			a, err := admission.Join(t.Context(), f.net.Host("x"), "v1", admission.JoinRequest{})
			if (err == nil) != (x.why == "") || err != nil && !strings.Contains(err.Error(), x.why) {
				t.Errorf("%s: %v", what, err)
			}
			if x.why == "" && (len(a.Roster) != 2 || a.Cluster != cluster) {
				t.Errorf("%s: %+v", what, a)
			}
		})
	}
}

func TestAChainOfLargeEntriesIsShownAsFarAsItFits(t *testing.T) {
	bubble(t, func(t *testing.T, f *testCluster) {
		name := func(i int) string { return fmt.Sprint("v", i, strings.Repeat("x", 124)) }
		founder := f.admit("v1", "v1")
		chain := []admission.Entry{founder, f.admit("v1", name(0))}
		seats := []admission.Seats{f.seats("v1", 1, "v1"), f.seats("v1", 2, name(0))}
		for i := range 9 {
			chain = append(chain, f.sign(name(i), admission.Entry{
				Cluster: cluster, Peer: name(i + 1), Name: strings.Repeat("n", 60), Ticket: strings.Repeat("t", 128), Roles: admission.AllRoles(), At: int64(100 + i),
			}))
			seats = append(seats, f.seats(name(i), uint64(3+i), name(i+1)))
		}
		mine := f.roster(chain...)
		mine.Believe(f.chain(seats...), nil, nil)
		for via, knows := range map[string]int{"v1": 7, "v2": 6} { // four records of seats are shown: the oldest of them was signed by who holds the seventh
			theirs := f.roster(chain[0])
			theirs.Believe(f.chain(seats[:knows]...), nil, nil)
			f.serve(via, nil, theirs)
			err := admission.Show(t.Context(), f.net.Host(name(9)), via, mine)
			var no *admission.Refusal
			if in := theirs.Admitted(name(9)); in != (knows == 7) || in != (err == nil) || !in && (!errors.As(err, &no) || no.Code != admission.Refused) {
				t.Errorf("with %d records known there: %v, admitted %v", knows, err, in)
			}
		}
	})
}

func TestAShowOfTooManyEntriesIsNotLookedAt(t *testing.T) {
	bubble(t, func(t *testing.T, f *testCluster) {
		r := f.roster(f.admit("v1", "v1"))
		f.serve("v1", nil, r)
		short := admission.Entry{Cluster: cluster, Peer: "z", By: "v1", Sig: []byte{1}}
		q := struct {
			Entries []admission.Entry `cbor:"1,keyasint"`
		}{append([]admission.Entry{f.admit("v1", "z")}, short, short, short, short, short, short, short, short)}
		if raw := f.talk("v1", admission.RosterProtocol, q); len(raw) > 0 || r.Admitted("z") {
			t.Errorf("answered %q, admitted %v", raw, r.Admitted("z"))
		}
		q.Entries = q.Entries[:8]
		if raw := f.talk("v1", admission.RosterProtocol, q); len(raw) == 0 || !r.Admitted("z") {
			t.Errorf("answered %q, admitted %v", raw, r.Admitted("z"))
		}
	})
}
