package coordinator

import (
	"github.com/coveyproject/covey/dispatch/ledger"
	"github.com/coveyproject/covey/taskstate"
)

// Bounds of one proposal, so that an entry of the ledger stays well below a frame.
const (
	maxDecideSize = 512 << 10 // estimated bytes of Settle and Supersede
	statusBytes   = 72        // a status without its words, encoded

	supersedeBytes = 2 * statusBytes
)

// outbox is what is decided and not proposed, and how many proposals are under way.
type outbox struct {
	inflight   int
	registers  []*ledger.Register
	decided    []ledger.Command // by the steps of jobs
	supersedes []*ledger.Supersede
	settling   []*endQueue // ends to settle, by whose they are
}

// endQueue is ends that one life of a peer told, to be settled.
type endQueue struct {
	peer        taskstate.PeerID
	incarnation taskstate.Incarnation
	list        []taskstate.Status
}

func (o *outbox) register(r *ledger.Register)   { o.registers = append(o.registers, r) }
func (o *outbox) decide(cmd ledger.Command)     { o.decided = append(o.decided, cmd) }
func (o *outbox) supersede(s *ledger.Supersede) { o.supersedes = append(o.supersedes, s) }
func (o *outbox) settle(q *endQueue)            { o.settling = append(o.settling, q) }

func (o *outbox) proposals() int { return o.inflight }
func (o *outbox) proposed()      { o.inflight++ }
func (o *outbox) answered()      { o.inflight = max(0, o.inflight-1) }

// urgent takes out all that is small, and what is given up as far as one proposal reaches. size is
// an estimate of the latter.
func (o *outbox) urgent(cmds []ledger.Command, size int) ([]ledger.Command, int) {
	cmds = append(cmds, o.decided...)
	o.decided = nil
	n := 0
	for ; n < len(o.supersedes) && size < maxDecideSize; n++ {
		cmds = append(cmds, ledger.Command{Supersede: o.supersedes[n]})
		size += supersedeBytes
	}
	if o.supersedes = o.supersedes[n:]; len(o.supersedes) == 0 {
		o.supersedes = nil
	}
	return cmds, size
}

// ends takes out ends, as far as one proposal reaches, and tells of each queue that is empty now.
func (o *outbox) ends(cmds []ledger.Command, size int, empty func(*endQueue)) []ledger.Command {
	for len(o.settling) > 0 && size < maxDecideSize {
		q := o.settling[0]
		if cmds, size = q.take(cmds, size); len(q.list) > 0 {
			break
		}
		empty(q)
		o.settling = o.settling[1:]
	}
	return cmds
}

// take takes out ends, as far as one proposal reaches.
func (q *endQueue) take(cmds []ledger.Command, size int) ([]ledger.Command, int) {
	n := 0
	for ; n < len(q.list) && size < maxDecideSize; n++ {
		size += statusBytes + len(q.list[n].Message) + len(q.list[n].Reason) + q.list[n].Saved.Size()
	}
	if n > 0 {
		cmds = append(cmds, ledger.Command{Settle: &ledger.Settle{
			Peer: q.peer, Incarnation: q.incarnation, Statuses: q.list[:n:n],
		}})
	}
	q.list = q.list[n:]
	return cmds, size
}
