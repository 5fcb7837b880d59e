package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// Dialects is what the members of a State read. It is as old as the State, and read as that is.
type Dialects struct{ roster *roster }

// Dialects is what the members read.
func (s *State) Dialects() Dialects { return Dialects{&s.roster} }

// Spoken is what the cluster speaks: nothing above it is written.
func (d Dialects) Spoken() int { return d.roster.speaks() }

func (r *roster) speaks() int { return max(1, r.dialect) }

// Reads is the dialect a member reads, as far as it has said.
func (m Member) Reads() int { return max(1, m.Dialect) }

func (r *roster) reads(c *ReadsDialect) Result {
	m := r.members[c.Peer]
	switch {
	case m == nil || !m.In():
		return Result{Refused: CodeUnknown}
	case c.Dialect < 1:
		return Result{Refused: CodeInvalid}
	case c.Dialect < r.speaks():
		return Result{Refused: CodeDialect}
	case c.Dialect == m.Reads():
		return Result{Existed: true}
	}
	m.says(c.Dialect)
	r.raiseDialect()
	return Result{}
}

// says notes which dialect a member reads. Dialect 1 is written as none.
func (m *Member) says(dialect int) {
	if m.Dialect = dialect; dialect <= 1 {
		m.Dialect = 0
	}
}

// Heard is what is to be decided when members say which dialects they read, each its newest: at
// most limit commands, none of which is refused. The lowest come first, or the cluster might speak
// what one of them does not read. Who reads less than the cluster speaks is refused everywhere, and
// holds nobody up: of that nothing is decided.
func (d Dialects) Heard(say map[taskstate.PeerID]int, limit int) (out []Command) {
	var news []taskstate.PeerID
	for peer, dialect := range say {
		if m := d.roster.members[peer]; m != nil && m.In() && dialect != m.Reads() && dialect >= d.Spoken() {
			news = append(news, peer)
		}
	}
	slices.SortFunc(news, func(a, b taskstate.PeerID) int {
		return cmp.Or(cmp.Compare(say[a], say[b]), cmp.Compare(a, b))
	})
	for _, peer := range news[:min(limit, len(news))] {
		out = append(out, Command{Reads: &ReadsDialect{Peer: peer, Dialect: say[peer]}})
	}
	return out
}

// raiseDialect follows a change of what the members read.
func (r *roster) raiseDialect() {
	least := 0
	for _, m := range r.members {
		if m.In() && (least == 0 || m.Reads() < least) {
			least = m.Reads()
		}
	}
	if least > r.speaks() {
		r.dialect = least
	}
}

// DialectError refuses what not every member could read. It names those that are to be upgraded.
type DialectError struct {
	Needs, Speaks int
	Peers         []string // by name
}

// Error says what to do.
func (e *DialectError) Error() string {
	return fmt.Sprintf("this needs dialect %d, and the cluster speaks %d: install a newer version of peer on %s and restart it there", e.Needs, e.Speaks, strings.Join(e.Peers, ", "))
}

// Speaks tells whether all members could read what is to be written: nil, or a *DialectError.
func (d Dialects) Speaks(v any) error {
	needs := wire.Needs(v)
	if needs <= d.Spoken() {
		return nil
	}
	e := &DialectError{Needs: needs, Speaks: d.Spoken()}
	for _, m := range d.roster.members {
		if m.In() && m.Reads() < needs {
			e.Peers = append(e.Peers, m.called())
		}
	}
	slices.Sort(e.Peers)
	return e
}

func (m Member) called() string {
	for _, name := range []string{m.Name, m.Entry.Name} {
		if name != "" {
			return name
		}
	}
	return m.Entry.Peer
}
