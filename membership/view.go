package membership

import (
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/coveyproject/covey/membership/verdict"
	"github.com/coveyproject/covey/p2p/admission"
	"github.com/coveyproject/covey/p2p/starts"
	"github.com/coveyproject/covey/taskstate"
)

// PeerAddr is a peer id and multiaddrs to dial it at, without /p2p.
type PeerAddr = admission.PeerAddr

// Verdict is what this peer thinks of another's life.
type Verdict = verdict.Verdict

// The verdicts of those that gossip has heard of.
const (
	Alive   = verdict.Alive
	Suspect = verdict.Suspect
	Dead    = verdict.Dead
)

// Member is one peer as this peer sees it.
type Member struct {
	ID          string
	Name        string
	Incarnation taskstate.Incarnation // of its data folder; "" if it was not met since this peer started
	Seat        taskstate.Incarnation // of its seat among the voters, or of the one it would take; it has nothing to do with Incarnation
	Start       starts.Start          // of its program, as it said last
	Addrs       []string              // multiaddrs without /p2p
	Roles       []admission.Role      // as it says itself; the roster decides
	Version     string
	Recipient   string // what to seal to for it alone, as it says itself, signed; "" if it did not say
	Dialect     int    // the newest it reads; 0 if it did not say
	Verdict     Verdict
	Since       time.Time     // of the verdict
	Parted      bool          // dead: it said goodbye
	RTT         time.Duration // smoothed round trip of memberlist's probes, 0 if never measured
}

// View is everybody at one moment. It is never changed after it was handed out, and nobody may.
type View struct {
	Self    string
	Members []Member // sorted by ID; includes self, which is always Alive
}

// Get finds a member.
func (v *View) Get(id string) (Member, bool) {
	i, ok := slices.BinarySearchFunc(v.Members, id, func(m Member, id string) int { return strings.Compare(m.ID, id) })
	if !ok {
		return Member{}, false
	}
	return v.Members[i], true
}

// Verdict is what is thought of a peer; zero if nothing.
func (v *View) Verdict(id string) Verdict {
	m, _ := v.Get(id)
	return m.Verdict
}

// Alive yields the members with that verdict, self included.
func (v *View) Alive() iter.Seq[Member] {
	return func(yield func(Member) bool) {
		for _, m := range v.Members {
			if m.Verdict == Alive && !yield(m) {
				return
			}
		}
	}
}

// Others lists the ids of the members with verdict Alive, without self.
func (v *View) Others() []string {
	var ids []string
	for m := range v.Alive() {
		if m.ID != v.Self {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// String is one line, for logs and failing tests.
func (v *View) String() string {
	var b strings.Builder
	for i, m := range v.Members {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(m.ID + "=" + m.Verdict.String())
	}
	return b.String()
}
