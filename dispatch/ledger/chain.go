package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"reflect"
	"slices"

	"github.com/coveyproject/covey/p2p/wire"
	"github.com/coveyproject/covey/taskstate"
)

// chain is a rolling checksum over all that was applied since an entry: the bytes of the public
// form of each and what it came to. A peer that applied the same entries since then has the same,
// whether it knows what jobs run or not; whose disk or memory changed something has another one
// from the next entry on. It begins with the first Lead entry that says so: entries of version 0.1
// never do, so that it begins at the same entry for everybody, wherever in the log of before a
// replica began.
type chain struct {
	from uint64 // the entry it begins with; 0: it has not begun
	sum  [sha256.Size]byte
}

// extend adds an entry that was just applied, its public form, what came of it, and how much there
// is of what the state holds.
func (c *chain) extend(e *Entry, public []byte, results []Result, sizes ...uint64) {
	if c.from == 0 && !slices.ContainsFunc(e.Commands, func(c Command) bool { return c.Lead != nil && c.Lead.Chain }) {
		return
	}
	if c.from == 0 {
		c.from = e.Index
	}
	h := sha256.New()
	h.Write(c.sum[:])
	number(h, e.Index, uint64(len(public)))
	h.Write(public)
	for i, r := range results {
		if r.Now, r.Along, r.Member, r.Signed = nil, nil, nil, false; r.Reopened != nil {
			r.Reopened = &Outline{} // what is in it not everybody knows
		}
		if reflect.ValueOf(&r).Elem().IsZero() {
			continue
		}
		b, err := wire.Marshal(r)
		if err != nil {
			b = []byte(err.Error())
		}
		number(h, uint64(i), uint64(len(b)))
		h.Write(b)
	}
	number(h, sizes...)
	h.Sum(c.sum[:0])
}

func number(h hash.Hash, ns ...uint64) {
	var b [8]byte
	for _, n := range ns {
		binary.BigEndian.PutUint64(b[:], n)
		h.Write(b[:])
	}
}

// job is the job a command brings; nil if it brings none.
func (c *Command) job() *taskstate.Job {
	switch {
	case c.Submit != nil:
		return &c.Submit.Job
	case c.Update != nil:
		return &c.Update.Job
	}
	return nil
}

// bare is the entry without what those jobs run of which hide says so, and these jobs.
func (e *Entry) bare(hide func(i int, job *taskstate.Job) bool) (out Entry, hidden []*taskstate.Job) {
	out = *e
	for i := range e.Commands {
		c := &e.Commands[i]
		job := c.job()
		if job == nil || job.Withheld != nil || job.Order == nil || !hide(i, job) {
			continue
		}
		if hidden == nil {
			out.Commands, out.raw = slices.Clone(e.Commands), nil
		}
		hidden = append(hidden, job)
		if c := &out.Commands[i]; c.Submit != nil {
			c.Submit = &Submit{Job: job.Bare(), Again: c.Submit.Again}
		} else {
			c.Update = &Update{Job: job.Bare(), From: c.Update.From}
		}
	}
	return out, hidden
}

// For is the entry as a peer gets it that may know of those jobs only what they run that it has to
// do with. A job that is not what was signed is in it whole: nobody takes it, and without all of it
// that cannot be seen.
func (e Entry) For(peer taskstate.PeerID) Entry {
	out, _ := e.bare(func(_ int, job *taskstate.Job) bool { return !job.Party(peer) && job.Fits() })
	return out
}

// EntryFor is Entry.For of an entry as a voter has it.
func EntryFor(data []byte, peer taskstate.PeerID) ([]byte, error) {
	e, err := ReadShown(0, data)
	if err != nil {
		return nil, err
	}
	out := e.For(peer)
	if out.raw != nil {
		return data, nil
	}
	return wire.Marshal(out)
}

// Public is the newest entry in the form in which everybody may have it.
type Public struct {
	Data    []byte             // nil: as it is in the log
	Parties []taskstate.PeerID // who has to do with jobs that are not whole in it
}

// NewestPublic is the public form of the entry that was applied last.
func NewestPublic(s *State) Public { return s.public }

// publicForm finds it for an entry that came to these results: a job that was accepted is what was
// signed.
func publicForm(e *Entry, results []Result) Public {
	if e.raw == nil {
		return Public{}
	}
	out, hidden := e.bare(func(i int, job *taskstate.Job) bool {
		return results[i].Refused == CodeNone && !results[i].Existed || job.Fits()
	})
	if hidden == nil {
		return Public{}
	}
	out.Index = 0
	data, err := wire.Marshal(out)
	if err != nil {
		data = []byte(err.Error())
	}
	p := Public{Data: data}
	for _, job := range hidden {
		p.Parties = append(p.Parties, job.Submitter, job.OrderedBy())
	}
	return p
}
