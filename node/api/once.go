package api

import "github.com/coveyproject/covey/taskstate"

// onceMost is how many events Once remembers: more than a peer keeps for those who resume.
const onceMost = 1 << 15

// Once knows events again that it was shown. A peer that was restarted learns anew, from the ledger
// and from others, what it had told before, and tells it again: under another token, but otherwise
// the same. Who follows one across its restarts has Once leave that out. What a peer that has just
// started lists is what it knows by then: Once leaves out as well what would have a task go back.
// The zero value has seen nothing; it is not safe for concurrent use.
type Once struct {
	seen  map[happening]struct{}
	order []happening // a ring of those, oldest at next once it is full
	next  int
	far   map[string]taskstate.State // how far tasks have been told to be
}

// happening is what makes two events the same one.
type happening struct {
	kind, job, task, peer, state, message string
	at                                    int64
	exit                                  int
}

// First tells whether an event was not shown before, as far as Once remembers. Lines that are no
// events are always first; what a list of how things stand has said need not be told again.
func (o *Once) First(e Event) bool {
	switch e.Kind {
	case "job", "task", "peer", "coordinator":
	default:
		return true
	}
	h := happening{kind: e.Kind, job: e.Job, task: e.Task, peer: e.Peer, state: e.State, message: e.Message, at: e.Time.UnixMilli(), exit: -1}
	if e.Exit != nil {
		h.exit = *e.Exit
	}
	if o.back(e) {
		return false
	}
	if _, ok := o.seen[h]; ok {
		return e.Snapshot
	}
	o.keep(h)
	return true
}

// back tells whether an event has a task less far than an earlier one did.
func (o *Once) back(e Event) bool {
	var s taskstate.State
	if e.Kind != "task" || s.UnmarshalText([]byte(e.State)) != nil {
		return false
	}
	far, ok := o.far[e.Task]
	switch {
	case ok && s < far:
		return true
	case !ok && len(o.far) >= onceMost:
		clear(o.far) // some go back once, rather than all being remembered for ever
	}
	if o.far == nil {
		o.far = map[string]taskstate.State{}
	}
	o.far[e.Task] = s
	return false
}

func (o *Once) keep(h happening) {
	if o.seen == nil {
		o.seen = map[happening]struct{}{}
	}
	if len(o.order) < onceMost {
		o.order = append(o.order, h)
	} else {
		delete(o.seen, o.order[o.next])
		o.order[o.next] = h
		o.next = (o.next + 1) % onceMost
	}
	o.seen[h] = struct{}{}
}
