package shape

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/coveyproject/covey/node/api"
	"github.com/coveyproject/covey/taskstate"
)

const maxGroups = 200 // ways to fail that are told apart: the first

// MaxExamples is how many tasks of a group of failures are named.
const MaxExamples = 5

// ending is what failures of one group have in common.
type ending struct {
	state   taskstate.State
	exit    int
	signal  int
	reason  taskstate.Reason
	message string
}

type group struct {
	count, earlier int
	examples       []api.Example
	peers          map[taskstate.PeerID]int
}

type groups struct {
	of   map[ending]*group
	rest int // failures in none of them
}

// add takes in the end of a task, if it is a failure.
func (g *groups) add(r *Row, peer taskstate.PeerID, st *taskstate.Status) {
	if !bad(st.State) {
		return
	}
	e := ending{st.State, st.Exit, st.Signal, st.Reason, st.Message}
	x := g.of[e]
	if x == nil {
		if len(g.of) == maxGroups {
			g.rest++
			return
		}
		if g.of == nil {
			g.of = map[ending]*group{}
		}
		x = &group{peers: map[taskstate.PeerID]int{}}
		g.of[e] = x
	}
	x.peers[peer]++
	if r.Earlier {
		x.earlier++
	} else {
		x.count++
	}
	switch n := x.count + x.earlier; {
	case n <= MaxExamples:
		x.examples = append(x.examples, api.Example{Task: st.Task.String(), Peer: peer})
	case n&(n-1) == 0: // the last of them is a later one: how tasks fail may change
		x.examples[MaxExamples-1] = api.Example{Task: st.Task.String(), Peer: peer}
	}
}

// Failures are the tasks that failed, in groups, the largest first. The peers have no names yet.
func (f *Facts) Failures() api.Failures {
	out := api.Failures{Groups: []api.Failure{}, Rest: f.groups.rest}
	for e, x := range f.groups.of {
		g := api.Failure{
			State: e.state.String(), Signal: e.signal, Reason: string(e.reason), Message: e.message,
			Count: x.count, Earlier: x.earlier, Examples: slices.Clone(x.examples), Peers: []api.PeerCount{},
		}
		if e.exit != taskstate.NoExit {
			g.ExitCode = new(e.exit)
		}
		for p, n := range x.peers {
			g.Peers = append(g.Peers, api.PeerCount{Peer: p, Tasks: n})
		}
		slices.SortFunc(g.Peers, func(a, b api.PeerCount) int {
			return cmp.Or(cmp.Compare(b.Tasks, a.Tasks), cmp.Compare(a.Peer, b.Peer))
		})
		out.Groups = append(out.Groups, g)
		out.Count += x.count
	}
	slices.SortFunc(out.Groups, func(a, b api.Failure) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(b.Earlier, a.Earlier), cmp.Compare(a.Examples[0].Task, b.Examples[0].Task))
	})
	return out
}

const maxLast = 100 // characters of a line

// LastLine is the last line of an output that is not empty, for people: of one that was written
// over itself what stood there in the end, cut, its control characters spelled out.
func LastLine(out []byte) string {
	for len(out) > 0 {
		at := bytes.LastIndexAny(out, "\r\n")
		line := strings.TrimSpace(strings.ToValidUTF8(string(out[at+1:]), "\uFFFD"))
		if line != "" {
			return spelled(line)
		}
		out = out[:max(0, at)]
	}
	return ""
}

func spelled(line string) string {
	var b strings.Builder
	n := 0
	for _, r := range line {
		if n++; n > maxLast {
			return b.String() + "…"
		}
		switch {
		case r == '\t':
			b.WriteByte(' ')
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
