package highwater

import "time"

// Word is what somebody remembers of one worker: the number of the newest batch it signed, and that
// batch's sum if it is at hand.
type Remembered struct {
	Number uint64 `cbor:"1,keyasint,omitempty"`
	Sum    []byte `cbor:"2,keyasint,omitempty"`
}

// SessionRequest is a worker that asks for a session, as far as it matters what others remember of
// it.
type SessionRequest struct {
	Registered bool   // the ledger knows its incarnation: it may have had a session before
	Resumes    bool   // it names a session of this start of its, at which it was told what is remembered
	Last       uint64 // the newest batch it knows of
	Seated     bool   // its peer holds one of the seats, and is not the coordinator
}

// How long others are waited for.
const (
	soon     = 200 * time.Millisecond // for those beyond a majority, who may be dead
	patience = 2 * time.Second        // for a majority
)

// Inquiry is a coordinator's question to all who hold a seat, what they remember of a worker that
// comes back: it may have signed more than the coordinator heard, which may have been away then. It
// was elected by a majority, and any two majorities share a seat: what a majority beside the
// worker's own peer remembers is found. What that peer itself remembers may be as old as its
// journal: its seat is not asked, and is one more to wait for if somebody else of the majority is
// away.
//
// It is pure; its owner asks, and looks again at the time of Next.
type Inquiry struct {
	asked, told, silent int
	need                int // who must have told for a majority
	own                 int // seats of the worker
	began               time.Time
	patience            time.Duration // for a majority
	best                Remembered
}

// Inquire begins with what the coordinator itself remembers; seats are all, its own included.
func Inquire(c SessionRequest, own Remembered, seats int, now time.Time) *Inquiry {
	q := &Inquiry{asked: seats - 1, told: 1, need: seats/2 + 1, began: now, patience: patience, best: own}
	if c.Seated {
		q.asked, q.own = q.asked-1, 1
	}
	if !c.Registered || c.Resumes || own.Number > c.Last {
		q.asked, q.need = 0, 1 // nobody can say more that matters
	}
	return q
}

// Asks tells whether anybody is to be asked.
func (q *Inquiry) Asks() bool { return q.asked > 0 }

// Told takes one other's answer.
func (q *Inquiry) Told(w Remembered) {
	q.told++
	if w.Number > q.best.Number || w.Number == q.best.Number && len(q.best.Sum) == 0 {
		q.best = w
	}
}

// Silent notes that one other gives no answer.
func (q *Inquiry) Silent() { q.silent++ }

// Next is when the inquiry may be over though nobody says anything more; zero if it is over.
func (q *Inquiry) Next(now time.Time) time.Time {
	due := q.began.Add(q.patience)
	if q.told >= q.need {
		due = q.began.Add(soon)
	}
	if q.told+q.silent > q.asked || !now.Before(due) {
		return time.Time{}
	}
	return due
}

// Outcome is the most that anybody remembers. ok is false if fewer than a majority are there: then
// nothing follows from it.
func (q *Inquiry) Outcome() (w Remembered, ok bool) { return q.best, q.told+q.own >= q.need }
